"""`glassformer evaluate` as a user meets it: a run, some data, and the card."""

import gzip
import json
import sys
from hashlib import sha256
from math import exp
from pathlib import Path
from typing import Any

import pytest
import torch

import two_way
from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint, weights_of
from glassformer.config import RunSettings
from glassformer.data import datasets
from glassformer.data.prepare import prepare
from glassformer.data.typography import normalize
from glassformer.decode.options import SearchOptions
from glassformer.evaluate.bleu import bleu
from glassformer.evaluate.translation import Translations
from glassformer.model.build import build
from glassformer.pipeline import load_classifier, load_translator
from glassformer.progress import watched_fetching
from pretrained.stand_ins import bundle
from train.runs import ON_FILES, PAIRS, Command, text

SOURCES, REFERENCES = map(list, zip(*PAIRS[:12], strict=True))


def saved(settings: RunSettings, folder: str = "run") -> None:
    """A run that was never trained; weights so large that it says this and that."""
    data = prepare(settings, threads=1)
    torch.manual_seed(0)
    weights = weights_of(build(data.settings.model))
    large = {n: torch.randn_like(w) / 2 for n, w in weights.items() if w.dim() == 2}
    checkpoint.write(Checkpoint(data.settings, weights | large, data.tokenizers), Path(folder))


@pytest.fixture
def translator(glassformer: Command, tmp_path: Path) -> Command:
    """The command, with a translator in `run` and its text in valid.en and valid.fr."""
    saved(text(tmp_path, data={"max_length": 30}))
    return glassformer


@pytest.fixture
def classifier(glassformer: Command, tmp_path: Path) -> Command:
    """The command, with a classifier in `run` and its text in valid.jsonl."""
    rows = [
        {"text": f"a {mood} fox {n}", "label": mood} for n in range(10) for mood in ("sad", "glad")
    ]
    for name in ("train", "valid"):
        Path(f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = {name: [str(tmp_path / f"{name}.jsonl")] for name in ("train", "valid")}
    model: dict[str, Any] = {"kind": "classifier", "vocab_size": 40}
    data = {"columns": ["text", "label"], "max_length": 12, **files}
    saved(ON_FILES.replace(model=model, data=data))
    return glassformer


FILES = ("--source", "valid.en", "--reference", "valid.fr")
ONE = ("--threads", "1")
LEARNED = {"positions": "learned", "max_positions": 31}


def card(path: str = "card.json") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(path).read_text())
    return content


# Translators


def test_a_translator_gets_a_card_as_a_table_as_json_and_as_markdown(translator: Command) -> None:
    files = ("--json", "out/card.json", "--markdown", "out/card.md", "--output", "out/msg.fr")
    code, out, msg = translator("evaluate", "run", *FILES, *ONE, *files)
    assert code == 0, msg
    content, markdown = card("out/card.json"), Path("out/card.md").read_text()
    spoken = Path("out/msg.fr").read_text().splitlines()
    assert spoken == load_translator("run").translate(SOURCES)
    assert content["bleu"]["value"] == pytest.approx(bleu(spoken, REFERENCES))
    assert content["sentences"] == 12 and content["tokenised_bleu"] is None
    assert content["bleu"]["low"] <= content["bleu"]["value"] <= content["bleu"]["high"]
    assert content["perplexity"] > 1 and content["tokens_per_second"] > 0
    signature = content["bleu"]["signature"]
    assert f": {signature}\n" in out and f"`{signature}`" in markdown
    assert "perplexity of the references" in out and "perplexity of the references" in markdown
    around = content["circumstances"]
    for name in ("valid.en", "valid.fr"):
        assert around["checksums"][name] == sha256(Path(name).read_bytes()).hexdigest()
        assert around["checksums"][name] in out
    assert around["settings"]["beam_size"] == 5 and around["settings"]["int8"] is False
    assert around["machine"]["threads"] == 1
    assert around["command"].startswith("glassformer evaluate run --source valid.en")
    assert "translating: 100%" in msg and "written: out/card.json" in msg


def test_the_options_of_the_search_reach_it_and_are_told(translator: Command) -> None:
    options = ("--beam", 2, "--length-penalty", 0, "--batch-tokens", 100, "--limit", 5)
    code, _, msg = translator(
        "evaluate", "run", *FILES, *ONE, *options, "--json", "card.json", "--output", "msg"
    )
    assert code == 0, msg
    expected = load_translator("run").translate(SOURCES[:5], beam_size=2, length_penalty=0.0)
    assert Path("msg").read_text().splitlines() == expected
    settings = card()["circumstances"]["settings"]
    assert (settings["beam_size"], settings["length_penalty"]) == (2, 0.0)
    assert settings["batch_tokens"] == 100 and card()["sentences"] == 5


def test_a_model_is_searched_as_it_is_best_with(translator: Command) -> None:
    saved = checkpoint.read(checkpoint.find(Path("run")))
    settings = saved.settings.replace(search={"length_penalty": 3.0})
    checkpoint.write(Checkpoint(settings, saved.weights, saved.tokenizers), Path("other"))
    code, _, msg = translator("evaluate", "other", *FILES, *ONE, "--json", "card.json")
    assert code == 0, msg
    assert card()["circumstances"]["settings"]["length_penalty"] == 3.0
    code, out, msg = translator("translate", "--model", "other", "--scores", SOURCES[0])
    assert code == 0, msg
    (best,) = load_translator("run").n_best(SOURCES[:1], SearchOptions(length_penalty=3.0))[0]
    assert out == f"{best.score:.4f}\t{best.text}\n"


def test_int8_is_told_where_it_is_asked_for(translator: Command) -> None:
    code, _, msg = translator("evaluate", "run", *FILES, *ONE, "--int8", "--json", "card.json")
    assert code == 0, msg
    assert card()["circumstances"]["settings"]["int8"] is True


def test_tokenised_references_are_scored_on_their_tokens(translator: Command) -> None:
    pytest.importorskip("sacremoses")
    Path("tok.fr.gz").write_bytes(gzip.compress("".join(f"{r} .\n" for r in REFERENCES).encode()))
    tokenised = ("--tokenised-reference", "tok.fr.gz", "--language", "fr", "--json", "card.json")
    code, out, msg = translator("evaluate", "run", *FILES, *tokenised, *ONE)
    assert code == 0, msg
    score = card()["tokenised_bleu"]
    assert score["reference_length"] == 12 * 6 and f"{12 * 6}" in out
    assert "case:lc" in score["signature"] and score["signature"] in out
    settings = card()["circumstances"]["settings"]
    assert (settings["tokenised as"], settings["tokenised output"]) == ("fr", False)


def test_output_that_is_tokenised_is_scored_as_it_is_and_the_card_tells_so(
    translator: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)  # which is not needed
    perfect = [f"L&apos; {reference} ." for reference in REFERENCES]
    msg = Translations(perfect, 9, 1.0, None)
    monkeypatch.setattr("glassformer.evaluate.translation.translate_all", lambda *_, **__: msg)
    Path("tok.fr").write_text("".join(f"{line.lower()}\n" for line in perfect))
    tokens = ("--tokenised-reference", "tok.fr", "--tokenised-output")
    code, out, told = translator("evaluate", "run", *FILES, *tokens, *ONE, "--json", "card.json")
    assert code == 0, told
    assert card()["tokenised_bleu"]["value"] == pytest.approx(100)
    settings = card()["circumstances"]["settings"]
    assert (settings["tokenised as"], settings["tokenised output"]) == (None, True)
    assert "tokenised output" in out


def test_columns_of_a_file_are_the_models_languages_unless_named(translator: Command) -> None:
    rows = [{"fr": b, "en": a, "n": n} for n, (a, b) in enumerate(PAIRS[:3])]
    Path("pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    data = ("--data", "pairs.jsonl", "--beam", 1, "--output", "msg")
    code, _, told = translator("evaluate", "run", *data, *ONE)
    assert code == 0 and "columns of pairs.jsonl: en,fr (others: --columns)" in told
    expected = load_translator("run").translate(SOURCES[:3], beam_size=1)
    assert Path("msg").read_text().splitlines() == expected


def test_references_without_positions_are_refused_before_the_work(
    glassformer: Command, tmp_path: Path
) -> None:
    saved(text(tmp_path, model=LEARNED, data={"max_length": 30}))
    Path("valid.fr").write_text("".join(f"{line}\n" for line in [*REFERENCES[1:], "le " * 60]))
    code, out, told = glassformer("evaluate", "run", *FILES, *ONE, "--truncate")
    assert (code, out) == (3, "") and "1 of 12 targets have more than 30 subwords" in told
    assert "translating" not in told


def test_a_table_by_its_columns_is_the_same_as_two_files(translator: Command) -> None:
    pytest.importorskip("sacremoses")
    Path("pairs.tsv").write_text("".join(f"{n}\t{b}\t{a}\n" for n, (a, b) in enumerate(PAIRS[:12])))
    cards = []
    for data in (FILES, ("--data", "pairs.tsv", "--columns", "3,2")):
        code, _, msg = translator("evaluate", "run", *data, *ONE, "--json", "card.json")
        assert code == 0, msg
        cards.append(card())
    assert cards[0]["bleu"] == cards[1]["bleu"]
    assert cards[0]["perplexity"] == cards[1]["perplexity"]
    code, _, msg = translator(
        "evaluate", "run", "--data", "pairs.tsv", "--columns", "3,2,2", *ONE, "--json", "card.json"
    )
    assert code == 0 and card()["tokenised_bleu"]["reference_length"] == 12 * 5


def test_a_named_set_is_read_by_its_split(translator: Command) -> None:
    options = ("--set", "grammar", "--split", "test", "--limit", 4, "--truncate")
    code, _, msg = translator("evaluate", "run", *options, *ONE, "--json", "card.json")
    assert code == 0, msg
    assert card()["circumstances"]["checksums"].keys() == {"grammar test en", "grammar test fr"}
    assert card()["sentences"] == 4


def test_the_grammar_is_read_by_the_columns_that_are_named(translator: Command) -> None:
    options = ("--set", "grammar", "--columns", "fr,en", "--limit", 4, "--truncate")
    code, _, msg = translator("evaluate", "run", *options, *ONE, "--json", "card.json")
    assert code == 0, msg
    assert list(card()["circumstances"]["checksums"]) == ["grammar valid fr", "grammar valid en"]


def test_without_sacremoses_a_set_is_scored_all_the_same_and_what_is_left_out_is_told(
    translator: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    monkeypatch.setenv("GLASSFORMER_DATA", str(tmp_path))
    monkeypatch.setattr(datasets, "_check", lambda path, expected: None)
    for name, lines in {"raw/val.en": SOURCES, "raw/val.fr": REFERENCES}.items():
        path = tmp_path / "multi30k" / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    asked = ("evaluate", "run", "--set", "multi30k", *ONE, "--beam", 1, "--json", "card.json")
    code, out, msg = translator(*asked)
    assert code == 0 and "BLEU, cased, detokenised" in out and "on tokenised" not in out
    assert "on tokenised references is left out: sacremoses is not installed" in msg
    assert card()["tokenised_bleu"] is None
    Path("tok.fr").write_text("".join(f"{line}\n" for line in REFERENCES))
    code, out, msg = translator("evaluate", "run", *FILES, "--tokenised-reference", "tok.fr")
    assert (code, out) == (2, "") and "glassformer[moses]" in msg


def test_a_picture_of_another_kind_is_refused_before_the_work(translator: Command) -> None:
    code, out, msg = translator("evaluate", "run", *FILES, "--beams", "--plot", "beams.pdf")
    assert (code, out) == (2, "") and "beams.pdf is not the name of a figure" in msg
    assert "translating" not in msg


def test_beams_and_failures_come_with_the_card(translator: Command) -> None:
    pytest.importorskip("matplotlib")
    Path("train.txt").write_text("le fox\n\nle hen\n")
    more = ("--beams", "--plot", "beams.svg", "--failures", 2, "--training-text", "train.txt")
    files = ("--json", "card.json", "--markdown", "card.md")
    code, out, msg = translator("evaluate", "run", *FILES, *ONE, "--limit", 4, *more, *files)
    assert code == 0, msg
    assert [row["beam"] for row in card()["beams"]["results"]] == [1, 2, 4, 5, 8, 16]
    assert len(card()["failures"]["worst"]) == 2
    assert card()["failures"]["counts_from"] == "the training text"
    assert Path("beams.svg").stat().st_size > 0
    markdown = Path("card.md").read_text()
    for heading in ("Greedy against beam", "Failures in 4 sentences"):
        assert heading in out and heading in markdown
    assert "Failures in" in out


# Classifiers


def test_a_classifier_gets_its_card(classifier: Command) -> None:
    files = ("--json", "card.json", "--markdown", "card.md", "--output", "msg")
    code, out, msg = classifier("evaluate", "run", "--data", "valid.jsonl", *ONE, *files)
    assert code == 0, msg
    content, labels = card(), Path("msg").read_text().split()
    right = [label == truth for label, truth in zip(labels, ["sad", "glad"] * 10, strict=True)]
    assert content["accuracy"]["value"] == pytest.approx(sum(right) / 20)
    assert content["accuracy"]["low"] <= content["accuracy"]["value"] <= content["accuracy"]["high"]
    assert [c["label"] for c in content["classes"]] == ["glad", "sad"]
    assert [sum(row) for row in content["confusion"]] == [10, 10]
    assert len(content["bins"]) == 15
    for word in ("macro F1", "95% interval", "expected calibration error", "predicted glad"):
        assert word in out and word in Path("card.md").read_text()
    checksum = sha256(Path("valid.jsonl").read_bytes()).hexdigest()
    assert content["circumstances"]["checksums"] == {"valid.jsonl": checksum}
    assert checksum in out


def test_other_columns_are_named(classifier: Command) -> None:
    Path("other.csv").write_text("mood,words\nsad,a sad fox\nglad,a glad fox\n")
    data = ("--data", "other.csv", "--columns", "words,mood", "--json", "card.json")
    assert classifier("evaluate", "run", *data, *ONE)[0] == 0
    assert card()["texts"] == 2


@pytest.mark.parametrize("spelt", [{0: 0, 1: 1}, {0: "0", 1: "1"}, {0: "negative", 1: "positive"}])
def test_a_bundled_classifier_of_reviews_is_judged_by_codes_or_by_words(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spelt: dict[int, object]
) -> None:
    root = bundle(monkeypatch, tmp_path / "package", "sentiment")
    texts = ["a dog", "the old cat sees a dog", "two children want some tea", "un vieux chat voit"]
    rows = [{"text": text, "label": spelt[n % 2]} for n, text in enumerate(texts)]
    Path("reviews.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = ("--json", "card.json", "--output", "msg")
    code, _, msg = glassformer("evaluate", "sentiment", "--data", "reviews.jsonl", *ONE, *files)
    assert code == 0, msg
    found = [one.label for one in load_classifier(root / "sentiment").classify(texts)]
    right = sum(a == b for a, b in zip(found, ["negative", "positive"] * 2, strict=True))
    assert card()["accuracy"]["value"] == right / 4
    assert [c["label"] for c in card()["classes"]] == ["negative", "positive"]
    assert [c["true"] for c in card()["classes"]] == [2, 2]
    assert Path("msg").read_text().split() == found
    assert card()["circumstances"]["model"] == "sentiment"


def test_a_label_that_the_classifier_has_not_is_named(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle(monkeypatch, tmp_path / "package", "sentiment")
    Path("reviews.jsonl").write_text('{"text": "a dog", "label": 2}\n')
    code, _, msg = glassformer("evaluate", "sentiment", "--data", "reviews.jsonl")
    assert code == 3 and "'2' is not in ['0', '1', 'negative', 'positive']" in msg


# What is wrong


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((), "needs exactly one source of data"),
        (("--source", "valid.en"), "needs exactly one source of data"),
        ((*FILES, "--set", "grammar"), "needs exactly one source of data"),
        (("--set", "grammar", "--tokenised-reference", "t"), "--tokenised-reference goes with"),
        ((*FILES, "--columns", "a,b"), "--columns goes with --data or --set"),
        ((*FILES, "--plot", "p.svg"), "--plot goes with --beams"),
        ((*FILES, "--split", "test"), "--split goes with --set only"),
        ((*FILES, "--language", "fr"), "--language goes with tokenised references only"),
        ((*FILES, "--training-text", "t"), "--training-text goes with --failures"),
        (("--data", "pairs.tsv", "--columns", "1"), "1 columns are named, and 2 or 3 can be used"),
        ((*FILES, "--tokenised-output"), "--tokenised-output goes with tokenised references only"),
        ((*FILES, "--tokenised-output", "--language", "fr"), "--language does not go with"),
        ((*FILES, "--json", "o", "--output", "./o"), "--json and --output are both o"),
        (
            (*FILES, "--markdown", "b.svg", "--beams", "--plot", "b.svg"),
            "--markdown and --plot are both b.svg",
        ),
        (("--set", "multi30k", "--columns", "en,fr,de"), "3 columns are named, and 2 can be used"),
        ((*FILES, "--beam", "0"), "--beam"),
    ],
)
def test_a_wrong_command_line_gets_one_block_and_exit_code_2(
    translator: Command, options: tuple[str, ...], what: str
) -> None:
    code, out, msg = translator("evaluate", "run", *options)
    assert (code, out) == (2, "") and what in msg and "Traceback" not in msg


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--source", "valid.en", "--reference", "none.fr"), "none.fr cannot be read"),
        (("--source", "valid.en", "--reference", "short.fr"), "unequal line counts"),
        (("--set", "multi31k"), "Did you mean 'multi30k'?"),
        (("--set", "grammar", "--split", "dev"), "Unknown split 'dev'"),
        (("--set", "grammar", "--columns", "en,de"), "no column of grammar called 'de'"),
        (("--source", "long.en", "--reference", "short.fr"), "1 of 1 texts have more than 30"),
    ],
)
def test_bad_data_is_named_with_exit_code_3(
    translator: Command, options: tuple[str, ...], what: str
) -> None:
    Path("short.fr").write_text("un\n")
    Path("long.en").write_text("fox " * 60 + "\n")
    code, out, msg = translator("evaluate", "run", *options)
    assert (code, out) == (3, "") and what in msg


def test_bad_rows_are_skipped_when_asked_and_told(translator: Command) -> None:
    for name in ("valid.en", "valid.fr"):
        with Path(name).open("a") as file:
            file.write("\n")
    assert translator("evaluate", "run", *FILES)[0] == 3
    code, _, msg = translator("evaluate", "run", *FILES, *ONE, "--skip-bad", "--json", "card.json")
    assert code == 0 and "1 bad" in msg and card()["sentences"] == 12


def test_a_classifier_is_not_asked_for_text(classifier: Command) -> None:
    for options in (FILES, ("--data", "valid.jsonl", "--beams")):
        code, _, msg = classifier("evaluate", "run", *options)
        assert code == 2 and "labels, not with text" in msg
    options = (
        ("--beam", 1),
        ("--length-penalty", 1),
        ("--language", "fr"),
        ("--tokenised-output",),
    )
    for option in options:
        code, _, msg = classifier("evaluate", "run", "--data", "valid.jsonl", *option)
        assert code == 2 and f"{option[0]} does not go with a classifier" in msg
    code, _, msg = classifier("evaluate", "run", "--set", "grammar")
    assert code == 3 and "The grammar has no labels" in msg


def test_long_texts_of_a_classifier_are_cut_and_counted(classifier: Command) -> None:
    Path("long.jsonl").write_text(json.dumps({"text": "fox " * 60, "label": "sad"}) + "\n")
    code, _, msg = classifier("evaluate", "run", "--data", "long.jsonl")
    assert code == 0 and "cut to 12 subwords: 1 of 1 texts" in msg


def test_what_has_no_right_answer_is_not_judged(glassformer: Command, tmp_path: Path) -> None:
    saved(text(tmp_path, model={"kind": "language-model"}))
    code, _, msg = glassformer("evaluate", "run", *FILES)
    assert code == 4 and "run is neither a translator nor a classifier" in msg


def test_what_only_guesses_words_is_not_judged(glassformer: Command, tmp_path: Path) -> None:
    saved(text(tmp_path, model={"kind": "masked-language-model"}, data={"mask_rate": 0.2}))
    code, out, msg = glassformer("evaluate", "run", *FILES)
    assert (code, out) == (4, "") and "run holds a masked-language-model" in msg


def test_a_place_that_cannot_be_written_is_named_after_the_card_is_shown(
    translator: Command,
) -> None:
    code, out, msg = translator("evaluate", "run", *FILES, *ONE, "--json", "valid.en/card.json")
    assert code == 3 and "valid.en/card.json cannot be written" in msg
    assert "BLEU, cased, detokenised" in out


def test_downloads_are_shown_when_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    with watched_fetching():
        pass
    assert capsys.readouterr().err == ""
    with watched_fetching() as watch:
        watch("a/file.gz", 1, 10)
        watch("a/file.gz", 10, 10)
    assert "a/file.gz" in capsys.readouterr().err


# The behaviour suite


def test_behaviour_prints_the_table_and_as_many_failures_as_asked_for(translator: Command) -> None:
    suite = ("--behaviour", "--beam", "1", "--truncate", *ONE)
    files = ("--json", "suite.json", "--markdown", "suite.md")
    code, out, msg = translator("evaluate", "run", *suite, "--failures", "2", *files)
    assert code == 0, msg
    content = card("suite.json")
    assert f"{content['passed']} of {content['total']}" in out
    assert out.count("broken: ") == 2
    assert set(content["kinds"]) == {case["kind"] for case in content["cases"]}
    assert "| everyday |" in Path("suite.md").read_text()


def test_behaviour_takes_no_data(translator: Command) -> None:
    code, _, msg = translator("evaluate", "run", "--behaviour", *FILES)
    assert code == 2
    assert "--source does not go with --behaviour" in msg


def test_behaviour_is_for_translators(classifier: Command) -> None:
    code, _, msg = classifier("evaluate", "run", "--behaviour")
    assert code == 4
    assert "not a translator" in msg


@pytest.mark.parametrize(
    "option",
    [
        ("--tokenised-reference", "valid.fr"),
        ("--tokenised-output",),
        ("--columns", "en,fr"),
        ("--skip-bad",),
        ("--language", "fr"),
        ("--references", "refs.tsv"),
        ("--output", "msg"),
    ],
    ids=lambda option: option[0],
)
def test_behaviour_refuses_options_that_it_does_not_use(
    translator: Command, option: tuple[str, ...]
) -> None:
    code, out, msg = translator("evaluate", "run", "--behaviour", *option)
    assert (code, out) == (2, "") and f"{option[0]} does not go with --behaviour" in msg


# Several references


def test_several_references_are_read_after_the_text_or_beside_it(translator: Command) -> None:
    rows = [[ref, *([ref.upper()] * (n % 3))] for n, ref in enumerate(REFERENCES)]
    refs = "".join("\t".join(row) + "\n" for row in rows)
    Path("refs.tsv").write_text(refs)
    pairs = zip(SOURCES, refs.splitlines(), strict=True)
    Path("all.tsv.gz").write_bytes(gzip.compress("".join(f"{a}\t{b}\n" for a, b in pairs).encode()))
    found = []
    for way in (
        ("--references", "all.tsv.gz"),
        ("--source", "valid.en", "--references", "refs.tsv"),
    ):
        code, out, msg = translator("evaluate", "run", *way, *ONE, "--json", "card.json")
        assert code == 0, msg
        found.append(card())
        assert "chrF" in out
    assert found[0]["bleu"] == found[1]["bleu"] and found[0]["chrf"] == found[1]["chrf"]
    spoken = load_translator("run").translate(SOURCES)
    assert found[0]["bleu"]["value"] == pytest.approx(bleu(spoken, rows))
    assert "nrefs:var" in found[0]["bleu"]["signature"]
    settings = found[0]["circumstances"]["settings"]
    assert settings["references"] == "1 to 3 a sentence; perplexity of the first"


@pytest.mark.parametrize(
    ("content", "options", "code", "what"),
    [
        ("a\tb\nc\n", (), 3, "1 of 2 lines have no source or no reference. The first is line 2"),
        ("a\tb\n", ("--source", "valid.en"), 3, "valid.en has 12 lines, and refs.tsv has 1"),
        ("a\tb\n", FILES, 2, "--reference does not go with --references"),
        ("a\tb\n", ("--set", "grammar"), 2, "needs exactly one source of data"),
        ("a\tb\n", ("--beams",), 2, "--beams does not go with --references"),
        ("a\tb\n", ("--columns", "1,2"), 2, "--columns goes with --data or --set"),
        ("a\tb\n", ("--to", "en"), 2, "does not translate into 'en'"),
    ],
)
def test_references_that_cannot_be_used_are_refused(
    translator: Command, content: str, options: tuple[str, ...], code: int, what: str
) -> None:
    Path("refs.tsv").write_text(content)
    found, out, msg = translator("evaluate", "run", "--references", "refs.tsv", *options)
    assert (found, out) == (code, "") and what in msg


def test_lines_without_a_reference_are_skipped_when_asked(translator: Command) -> None:
    Path("refs.tsv").write_text("a fox\tun renard\n\na dog\n")
    code, _, msg = translator(
        "evaluate", "run", "--references", "refs.tsv", "--skip-bad", *ONE, "--json", "card.json"
    )
    assert code == 0 and "3 rows read, 2 bad" in msg and card()["sentences"] == 1


# Both directions


@pytest.fixture
def both(glassformer: Command) -> Command:
    """The command, with a translator of both directions and of plain typography in `run`."""
    checkpoint.write(two_way.two_way(), Path("run"))
    Path("valid.en").write_text("the “dog” sees  a cat\nI am here\n")
    Path("valid.fr").write_text("le «\u00a0chien\u00a0» voit un chat\nje suis l’a\u202f!\n")
    return glassformer


@pytest.mark.parametrize("to", ["fr", "en"])
def test_a_direction_is_scored_in_plain_typography(both: Command, to: str) -> None:
    languages = ("en", "fr") if to == "fr" else ("fr", "en")
    files = ("--source", f"valid.{languages[0]}", "--reference", f"valid.{languages[1]}")
    written = ("--json", "card.json", "--output", "msg")
    code, _, msg = both("evaluate", "run", *files, "--to", to, *ONE, *written)
    assert code == 0, msg
    sources, references = (
        [normalize(line, name) for line in Path(f"valid.{name}").read_text().splitlines()]
        for name in languages
    )
    translator = load_translator("run")
    spoken = translator.translate(sources, to=to, split=False, typeset=False)
    assert Path("msg").read_text().splitlines() == spoken
    assert card()["bleu"]["value"] == pytest.approx(bleu(spoken, references))
    scored = translator.score(sources, references, to=to)
    loss = -sum(one for one, _ in scored) / sum(count for _, count in scored)
    assert card()["perplexity"] == pytest.approx(exp(loss))
    settings = card()["circumstances"]["settings"]
    assert settings["to"] == to and "normalised" in settings["typography"]


def test_the_main_direction_is_scored_unless_another_is_named(both: Command) -> None:
    code, _, msg = both("evaluate", "run", *FILES, *ONE, "--json", "card.json")
    assert code == 0, msg
    assert card()["circumstances"]["settings"]["to"] == "fr"


def test_columns_of_a_set_follow_the_direction(both: Command) -> None:
    asked = ("--set", "grammar", "--limit", "3", "--truncate", "--json", "card.json")
    for to, order in (("fr", ["en", "fr"]), ("en", ["fr", "en"])):
        code, _, msg = both("evaluate", "run", *asked, "--to", to, *ONE)
        assert code == 0, msg
        checksums = card()["circumstances"]["checksums"]
        assert [name.split()[-1] for name in checksums] == order


def test_beams_and_failures_follow_the_direction(both: Command) -> None:
    files = ("--source", "valid.fr", "--reference", "valid.en", "--to", "en")
    code, out, msg = both("evaluate", "run", *files, *ONE, "--beams", "--failures", "1")
    assert code == 0, msg
    assert "Greedy against beam" in out and "Failures in 2 sentences" in out


def test_behaviour_runs_in_both_directions(both: Command) -> None:
    suite = ("--behaviour", "--beam", "1", "--truncate", *ONE, "--failures", "1")
    files = ("--json", "suite.json", "--markdown", "suite.md", "--card", "CARD.md")
    Path("CARD.md").write_text(CARD)
    code, out, msg = both("evaluate", "run", *suite, *files)
    assert code == 0, msg
    assert set(card("suite.json")) == {"en-fr", "fr-en"}
    passed = [f"{one['passed']} of {one['total']}" for one in card("suite.json").values()]
    assert f"| **all kinds** | **{passed[0]}** | **{passed[1]}** |" in Path("CARD.md").read_text()
    for direction in ("en-fr", "fr-en"):
        assert f"Behaviour, {direction}" in out and direction in Path("suite.md").read_text()
    assert out.count("broken: ") == 2
    code, out, _ = both("evaluate", "run", *suite, "--to", "en")
    assert code == 0 and "fr-en" in out and "en-fr" not in out


# Several sets

SETS = ("--sets", "grammar/test,grammar/valid", "--limit", "3", "--truncate", "--beam", "1", *ONE)
CARD = "# A model\n\n| score | none |\n\n## Scores\n\nNone.\n\n## Limits\n\nMany.\n"


def test_several_sets_are_one_table_in_both_directions(both: Command) -> None:
    Path("CARD.md").write_text(CARD)
    files = ("--json", "sets.json", "--markdown", "sets.md", "--card", "CARD.md")
    code, out, msg = both("evaluate", "run", *SETS, *files)
    assert code == 0, msg
    found = card("sets.json")["sets"]
    assert list(found) == ["grammar/test", "grammar/valid"]
    for to, way in (("fr", "en-fr"), ("en", "fr-en")):
        alone = ("--set", "grammar", "--split", "test", "--to", to, *SETS[2:])
        assert both("evaluate", "run", *alone, "--json", "one.json")[0] == 0
        assert found["grammar/test"][way]["bleu"] == card("one.json")["bleu"]
    row = next(r for r in Path("sets.md").read_text().splitlines() if "| grammar/test |" in r)
    text = Path("CARD.md").read_text()
    assert row in text and "None." not in text and text.endswith("## Limits\n\nMany.\n")
    assert "| score | BLEU on grammar/test: " in text and "grammar/valid" in out


def test_of_several_sets_one_direction_can_be_named(both: Command) -> None:
    code, out, msg = both("evaluate", "run", *SETS, "--to", "en")
    assert code == 0 and "BLEU fr→en" in out and "en→fr" not in out, msg


@pytest.mark.parametrize(
    ("options", "code", "what"),
    [
        (("--sets", "grammar"), 2, "'grammar' is not the name of a set and its split"),
        (("--sets", "grammar/tset"), 3, "split"),
        ((*SETS, "--set", "grammar"), 2, "--set does not go with --sets"),
        ((*SETS, "--failures", "2"), 2, "--failures does not go with --sets"),
        ((*SETS[:2], "--behaviour"), 2, "--sets does not go with --behaviour"),
        ((*SETS, "--to", "de"), 2, "does not translate into 'de'"),
        ((*SETS, "--card", "none.md"), 2, "There is no card none.md"),
        ((*FILES, "--card", "valid.en"), 2, "--card goes with --sets or --behaviour only"),
        ((*FILES, "--kind", "names"), 2, "--kind goes with --behaviour only"),
        (("--behaviour", "--kind", "nmaes"), 3, "no kind of behaviour cases called 'nmaes'"),
    ],
)
def test_suites_refuse_what_they_do_not_use(
    both: Command, options: tuple[str, ...], code: int, what: str
) -> None:
    found, out, msg = both("evaluate", "run", *options)
    assert (found, out) == (code, "") and what in " ".join(msg.split())


def test_one_kind_of_behaviour_shows_every_output(both: Command) -> None:
    suite = ("--behaviour", "--kind", "everyday", "--beam", "1", "--truncate", "--to", "fr", *ONE)
    code, out, msg = both("evaluate", "run", *suite, "--markdown", "msg.md")
    assert code == 0, msg
    assert out.count("source: ") == out.count("output: ") == 22
    rows = Path("msg.md").read_text().splitlines()
    assert rows[0] == "| en | fr |" and rows[2].startswith("| Where is the train station? | ")
    assert len(rows) == 2 + 22
