"""`glassformer data`: list sets, get them, describe the data of a recipe."""

from pathlib import Path

import pytest
import torch

from glassformer.checkpoint import Checkpoint, write
from glassformer.config import RunSettings
from glassformer.data import datasets, tasks
from glassformer.data.batching import TokenBatches
from glassformer.data.mixture import Mixture, passes
from glassformer.data.prepare import prepare
from glassformer.data.tokenizer import Tokenizer
from train.runs import PAIRS, RECIPE, Command, text, tiny


def test_list_names_every_set_and_the_data_that_needs_no_files(glassformer: Command) -> None:
    code, out, _ = glassformer("data", "list")
    assert code == 0
    for name in (*datasets.names(), "grammar", *tasks.TASKS):
        assert name in out


@pytest.mark.parametrize(("name", "meant"), [("multi30", "multi30k"), ("imbd", "imdb")])
def test_a_set_that_is_not_known_is_answered_with_the_nearest(
    glassformer: Command, name: str, meant: str
) -> None:
    code, out, err = glassformer("data", "get", name)
    assert (code, out) == (3, "") and f"no set of data called {name!r}" in err
    assert f"{meant!r}" in err.partition("next:")[2]


def test_get_finds_every_split_and_says_where(
    glassformer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set of our own, whose files already lie in the cache."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "toy.toml").write_text(TOY)
    monkeypatch.setattr(datasets, "_manifests", lambda: tmp_path / "manifests")
    for split in ("train", "valid"):
        path = datasets.cache() / "toy" / f"{split}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("en\tfr\n" + "".join(f"{en}\t{fr}\n" for en, fr in PAIRS))
    code, out, err = glassformer("data", "get", "toy")
    assert code == 0, err
    found = dict(line.split(": ") for line in out.splitlines())
    assert found == {s: str(datasets.cache() / "toy" / f"{s}.tsv") for s in ("train", "valid")}


TOY = """\
name = "toy"
title = "A toy"
home = "nowhere"
licence = "none"
columns = ["en", "fr"]

[splits.train]
files = ["toy/train.tsv"]

[splits.valid]
files = ["toy/valid.tsv"]

[files."toy/train.tsv"]

[files."toy/valid.tsv"]
"""


def figures(out: str) -> dict[str, str]:
    """The lines `name   what of it`."""
    return dict(line.split(maxsplit=1) for line in out.splitlines() if line[:1].isalpha())


def test_show_tells_what_a_recipe_makes_of_its_text(glassformer: Command, tmp_path: Path) -> None:
    settings = text(tmp_path, data={"max_length": 30})
    (tmp_path / "text.toml").write_text(settings.to_toml())
    code, out, err = glassformer("data", "show", tmp_path / "text.toml", "--examples", "2")
    assert code == 0, err
    data = prepare(settings, threads=1)
    lengths = data.train.lengths
    batches = TokenBatches(lengths, 64, settings.train.seed)
    epoch = batches.epoch(0)
    told = figures(out)
    assert told["examples"] == "48 to train on, 12 to validate on"
    assert not told.keys() & {"skipped", "left", "cut"}, "nothing was lost"
    assert told["subwords"] == f"{len(data.tokenizers['joint'])} (joint, bpe)"
    assert told["tokens"] == " + ".join(f"{n:,}" for n in lengths.sum(0)) + " in an epoch"
    assert told["lengths"] == " and ".join(f"{n:.1f}" for n in lengths.mean(0)) + " on average"
    assert told["batches"] == f"{len(epoch)} of at most 64 tokens a side"
    assert told["padding"] == f"{batches.padding(epoch).share:.1%}"
    for source, target in PAIRS[:2]:
        assert f"  {source}\n  {target}\n" in out
    assert PAIRS[2][0] not in out


def test_show_takes_changes_and_a_task_has_no_subwords(
    glassformer: Command, tmp_path: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(RECIPE)
    code, out, _ = glassformer("data", "show", tmp_path / "tiny.toml", "data.examples=20")
    told = figures(out)
    assert code == 0 and told["examples"] == "20 to train on, 12 to validate on"
    assert "subwords" not in told
    assert len(tiny(data={"examples": 20}).train) == 20


def test_show_counts_the_pieces_that_a_masked_language_model_reads(
    glassformer: Command, tmp_path: Path
) -> None:
    settings = text(tmp_path, model={"kind": "masked-language-model"}, data={"mask_rate": 0.2})
    (tmp_path / "text.toml").write_text(settings.to_toml())
    totals = []
    for longest in (256, 3):
        change = f"data.max_length={longest}"
        code, out, err = glassformer("data", "show", tmp_path / "text.toml", change)
        assert code == 0, err
        data = prepare(settings.replace(data={"max_length": longest}), threads=1)
        told = figures(out)
        expected = f"{len(data.train)} to train on, {len(data.valid)} to validate on"
        assert told["examples"] == expected
        assert not told.keys() & {"left", "cut"}
        totals.append(len(data.train))
    assert totals[0] == 48 < totals[1]


def test_show_is_in_the_subwords_of_the_run_that_is_started_from(
    glassformer: Command, tmp_path: Path
) -> None:
    tokenizer = Tokenizer.train([source for source, _ in PAIRS], 30)
    write(Checkpoint(RunSettings(), {"w": torch.ones(1)}, {"joint": tokenizer}), Path("words"))
    settings = text(tmp_path, train={"start_from": "words"})
    (tmp_path / "text.toml").write_text(settings.to_toml())
    code, out, err = glassformer("data", "show", tmp_path / "text.toml")
    assert code == 0, err
    assert figures(out)["subwords"] == f"{len(tokenizer)} (joint, bpe)"
    lengths = prepare(settings, 1, {"joint": tokenizer}).train.lengths
    assert figures(out)["tokens"] == " + ".join(f"{n:,}" for n in lengths.sum(0)) + " in an epoch"


def test_show_names_bad_rows_or_goes_on_without_them(glassformer: Command, tmp_path: Path) -> None:
    settings = text(tmp_path)
    for path, line in zip(settings.data.train, ("a fox\n", "\n"), strict=True):
        with Path(path).open("a") as file:
            file.write(line)
    (tmp_path / "text.toml").write_text(settings.to_toml())
    code, out, err = glassformer("data", "show", tmp_path / "text.toml")
    assert (code, out) == (3, "") and "train.fr:49" in err
    code, out, _ = glassformer("data", "show", tmp_path / "text.toml", "--skip-bad")
    assert code == 0 and figures(out)["examples"].startswith("48 ")
    assert figures(out)["skipped"] == "49 rows read, 1 bad (empty: 1)"


def test_show_tells_of_what_is_too_long(glassformer: Command, tmp_path: Path) -> None:
    settings = text(tmp_path, data={"max_length": 30})
    for path, line in zip(settings.data.train, ("fox " * 40, "ici"), strict=True):
        with Path(path).open("a") as file:
            file.write(f"{line}\n" * 2)
    for path, line in zip(settings.data.valid, ("fox", "ici " * 40), strict=True):
        Path(path).write_text(f"{line}\n{Path(path).read_text()}")
    (tmp_path / "text.toml").write_text(settings.to_toml())
    code, out, err = glassformer("data", "show", tmp_path / "text.toml")
    assert code == 0, err
    assert "left out    2 longer than 30 subwords\n" in out
    assert "left out    1 longer than 30 subwords, to validate on\n" in out


def test_without_a_verb_its_help_is_shown(glassformer: Command) -> None:
    _, out, err = glassformer("data")
    assert all(verb in out + err for verb in ("list", "get", "show"))


def test_show_tells_what_a_run_reads_of_each_source(glassformer: Command, tmp_path: Path) -> None:
    settings = text(tmp_path, train={"max_steps": 10})
    train, valid = ({"files": paths} for paths in (settings.data.train, settings.data.valid))
    sources = [
        train | {"name": "all", "weight": 3},
        valid | {"name": "late", "weight": 1, "begin": 0.5},
    ]
    mixture = {
        "name": "mixture", "train": (), "valid": (), "sources": sources,
        "valid_sets": [valid | {"name": "set"}], "epoch_tokens": 300,
    }  # fmt: skip
    settings = settings.replace(data=mixture)
    (tmp_path / "mixed.toml").write_text(settings.to_toml())
    code, out, err = glassformer("data", "show", tmp_path / "mixed.toml", "--run-tokens", "3000")
    assert code == 0, err
    data = prepare(settings, threads=1)
    assert isinstance(data.train, Mixture)
    assert "of a run of 3,000 target tokens" in out
    read = passes(data.train, 3_000)
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.startswith("  ")}
    assert rows["all"][1:] == ["48", f"{data.train.sources[0].tokens:,.0f}", "75.0%",
                               f"{read['all']:.2f}"]  # fmt: skip
    assert rows["late"][3:] == ["25.0%", f"{read['late']:.2f}", "0.5", "to", "1"]


def test_clean_writes_what_is_kept_and_counts_what_is_dropped(
    glassformer: Command, tmp_path: Path
) -> None:
    rows = [*PAIRS, PAIRS[0], ("in 1950", "oui")]
    (tmp_path / "pairs.tsv").write_text("".join(f"{x}\t{y}\n" for x, y in rows))
    kept, dropped = tmp_path / "kept.tsv", tmp_path / "dropped.tsv"
    code, out, err = glassformer(
        "data", "clean", tmp_path / "pairs.tsv", "--columns", "1", "--columns", "2",
        "--output", kept, "--dropped", dropped,
    )  # fmt: skip
    assert code == 0, err
    assert out.startswith(f"{len(rows)} pairs read, {len(PAIRS)} written")
    assert [tuple(line.split("\t")) for line in kept.read_text().splitlines()] == PAIRS
    assert [line.split("\t")[0] for line in dropped.read_text().splitlines()] == [
        "duplicate", "numbers"
    ]  # fmt: skip
    assert "duplicate          1 dropped" in out and "numbers            1 dropped" in out
