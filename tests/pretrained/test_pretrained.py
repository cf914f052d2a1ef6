"""A bundled model is found by its name, and what is not there is told."""

import json
import tomllib
from pathlib import Path

import pytest

from glassformer import checkpoint, pretrained
from glassformer.data.direction import guess_language
from glassformer.errors import CheckpointError
from glassformer.evaluate import behaviour, suite
from glassformer.pipeline import Translator, load_classifier, load_translator
from glassformer.quantize import is_quantised
from pretrained.stand_ins import CARDS, bundle, write

REPOSITORY = Path(__file__).parents[2]
BOTH = ("en-fr", "sentiment")
MEGABYTES = 45  # of all the models together
TOLD = ("data", "scores", "limits", "licence")  # sections of a card
FACTS = {"score", "licence"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two stand-ins, and a current folder in which there is nothing."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return bundle(monkeypatch, tmp_path / "package", *BOTH)


def test_a_name_is_that_of_a_folder_with_a_checkpoint(root: Path) -> None:
    assert pretrained.names() == list(BOTH)
    for name in BOTH:
        assert pretrained.folder(name) == root / name
        assert is_quantised(checkpoint.read(pretrained.folder(name)).weights)


def test_a_card_is_what_lies_in_the_folder_and_its_heading_the_title(root: Path) -> None:
    assert {name: pretrained.card(name) for name in BOTH} == CARDS
    assert pretrained.title("en-fr") == "English to French"
    assert pretrained.facts("en-fr") == {"score": "none", "licence": "any"}
    assert pretrained.facts("sentiment") == {}


def test_the_direction_is_that_of_a_translator(root: Path) -> None:
    assert [pretrained.direction(name) for name in BOTH] == ["en → fr", ""]


def test_settings_and_size_are_those_of_the_checkpoint(root: Path) -> None:
    for name in BOTH:
        assert pretrained.settings(name) == checkpoint.read(root / name).settings
        files = [file.read_bytes() for file in (root / name).iterdir()]
        assert pretrained.size(name) == sum(map(len, files)) > len(CARDS[name])


def test_what_is_there_is_a_path_and_what_is_not_may_be_a_name(root: Path) -> None:
    for named in ("en-fr", Path("en-fr")):
        assert pretrained.resolve(named) == root / "en-fr"
    write(Path("en-fr"), "translator")
    assert pretrained.resolve("en-fr") == Path("en-fr")
    assert pretrained.folder("en-fr") == root / "en-fr"


@pytest.mark.parametrize(
    ("name", "near"), [("en_fr", "en-fr"), ("sentimant", "sentiment"), ("enfr", "en-fr")]
)
def test_a_misspelt_name_is_told_what_there_is_and_what_is_near(
    root: Path, name: str, near: str
) -> None:
    for find in (pretrained.resolve, pretrained.folder, pretrained.card):
        with pytest.raises(CheckpointError) as caught:
            find(name)
        assert caught.value.what == f"There is no model {name!r}."
        assert "en-fr, sentiment" in caught.value.why
        assert f"Did you mean {near!r}?" in caught.value.remedy


@pytest.mark.parametrize("path", ["runs/absent", "./en-fr", "en-fr/best", "../package/none"])
def test_a_path_that_is_not_there_is_not_taken_for_a_name(root: Path, path: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        pretrained.resolve(path)
    assert path in caught.value.what and "Did you mean" not in caught.value.remedy
    assert "runs/demo" in caught.value.remedy


def test_a_package_without_any_model_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle(monkeypatch, tmp_path / "package")
    monkeypatch.chdir(tmp_path)
    assert pretrained.names() == []
    for find in (pretrained.resolve, pretrained.folder):
        with pytest.raises(CheckpointError) as caught:
            find("en-fr")
        assert "with this copy none does" in caught.value.why
        assert "glassformer demo" in caught.value.remedy


@pytest.mark.parametrize("name", BOTH)
def test_every_file_of_a_model_goes_into_the_wheel(root: Path, name: str) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["glassformer"]
    files = [Path("pretrained", name, file.name) for file in (root / name).iterdir()]
    assert len(files) == 5
    assert [file for file in files if not any(map(file.match, patterns))] == []
    assert not any(map(Path("pretrained/__pycache__/__init__.pyc").match, patterns))


# The models of the package itself

THERE = pretrained.names()


def test_the_models_of_the_package_are_these_and_not_too_large() -> None:
    assert THERE == ["captions-en-fr", "en-fr", "sentiment"]
    assert {pretrained.TRANSLATOR, pretrained.CLASSIFIER} <= set(THERE)
    assert sum(map(pretrained.size, THERE)) <= MEGABYTES * 1e6


@pytest.mark.parametrize("name", THERE)
def test_a_model_of_the_package_is_whole_small_and_described(name: str) -> None:
    saved = checkpoint.read(pretrained.folder(name))
    assert is_quantised(saved.weights) and saved.tokenizers
    files = {file for file, _ in saved.files()} | {checkpoint.MANIFEST, pretrained.CARD}
    assert {file.name for file in pretrained.folder(name).iterdir()} == files
    card = pretrained.card(name)
    assert card.startswith("# ") and len(pretrained.title(name)) <= 80
    sections = [line[3:].lower() for line in card.splitlines() if line.startswith("## ")]
    assert [name for name in TOLD if name not in sections] == []
    assert pretrained.facts(name).keys() == FACTS


def test_the_caption_model_of_the_package_translates_captions() -> None:
    err = load_translator("captions-en-fr").translate("A man is riding a red bicycle.")
    assert "homme" in err.lower() and "vélo" in err.lower() and "rouge" in err.lower()


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load_translator(pretrained.TRANSLATOR)


def test_the_translator_of_the_package_translates_both_ways(translator: Translator) -> None:
    assert translator.targets == ("fr", "en") and translator.int8
    assert pretrained.direction("en-fr") == "en ⇄ fr"
    texts = ["Thank you very much for your help.", "Je ne sais pas où il est."]
    guessed = translator.translate(texts)
    assert [guess_language(err) for err in guessed] == ["fr", "en"]
    for text, err, to in zip(texts, guessed, ("fr", "en"), strict=True):
        assert translator.translate(text, to=to) == err
        assert translator.translate(err, to=to) == err  # it is in that language already


def test_the_translator_of_the_package_copies_items_and_capitals(translator: Translator) -> None:
    err = translator.translate("Please write to anna.k@example.org before Monday 😀", to="fr")
    assert "anna.k@example.org" in err and err.endswith("😀")
    assert translator.translate("THE SHOP IS CLOSED TODAY.", to="fr").isupper()
    text = "See https://example.org/a_b for more. THE SHOP IS CLOSED."
    told = "".join(translator.stream(text, to="fr"))
    assert told == translator.translate(text, 1, to="fr") and "https://example.org/a_b" in told


@pytest.mark.parametrize("heading", ["Scores", "Behaviour"])
def test_the_figures_of_a_card_are_those_of_results(heading: str) -> None:
    """The card of a model that is scored by `evaluate --card` shows the file in results/."""
    file = {"Scores": "en-fr.json", "Behaviour": "en-fr_behaviour.json"}[heading]
    found = json.loads((REPOSITORY / "results" / file).read_text("utf-8"))
    card = pretrained.card("en-fr")
    if heading == "Scores":
        assert pretrained.facts("en-fr")["score"] == suite.best(found)
        shown = suite.section(found)
    else:
        shown = behaviour.section(list(found.values()), "").partition("\n\n```")[0]
    assert shown in card


def test_the_classifier_of_the_package_knows_praise_from_blame() -> None:
    praise = "A wonderful film, beautifully acted and moving. I loved every minute of it."
    blame = "A terrible film, badly acted and boring. The worst that I have ever seen."
    found = load_classifier("sentiment").classify([praise, blame])
    assert [one.label for one in found] == ["positive", "negative"]
