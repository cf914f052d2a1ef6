"""Every verb has a Python call that does the same; cheap ones are run both ways and compared."""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from cli.models import TEXTS, write_model
from glassformer import doctor, pretrained
from glassformer.api.train import settings_of
from glassformer.checkpoint import RunFolder, read
from glassformer.cli.app import VERBS
from glassformer.cli.demo import recipe
from glassformer.config import RunSettings
from glassformer.data import datasets
from train.runs import RECIPE, Command, assert_same_bits

ONE = ("--threads", 1)


def lines(command: Command, *arguments: object) -> list[str]:
    """Return what a command prints; it must succeed."""
    code, out, err = command(*arguments)
    assert code == 0, err
    return out.splitlines()


def test_train(glassformer: Command) -> None:
    Path("tiny.toml").write_text(RECIPE)
    lines(glassformer, "train", "tiny.toml", "train.seed=3", "--run", "typed")
    gf.train("tiny.toml", run="called", changes={"train": {"seed": 3}}, progress=False)
    assert_same_bits(Path("typed"), Path("called"))


def test_demo(glassformer: Command) -> None:
    """The demo is a recipe that comes with the package."""
    assert settings_of(recipe()).data.name == "grammar"


def test_average(glassformer: Command) -> None:
    for step in (1, 2):
        write_model("one", seed=step)
        RunFolder(Path("run")).save(read(Path("one")), step, True, keep=2)
    lines(glassformer, "average", "run", "--into", "typed")
    done = gf.average("run", into="called")
    one, other = (read(Path(name)).weights for name in ("typed", "called"))
    assert [step.name for step in done.steps] == ["step-00000001", "step-00000002"]
    assert all((one[name] == other[name]).all() for name in one)


def test_translate(glassformer: Command) -> None:
    write_model()
    typed = lines(glassformer, "translate", "--model", "run", *TEXTS, "--beam", 2, *ONE)
    assert typed == gf.load("run").translate(TEXTS, 2)  # type: ignore[union-attr]


def test_classify(glassformer: Command) -> None:
    write_model("run", "classifier")
    typed = lines(glassformer, "classify", "--model", "run", *TEXTS, *ONE)
    called = gf.load("run").classify(TEXTS)  # type: ignore[union-attr]
    assert typed == [f"{one.label}\t{one.probability:.4f}" for one in called]


def test_generate(glassformer: Command) -> None:
    write_model("run", "language-model")
    options = ("--beam", 1, "--max-length", 9, *ONE)
    (typed,) = lines(glassformer, "generate", "--model", "run", "a dog", *options)
    assert typed == gf.load("run").generate("a dog", beam_size=1, max_length=9, sample=False)  # type: ignore[union-attr]


def test_models(glassformer: Command) -> None:
    out = "\n".join(lines(glassformer, "models"))
    assert all(name in out and pretrained.card(name) for name in pretrained.names())


def test_evaluate(glassformer: Command) -> None:
    write_model()
    Path("a").write_text("".join(f"{text}\n" for text in TEXTS))
    files = ("--source", "a", "--reference", "a", "--json", "card.json", "--output", "err")
    lines(glassformer, "evaluate", "run", *files, "--beam", 1, *ONE)
    found = gf.evaluate("run", (Path("a"), Path("a")), beam_size=1, threads=1, progress=False)
    typed = json.loads(Path("card.json").read_text())
    called = json.loads(json.dumps(found.to_json()))
    for content in (typed, called):  # what a clock or the caller decides
        for name in ("tokens_per_second", "sentences_per_second"):
            content.pop(name)
        for name in ("command", "seconds", "peak_memory"):
            content["circumstances"].pop(name)
    assert typed == called
    assert Path("err").read_text().splitlines() == found.outputs


def test_align(glassformer: Command) -> None:
    write_model()
    Path("a").write_text("".join(f"{text}\n" for text in TEXTS))
    files = ("--source", "a", "--target", "a", "--head", "1.2")
    typed = lines(glassformer, "align", "run", *files, *ONE)
    found = gf.align("run", TEXTS, TEXTS, head="1.2", threads=1, progress=False)
    assert typed == found.pharaoh()
    lines(glassformer, "align", "run", "--sentences", 4, "--json", "scores.json", *ONE)
    scores = gf.align("run", sentences=4, threads=1, progress=False)
    typed_scores = json.loads(Path("scores.json").read_text())
    assert typed_scores["dev_error_rates"] == scores.to_json()["dev_error_rates"]
    assert typed_scores["test"] == scores.to_json()["test"]


def test_inspect(glassformer: Command) -> None:
    write_model()
    lines(glassformer, "inspect", "run", TEXTS[1], "--json", "trace.json", "--beam", 2, *ONE)
    trace = gf.inspect("run", TEXTS[1], beam_size=2, threads=1)
    assert Path("trace.json").read_text("utf-8") == trace.to_json() + "\n"
    Path("a").write_text("".join(f"{text}\n" for text in TEXTS))
    lines(glassformer, "inspect", "run", "--corpus", "a", "--json", "heads.json", *ONE)
    found = gf.inspect_heads("run", TEXTS, threads=1, progress=False)
    typed = json.loads(Path("heads.json").read_text())
    assert typed["heads"] == json.loads(json.dumps(found.to_json()))["heads"]


def test_quantize(glassformer: Command) -> None:
    write_model()
    Path("a").write_text("".join(f"{text}\n" for text in TEXTS))
    files = ("--source", "a", "--reference", "a", "--beam", 1)
    typed = lines(glassformer, "quantize", "run", "--output", "typed", *files, *ONE)
    rows = list(zip(TEXTS, TEXTS, strict=True))
    done = gf.quantize("run", "called", rows, beam_size=1, threads=1, progress=False)
    assert typed[1:] == str(done).splitlines()[1:]
    one, other = (read(Path(name)).weights for name in ("typed", "called"))
    assert all((one[name] == other[name]).all() for name in one)


def test_describe(glassformer: Command) -> None:
    typed = lines(glassformer, "describe", "tiny", "n_heads=2")
    assert typed == str(gf.describe(gf.build("tiny", n_heads=2))).splitlines()


def test_data(glassformer: Command) -> None:
    out = "\n".join(lines(glassformer, "data", "list"))
    assert all(name in out for name in datasets.names())


def test_doctor(glassformer: Command) -> None:
    """Its checks take seconds: see test_doctor.py."""
    assert doctor.examine.__doc__


@pytest.mark.parametrize(
    ("verb", "call"),
    [
        ("ablate", "bench.ablate.run_trial"),
        ("profile", "bench.profile.profile_decoding"),
        ("lab", "lab.finding.run"),
        ("bench", "bench.decode.bench_decode"),
    ],
)
def test_the_measuring_verbs_call_a_documented_function(verb: str, call: str) -> None:
    module, _, name = call.rpartition(".")
    function: Callable[..., Any] = getattr(import_module(f"glassformer.{module}"), name)
    assert verb in VERBS and function.__doc__ and "return" in function.__annotations__


def test_recipes(glassformer: Command) -> None:
    """The settings of a recipe are those that Python reads by its name."""
    typed = "\n".join(lines(glassformer, "recipes", "reverse"))
    assert RunSettings.from_toml(typed) == settings_of("reverse")


def test_every_verb_is_compared() -> None:
    measured = {"ablate", "profile", "lab", "bench"}
    measured |= {"completion"}  # of a shell
    measured |= {"settings"}  # prints the fields of glassformer.config, which Python has
    compared = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(VERBS) <= compared | measured
