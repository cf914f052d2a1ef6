"""`glassformer quantize` writes a smaller checkpoint that loads like any other, and its price."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from cli.models import TEXTS, write_model
from glassformer import checkpoint
from glassformer.checkpoint import Checkpoint, RunFolder
from glassformer.evaluate.bleu import bleu
from glassformer.evaluate.examples import Examples
from glassformer.model.build import build
from glassformer.pipeline import Classifier, Generator, Translator, load
from glassformer.quantize import dequantise_weights, is_quantised
from train.runs import Command

RUN = ("quantize", "run", "--threads", 1)


def figures(line: str) -> list[float]:
    return [float(figure.replace(",", "")) for figure in re.findall(r"[-+]?\d[\d,.]*(?<=\d)", line)]


def write_run(kind: str = "translator") -> None:
    """A run whose best checkpoint is not its latest."""
    for step, seed in enumerate((0, 1), 1):
        write_model("one", kind, seed)
        RunFolder(Path("run")).save(checkpoint.read(Path("one")), step, step == 1, keep=2)


@pytest.mark.parametrize(
    ("kind", "loaded"),
    [("translator", Translator), ("classifier", Classifier), ("language-model", Generator)],
)
def test_the_best_checkpoint_of_a_run_is_written_smaller_and_loads(
    glassformer: Command, kind: str, loaded: type[Any]
) -> None:
    write_run(kind)
    code, out, err = glassformer(*RUN)
    assert code == 0, err
    sizes = [Path(p, "model.safetensors").stat().st_size for p in ("run/best", "run/int8")]
    assert "written to run/int8\n" in out
    assert f"fp32 {sizes[0]:,} bytes, INT8 {sizes[1]:,}, {sizes[1] / sizes[0]:.1%}" in out
    best, small = checkpoint.read(Path("run/best")), checkpoint.read(Path("run/int8"))
    assert is_quantised(small.weights) and small.settings == best.settings
    again = dequantise_weights(small.weights)
    largest = max(float(abs(best.weights[n] - again[n]).max()) for n in best.weights)
    assert 0 < largest < 0.02 and f"largest error of a weight: {largest:.2g}" in out
    model = load("run/int8")
    assert isinstance(model, loaded) and isinstance(load("run"), loaded)
    in_memory = load("run", int8=True)
    if isinstance(model, Translator) and isinstance(in_memory, Translator):
        assert model.translate(TEXTS) == in_memory.translate(TEXTS)
    assert RunFolder(Path("run")).steps() == sorted(Path("run").glob("step-*"))


def test_of_a_large_model_no_more_than_thirty_per_cent_is_left(glassformer: Command) -> None:
    write_model("one")
    one = checkpoint.read(Path("one"))
    settings = one.settings.replace(model={"d_model": 128, "d_ff": 256})
    weights = checkpoint.weights_of(build(settings.model))
    checkpoint.write(Checkpoint(settings, weights, one.tokenizers), Path("run"))
    code, out, _ = glassformer(*RUN, "--output", "small")
    assert code == 0 and figures(out.splitlines()[1])[-1] <= 30


def test_a_translator_is_compared_on_two_files(glassformer: Command) -> None:
    write_run()
    sources = [f"{text} {more}" for text in TEXTS for more in ("tea", "some", "a cat")]
    truth = load("run/best").translate(sources)  # type: ignore[union-attr]
    Path("texts").write_text("".join(f"{text}\n" for text in sources))
    Path("truth").write_text("".join(f"{text or 'x'}\n" for text in truth))
    code, out, err = glassformer(*RUN, "--source", "texts", "--reference", "truth", "--beam", 5)
    assert code == 0, err
    *_, score, changed, by_batch = out.splitlines()
    small = load("run/int8").translate(sources)  # type: ignore[union-attr]
    lines = Path("truth").read_text().splitlines()
    expected = [bleu(truth, lines), bleu(small, lines)]
    assert f"BLEU, 12 texts: fp32 {expected[0]:.2f}, INT8 {expected[1]:.2f}" in score
    different = sum(a != b for a, b in zip(truth, small, strict=True))
    assert 0 < different < 12  # or this would show nothing
    assert changed == f"answers that differ from fp32: {different} of 12"
    assert by_batch == "INT8 answers that change with the batch: 0 of 12"
    assert "comparing: 100%" in err


@pytest.mark.parametrize("columns", [(), ("--columns", "2,1")], ids=str)
def test_columns_of_a_table_are_the_models_languages_unless_named(
    glassformer: Command, columns: tuple[str, ...]
) -> None:
    write_run()
    if columns:
        Path("rows.tsv").write_text("".join(f"x\t{text}\n" for text in TEXTS))
        data = "rows.tsv"
    else:
        rows = "".join(json.dumps({"en": text, "fr": "x"}) + "\n" for text in TEXTS)
        Path("rows.jsonl").write_text(rows)
        data = "rows.jsonl"
    code, out, err = glassformer(*RUN, "--data", data, *columns)
    assert code == 0, err
    assert "BLEU, 4 texts" in out


def test_a_classifier_is_compared_by_accuracy(glassformer: Command) -> None:
    write_run("classifier")
    classifier = load("run/best")
    assert isinstance(classifier, Classifier)
    labels = [found.label for found in classifier.classify(TEXTS)]
    rows = [{"text": t, "label": label} for t, label in zip(TEXTS, labels, strict=True)]
    rows[0]["label"] = "glad" if labels[0] == "sad" else "sad"
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    code, out, err = glassformer(*RUN, "--data", "rows.jsonl")
    assert code == 0, err
    assert "accuracy in %, 4 texts: fp32 75.00, INT8" in out
    assert "INT8 answers that change with the batch: 0 of 4" in out
    code, _, err = glassformer(*RUN, "--data", "rows.jsonl", "--beam", 1)
    assert code == 2 and "--beam does not go with a classifier" in err


def test_a_set_is_tried_without_its_tokenised_text(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def found(*_: Any, **options: Any) -> Examples:
        asked.update(options)
        return Examples([(text, text) for text in TEXTS], {})

    write_run()
    monkeypatch.setattr("glassformer.evaluate.examples.from_set", found)
    code, out, err = glassformer(*RUN, "--set", "multi30k", "--beam", 1)
    assert code == 0 and "BLEU, 4 texts" in out, err
    assert asked["tokenised"] is False


def test_answers_that_change_with_the_batch_are_counted(
    glassformer: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run()
    Path("texts").write_text("".join(f"{text}\n" for text in TEXTS))

    def wavering(self: Translator, texts: list[str], *_: Any, batch_tokens: int, **__: Any) -> Any:
        return [text if batch_tokens == 1 and text == TEXTS[2] else "x" for text in texts]

    monkeypatch.setattr(Translator, "translate", wavering)
    code, out, _ = glassformer(*RUN, "--source", "texts", "--reference", "texts")
    assert code == 0 and "INT8 answers that change with the batch: 1 of 4" in out
    assert "answers that differ from fp32: 0 of 4" in out


def test_what_is_quantised_is_refused(glassformer: Command) -> None:
    write_run()
    assert glassformer(*RUN)[0] == 0
    code, out, err = glassformer("quantize", "run/int8")
    assert (code, out) == (4, "") and "run/int8 is quantised already" in err


def test_it_can_be_made_again_but_nothing_else_gives_way(glassformer: Command) -> None:
    write_run()
    assert glassformer(*RUN)[0] == glassformer(*RUN)[0] == 0
    Path("letters").mkdir()
    Path("letters/one").write_text("dear")
    for place in ("letters", "letters/one", "run", "run/best", "one"):
        code, out, err = glassformer(*RUN, "--output", place)
        assert (code, out) == (2, "") and f"{place} exists, and is not a quantised" in err
    assert Path("letters/one").read_text() == "dear"
    assert not is_quantised(checkpoint.read(Path("run/best")).weights)


def test_the_card_of_a_model_that_is_made_again_stays(glassformer: Command) -> None:
    write_run()
    assert glassformer(*RUN)[0] == 0
    Path("run/int8/CARD.md").write_text("# A card\n")
    assert glassformer(*RUN)[0] == 0
    assert Path("run/int8/CARD.md").read_text() == "# A card\n"


def test_a_checkpoint_of_a_run_goes_beside_it(glassformer: Command) -> None:
    """Within it, it would be lost with it; as step-… it would pass for one of the run's own."""
    write_run()
    code, _, _ = glassformer("quantize", "run/latest", "--threads", 1)
    assert code == 0 and Path("run/int8/manifest.json").is_file()
    small = dequantise_weights(checkpoint.read(Path("run/int8")).weights)
    latest = checkpoint.read(Path("run/latest")).weights
    torch.testing.assert_close(small, latest, atol=0.02, rtol=0)


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["--source", "texts"], 2, "Evaluation needs exactly one source of data"),
        (["--data", "rows.jsonl", "--set", "multi30k"], 2, "Evaluation needs exactly one"),
        (["--data", "absent.jsonl"], 3, "absent.jsonl cannot be read"),
        (["--limit", 9], 2, "--limit goes with --source, --data or --set only"),
        (["--beam", 1], 2, "--beam goes with"),
        (["--truncate"], 2, "--truncate goes with"),
        (["--skip-bad"], 2, "--skip-bad goes with"),
        (["--columns", "en,fr"], 2, "--columns goes with"),
        (["--split", "test"], 2, "--split goes with"),
        (["--data", "rows.jsonl", "--split", "test"], 2, "--split goes with --set only"),
        (
            ["--source", "texts", "--reference", "texts", "--columns", "1,2"],
            2,
            "--columns goes with --data or --set only",
        ),
    ],
    ids=str,
)
def test_with_bad_data_nothing_is_written(
    glassformer: Command, arguments: list[object], code: int, what: str
) -> None:
    write_run()
    result, out, err = glassformer(*RUN, *arguments)
    assert (result, out) == (code, "") and what in err
    assert not Path("run/int8").exists()


def test_a_text_too_long_is_told_before_anything_is_written(glassformer: Command) -> None:
    write_run()
    Path("texts").write_text("a dog\n" + "tea " * 100 + "\n")
    files = ("--source", "texts", "--reference", "texts")
    code, _, err = glassformer(*RUN, *files)
    assert code == 3 and "--truncate" in err and not Path("run/int8").exists()
    assert glassformer(*RUN, *files, "--truncate")[0] == 0


def test_a_language_model_has_nothing_to_be_compared_by(glassformer: Command) -> None:
    write_run("language-model")
    code, _, err = glassformer(*RUN, "--set", "grammar")
    assert code == 2 and "no reference to compare" in err


@pytest.mark.parametrize("kind", ["tagger", "masked-language-model", None], ids=str)
def test_what_cannot_be_loaded_is_not_quantised(glassformer: Command, kind: str | None) -> None:
    if kind:
        write_model("run", kind)
    code, out, err = glassformer(*RUN)
    assert (code, out) == (4, "") and "run" in err
    assert not Path("int8").exists() and not Path("run/int8").exists()
