"""The public functions: lists in, results out, the same figures as the command line's."""

import inspect as python_inspect
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import glassformer as gf
from cli.models import TEXTS, write_model
from glassformer.api.recipe import settings_of
from glassformer.checkpoint import read
from glassformer.config import PRESETS, RunSettings
from glassformer.data.prepare import prepare
from glassformer.errors import InputError, SettingsError
from glassformer.evaluate.evaluation import Evaluation
from glassformer.pipeline import Classifier, Generator, Translator
from glassformer.progress import Bar, progress
from train.runs import PAIRS, TINY, Command, assert_same_bits

HOSTILE = '</script><img src=x onerror="alert(1)">\' & "quoted" {{data}}'
REVIEWS = [(f"a {'fine' if good else 'dull'} {noun} again", good) for noun in
           ("film", "book", "play", "song", "tale", "game") for good in (0, 1)]  # fmt: skip


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder with a cache of its own, which is the current one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GLASSFORMER_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def small(**sections: dict[str, Any]) -> RunSettings:
    """Settings of a run of eight updates on text."""
    settings = RunSettings(model=TINY.model, train=TINY.train)
    data = {"valid_examples": 12, "batch_tokens": 64}
    return settings.replace(model={"vocab_size": 60}, data=data).replace(**sections)


# train


def test_a_list_of_pairs_trains_the_same_bits_as_the_command_line(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = gf.train(small(), PAIRS[12:], valid=PAIRS[:12], run="runs/list", progress=False)
    assert (run.steps, run.reason, run.signal) == (8, "8 updates", None)
    assert run.folder == Path("runs/list") and run.metric == "loss"
    scores = [record["valid_loss"] for record in run.log() if "valid_loss" in record]
    assert run.best == min(scores)
    assert isinstance(run.load(), Translator)
    assert capsys.readouterr() == ("", "")
    recipe = read(run.folder / "latest").settings.replace(data={"labels": ()})
    Path("list.toml").write_text(recipe.to_toml())
    code, _, msg = Command(monkeypatch, capsys)("train", "list.toml", "--run", "runs/typed")
    assert code == 0, msg
    assert_same_bits(Path("runs/list"), Path("runs/typed"))
    assert read(Path("runs/typed/latest")).settings == read(run.folder / "latest").settings


def test_texts_with_labels_train_a_classifier_and_a_part_is_held_out(place: Path) -> None:
    settings = small(model={"kind": "classifier"}, train={"metric": "accuracy"})
    run = gf.train(settings, REVIEWS, run="runs/reviews", progress=False)
    lines = [
        [json.loads(line) for line in (run.folder / f"data/{name}.jsonl").read_text().splitlines()]
        for name in ("train", "valid")
    ]
    assert sorted(map(tuple, lines[0] + lines[1])) == sorted(REVIEWS) and len(lines[1]) == 1
    model = run.load()
    assert isinstance(model, Classifier) and model.labels == ("0", "1")
    assert run.best in (0.0, 100.0)


def test_texts_alone_train_a_language_model(place: Path) -> None:
    texts = [source for source, _ in PAIRS]
    run = gf.train(small(model={"kind": "language-model"}), texts, progress=False)
    assert run.folder == Path("runs/language-model") and isinstance(run.load(), Generator)


def test_a_run_of_lists_is_resumed_to_the_same_bits(place: Path) -> None:
    whole = gf.train(small(), PAIRS, run="whole", progress=False)
    half = {"train": {"max_steps": 4}}
    gf.train(small(), PAIRS, run="parts", changes=half, progress=False)
    with pytest.raises(SettingsError, match=r"already holds a run(?s:.*)resume=True"):
        gf.train(small(), PAIRS, run="parts", progress=False)
    parts = gf.train(small(), PAIRS, run="parts", resume=True, progress=False)
    assert (whole.steps, whole.best) == (parts.steps, parts.best)
    one, other = (read(Path(name) / "latest").weights for name in ("whole", "parts"))
    assert all((one[name] == other[name]).all() for name in one)


def test_training_gives_the_callers_seed_and_threads_back(place: Path) -> None:
    torch.manual_seed(5)
    torch.set_num_threads(2)
    state = torch.get_rng_state()
    gf.train(TINY, run="one", changes={"train": {"max_steps": 1}}, progress=False)
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == 2


def test_a_recipe_is_a_file_a_preset_settings_or_a_mapping(place: Path) -> None:
    Path("mine.toml").write_text(TINY.to_toml())
    assert settings_of("mine.toml") == settings_of(Path("mine.toml")) == settings_of(TINY) == TINY
    assert settings_of(TINY.model_dump()) == TINY
    assert settings_of("tiny").model == PRESETS["tiny"]
    assert settings_of("tiny", {"train": {"max_steps": 3}}).train.max_steps == 3
    with pytest.raises(SettingsError, match=r"no recipe absent\.toml"):
        settings_of("absent.toml")


@pytest.mark.parametrize(
    ("data", "valid", "message"),
    [
        (["a text"], None, "is not an example for a translator"),
        ([("a", "b", "c")], None, "is not an example for a translator"),
        ([("a", None)], None, "is not an example for a translator"),
        ([("a", "b")], None, "1 examples to train on and 0 to validate on"),
        ([], None, "0 examples to train on"),
        (None, [("a", "b")], "without a list to train on"),
    ],
)
def test_lists_that_are_no_examples_are_refused(
    place: Path, data: Any, valid: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        gf.train(small(), data, valid=valid, run="run", progress=False)
    assert not Path("run").exists()


def test_a_run_prints_and_shows_its_folder_and_score(place: Path) -> None:
    run = gf.train(TINY, run="<b>run</b>", progress=False)
    assert "best loss" in str(run) and "8 updates" in str(run)
    assert "&lt;b&gt;run&lt;/b&gt;" in run._repr_html_() and "<b>" not in run._repr_html_()


# evaluate


def test_rows_score_as_the_same_rows_in_a_file(place: Path) -> None:
    write_model("run")
    rows = list(zip(TEXTS, reversed(TEXTS), strict=True))
    found = gf.evaluate("run", rows, beam_size=1, progress=False)
    Path("rows.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    table = gf.evaluate("run", Path("rows.tsv"), columns=("1", "2"), beam_size=1, progress=False)
    assert found.scores == table.scores and found.outputs == table.outputs
    assert set(found.scores) == {"bleu", "chrf", "perplexity", "exact_match"}
    several = gf.evaluate("run", [(a, b, a) for a, b in rows], beam_size=1, progress=False)
    assert several.card.circumstances.settings["references"].startswith("2 a sentence")
    loaded = gf.load("run")
    assert gf.evaluate(loaded, rows, beam_size=1, progress=False).scores == found.scores
    assert "BLEU" in str(found) and f"{found.scores['chrf']:.2f}" in str(found)


def test_a_classifier_is_scored_on_rows_of_texts_and_labels(place: Path) -> None:
    write_model("run", "classifier")
    labels = [found.label for found in gf.load("run").classify(TEXTS)]  # type: ignore[union-attr]
    found = gf.evaluate("run", list(zip(TEXTS, labels, strict=True)), progress=False)
    assert found.scores["accuracy"] == 1.0 and found.outputs == labels
    for option in ({"beam_size": 2}, {"beams": True}, {"to": "fr"}):
        with pytest.raises(InputError, match="for a classifier"):
            gf.evaluate("run", [(TEXTS[0], "sad")], progress=False, **option)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [[], [("a",)], [("a", "")], ["ab"], [("a", "b"), ("c",)]], ids=str)
def test_rows_that_cannot_be_evaluated_are_refused(place: Path, rows: Any) -> None:
    write_model("run")
    with pytest.raises(InputError, match=r"Row \d|no row"):
        gf.evaluate("run", rows, progress=False)


def test_options_of_loading_do_not_go_with_a_loaded_model(place: Path) -> None:
    write_model("run")
    with pytest.raises(InputError, match="loaded already"):
        gf.evaluate(gf.load("run"), [("a", "b")], int8=True, progress=False)


class Tags(HTMLParser):
    """The tags, attributes and text of HTML, as a browser takes it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_text_cannot_become_markup_in_the_tables_of_a_score(place: Path) -> None:
    write_model("run")
    rows = [(HOSTILE[:20], HOSTILE)] * 2
    found = gf.evaluate("run", rows, name=HOSTILE, command=HOSTILE, failures=2, truncate=True,
                        progress=False, beam_size=1)  # fmt: skip
    page = Tags(found._repr_html_())
    assert "img" not in page.tags and "script" not in page.tags
    assert HOSTILE in page.text and {name for name, _ in page.attributes} == {"style"}


# inspect


def test_a_trace_shows_itself_in_a_frame_that_hostile_text_cannot_leave(place: Path) -> None:
    write_model("run")
    trace = gf.inspect("run", HOSTILE, truncate=True, beam_size=1, name=HOSTILE)
    frame = Tags(trace._repr_html_())
    assert frame.tags == ["iframe"] and frame.text == ""
    attributes = dict(frame.attributes)
    assert attributes["sandbox"] == "allow-scripts"
    page = Tags(attributes["srcdoc"] or "")
    assert "img" not in page.tags and page.tags.count("script") == 2
    trace.save("page.html")
    assert Path("page.html").read_text("utf-8") == attributes["srcdoc"]


def test_a_trace_opens_a_browser_outside_of_notebooks(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model("run")
    trace = gf.inspect("run", "a dog", beam_size=1)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda uri: bool(opened.append(uri)))
    trace.show()
    (uri,) = opened
    path = Path(uri.removeprefix("file://"))
    assert path.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert str(path) in capsys.readouterr().err


# Notebooks


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect what a stand-in for a notebook's kernel displays, in order."""
    shown: list[Any] = []
    module: Any = ModuleType("IPython.display")
    module.HTML = lambda text: text
    module.DisplayHandle = lambda: SimpleNamespace(display=shown.append, update=shown.append)
    module.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    return shown


def test_progress_is_a_bar_in_a_notebook(displayed: list[Any]) -> None:
    with progress("a & b", 2) as tick:
        tick()
        tick()
    assert len(displayed) == 3 and 'value="0.5000"' in displayed[1] and "100%" in displayed[2]
    assert all("a &amp; b" in html for html in displayed)


def test_training_is_a_bar_in_a_notebook(displayed: list[Any]) -> None:
    record = {
        "step": 5, "seconds": 1.0, "train_loss": 2.5, "labels_per_second": 10.0,
        "gradient_norm": 1.0, "learning_rate": 0.1,
    }  # fmt: skip
    with Bar("training", 10, 0, None, 0.0) as bar:
        bar.record(record)
    assert 'value="0.5000"' in displayed[-1] and "loss 2.500" in displayed[-1]


def test_a_trace_is_displayed_in_a_notebook(place: Path, displayed: list[Any]) -> None:
    write_model("run")
    trace = gf.inspect("run", "a dog", beam_size=1)
    trace.show()
    assert displayed == [trace]


# The functions as objects


@pytest.mark.parametrize("name", gf._CALLABLE_MODULES)
def test_a_function_and_the_package_of_its_name_are_one(name: str) -> None:
    function = python_inspect.unwrap(getattr(gf, name))
    assert function.__name__ == name and function.__doc__
    assert python_inspect.signature(getattr(gf, name)) == python_inspect.signature(function)


def test_importing_from_a_package_leaves_the_function_callable() -> None:
    code = (
        "import sys, glassformer as gf; before = [getattr(gf, n) for n in gf._CALLABLE_MODULES];"
        "assert 'torch' not in sys.modules;"
        "import glassformer.evaluate.card, glassformer.train.log, glassformer.inspect.heads;"
        "after = [getattr(gf, n) for n in gf._CALLABLE_MODULES];"
        "assert before == after and all(map(callable, after)), after"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_result_objects_are_what_the_docstrings_say(place: Path) -> None:
    write_model("run")
    found = gf.evaluate("run", [(TEXTS[0], TEXTS[1])], beam_size=1, progress=False)
    assert isinstance(found, Evaluation)
    assert json.loads(json.dumps(found.to_json()))["kind"] == "translation"
    assert found.to_markdown().startswith("# Translations of run")


def test_the_data_of_a_named_set_is_trained_on(place: Path) -> None:
    settings = small(data={"examples": 30})
    run = gf.train(settings, "grammar", run="grammar", progress=False)
    assert run.settings.data.name == "grammar"
    assert prepare(settings, threads=1).settings.model == run.settings.model
