"""Every verb has a Python call that does the same; cheap ones are run both ways and compared."""

import json
from pathlib import Path

import pytest

import glassformer as gf
from cli.models import TEXTS, write_model
from glassformer import doctor, pretrained
from glassformer.api.recipe import settings_of
from glassformer.checkpoint import RunFolder, read
from glassformer.cli import bench
from glassformer.cli.app import VERBS
from glassformer.cli.demo import recipe
from glassformer.config import RunSettings
from glassformer.data import datasets
from glassformer.errors import SettingsError
from glassformer.lab import experiments
from interop import foreign_models
from lab.test_finding import EXAMPLE
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


def test_serve(glassformer: Command) -> None:
    """Both refuse the same address; tests/serve/test_run.py starts a server."""
    code, _, err = glassformer("serve", "--host", "0.0.0.0")
    with pytest.raises(SettingsError) as caught:
        gf.serve(host="0.0.0.0")
    assert code == 2 and err == f"error: {caught.value}\n"


def test_ablate(glassformer: Command) -> None:
    Path("tiny.toml").write_text(RECIPE)
    options = ("--vary", "model.dropout=0.1,0.3", "train.max_steps=2")
    lines(glassformer, "ablate", "tiny.toml", *options, "--run", "typed")
    changes = {"train": {"max_steps": 2}}
    dropout = {"model.dropout": [0.1, 0.3]}
    found = gf.ablate("tiny.toml", dropout, changes=changes, run="called", progress=False)
    assert [row.name for row in found.rows] == ["baseline", "model.dropout=0.3"]
    typed = json.loads(Path("results/ablate_tiny.json").read_text())["rows"]
    called = json.loads(json.dumps(found.to_json()))["rows"]
    assert [row["best"] for row in typed] == [row["best"] for row in called]
    for row in found.rows:
        assert_same_bits(Path("typed") / row.name / "seed-1", Path("called") / row.name / "seed-1")


def test_profile(glassformer: Command) -> None:
    lines(glassformer, "profile", "tiny", "--quick", "--beam", 2, *ONE, "--json", "typed.json")
    found = gf.profile("tiny", beam_size=2, threads=1, quick=True, progress=False)
    typed = json.loads(Path("typed.json").read_text())["tables"]
    assert [one["title"] for one in typed] == [one.title for one in found.report.tables]
    found.write_trace("trace.json")
    assert json.loads(Path("trace.json").read_text())["traceEvents"]


def test_lab(glassformer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "find", lambda name: EXAMPLE)
    lines(glassformer, "lab", "run", "mine", "--quick", "--output", "typed")
    found = gf.lab("mine", quick=True, output="called", progress=False)
    assert found.outcome.endswith("(quick run)") and found.budget.seeds == (0, 1)
    files = [Path(place) / f"{EXAMPLE.name}.json" for place in ("typed", "called")]
    one, other = (json.loads(file.read_text()) for file in files)
    assert one["verdict"] == other["verdict"] and one["measurements"] == other["measurements"]
    assert other["command"] == "glassformer.lab(...)"


def test_doctor(glassformer: Command) -> None:
    """Its checks take seconds: see test_doctor.py."""
    assert doctor.examine.__doc__


def test_bench(glassformer: Command) -> None:
    """Every measurement is called by its name; one without a clock is compared."""
    commands = {
        command.name or command.callback.__name__ for command in bench.app.registered_commands
    }  # type: ignore[union-attr]
    assert {name.replace("-", "_") for name in commands} == set(gf.bench.MEASUREMENTS)  # type: ignore[attr-defined]
    write_model()
    Path("a").write_text("".join(f"{text}\n" for text in TEXTS))
    typed = lines(glassformer, "bench", "same-bits", "--model", "run", "--source", "a", "--quick")
    called = gf.bench.same_bits("run", source="a", quick=True, progress=False)
    assert typed == str(called).splitlines() and called.count == len(TEXTS)


def test_recipes(glassformer: Command) -> None:
    """The settings of a recipe are those that Python reads by its name."""
    typed = "\n".join(lines(glassformer, "recipes", "reverse"))
    assert RunSettings.from_toml(typed) == settings_of("reverse")


def test_every_verb_is_compared() -> None:
    others = {"completion"}  # of a shell
    others |= {"settings"}  # prints the fields of glassformer.config, which Python has
    compared = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(VERBS) <= compared | others


def test_import(glassformer: Command, tmp_path: Path) -> None:
    source = foreign_models.write_llama2c(tmp_path)
    printed = lines(glassformer, "import", source, "--output", "typed")
    called = gf.import_model(source, output="called")
    assert printed[0].partition(": ")[2] == str(called).splitlines()[0].partition(": ")[2]
    one, other = (read(Path(name)).weights for name in ("typed", "called"))
    assert all((one[name] == other[name]).all() for name in one)


def test_an_imported_model_is_found_by_its_name(
    glassformer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = foreign_models.write_llama2c(tmp_path)
    lines(glassformer, "import", source, "--as", "tiny-story", "--int8")
    assert pretrained.imported_names() == ["tiny-story"]
    assert gf.load("tiny-story", threads=1).int8
    code, _, err = glassformer("import", source, "--as", "en-fr")
    assert code == 2 and "'en-fr' is the name of a bundled model." in err


def test_chat(glassformer: Command, tmp_path: Path) -> None:
    foreign_models.write_gguf(tmp_path / "tiny.gguf", {})
    gf.import_model(tmp_path / "tiny.gguf", output="chatty")
    typed = lines(glassformer, "chat", "chatty", "b c", "--greedy", *ONE)
    model = gf.load("chatty", threads=1)
    assert "\n".join(typed) == model.chat("b c", sample=False)  # type: ignore[union-attr]
    write_model("plain", "language-model")
    code, _, err = glassformer("chat", "plain", "hello", *ONE)
    assert code == 4 and "The model has no chat template." in err


def test_export(glassformer: Command) -> None:
    write_model("run", model={"residual": "post-norm"})
    typed = lines(glassformer, "export", "run", "--to", "ctranslate2", "--output", "typed")
    called = gf.export("run", "ctranslate2", "called")
    assert typed[1:] == str(called).splitlines()[1:]
