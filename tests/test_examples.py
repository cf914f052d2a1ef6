"""Every script of examples/ runs, and the Transformer by hand is the one of `model/`."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import glassformer as gf

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))


def example(name: str) -> SimpleNamespace:
    """Return the names that a script defines, without running its `__main__` part."""
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / name)))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_what_it_does(name: str) -> None:
    text = (EXAMPLES / name).read_text("utf-8")
    limit = 150 if name == "transformer_by_hand.py" else 75  # lines
    assert len(text.splitlines()) <= limit
    assert text.startswith(('"""', "# %% [markdown]"))


def test_a_list_of_texts_trains_a_classifier(tmp_path: Path) -> None:
    script = example("train_classifier.py")
    classifier = script.train(script.examples(), tmp_path / "run", steps=50)
    assert set(classifier.labels) == {"good", "bad"}
    found = classifier.classify(["The book was wonderful.", "The hotel is awful."])
    assert [one.label for one in found] == ["good", "bad"]


def test_a_file_is_translated_line_by_line(tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    lines = ["Two dogs are playing in the snow.", "", "A man is reading a book."]
    source.write_text("\n".join(lines) + "\n", "utf-8")
    example("translate_file.py").main(str(source), str(target))
    found = target.read_text("utf-8").splitlines()
    assert found == gf.load("en-fr").translate(lines)
    assert found[0] and not found[1] and found[2]


LINES = ["Two dogs are playing in the snow.", "", "A man is reading a book.", "A red bicycle."]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


def test_shares_of_a_slurm_array_are_joined(corpus: Path) -> None:
    """The script of the array runs as Slurm would start it, once for each task."""
    script = example("translate_part.py")
    folder, target = corpus.parent / "parts", corpus.parent / "out.txt"
    for share in range(2):
        script.translate(str(corpus), str(folder), share, 2, "captions-en-fr", lines=1)
    assert len(list(folder.iterdir())) == len(LINES)
    whole = corpus.parent / "whole"
    variables = {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "1"}
    started = run("translate_on_slurm.sh", corpus, whole, "captions-en-fr", **variables)
    assert "part-000000.txt: 4 lines" in started.stderr
    script.main(str(corpus), str(whole), str(target))
    one = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    assert target.read_bytes() == one
    assert one.decode().splitlines() == gf.load("captions-en-fr").translate(LINES)


def test_training_under_slurm_starts_torchrun_on_every_machine(tmp_path: Path) -> None:
    """Stand-ins for Slurm's commands: `srun` prints what it would start."""
    for name, command in {"srun": 'echo "$@"', "scontrol": 'printf "one\\ntwo\\n"'}.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{command}\n")
        (tmp_path / name).chmod(0o755)
    variables = {"SLURM_JOB_NODELIST": "x", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "7"}
    variables |= {"SLURM_CPUS_PER_TASK": "16", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    folder = tmp_path / "run"
    first = run("train_on_slurm.sh", "wmt14", folder, "train.seed=2", **variables).stdout
    assert "torchrun --nnodes 2 --nproc-per-node 2" in first
    assert "--rdzv-endpoint one:29500" in first
    assert first.endswith(
        f"-m -- glassformer train wmt14 --run {folder} train.threads=8 train.seed=2\n"
    )
    (folder / "latest").mkdir(parents=True)
    assert "--resume" in run("train_on_slurm.sh", "wmt14", folder, **variables).stdout


def run(script: str, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script of examples/ with this interpreter as `python`."""
    root = EXAMPLES.parent
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(root / "src"), **variables}
    command = ["bash", str(EXAMPLES / script), *map(str, arguments)]
    return subprocess.run(
        command, env=environment, cwd=root, check=True, capture_output=True, text=True
    )


@pytest.mark.filterwarnings("ignore")  # of Ray
def test_two_workers_of_ray_translate_as_one_process(corpus: Path) -> None:
    ray = pytest.importorskip("ray")
    target = corpus.parent / "out.txt"
    try:
        ray.init(num_cpus=2, include_dashboard=False)
        example("translate_on_ray.py").main(str(corpus), str(target), "captions-en-fr", 2, 1)
    finally:
        ray.shutdown()
    assert target.read_text("utf-8").splitlines() == gf.load("captions-en-fr").translate(LINES)


@pytest.mark.filterwarnings("ignore")  # of Spark
def test_two_workers_of_spark_translate_as_one_process(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    script = example("translate_on_spark.py")
    spark = sql.SparkSession.builder.master("local[2]").getOrCreate()
    try:
        rows = list(enumerate([*LINES, None]))
        table = spark.createDataFrame(rows, "id int, text string").repartition(2)
        found = script.translated(table, "text", "captions-en-fr").collect()
    finally:
        spark.stop()
    lines = [row.translation for row in sorted(found, key=lambda row: row.id)]
    assert lines == [*gf.load("captions-en-fr").translate(LINES), ""]


def test_a_position_scheme_of_ones_own_tells_order() -> None:
    script = example("position_scheme.py")
    torch.manual_seed(1)
    ids = torch.randint(1, script.SYMBOLS + 1, (1, 9))
    order = torch.randperm(9)
    for scheme, sees_order in (("none", False), ("log-distance", True)):
        model = script.tagger(scheme).eval()
        moved = torch.allclose(model(ids)[:, order], model(ids[:, order]), atol=1e-5)
        assert moved is not sees_order


def test_a_position_scheme_of_ones_own_is_trained() -> None:
    script = example("position_scheme.py")
    torch.manual_seed(1)
    model = script.tagger("log-distance")
    before = model.encoder.positions.raw.detach().clone()
    assert 0 <= script.learn(model, steps=2) <= 1
    assert not torch.equal(model.encoder.positions.raw, before)


def test_the_notebook_plots_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = example("plot_attention.py")
    assert {path.name for path in tmp_path.iterdir()} == {"links.png", "heads.png"}
    layers, heads, *_ = script.trace.attention["cross"].shape
    assert script.cross.shape[0] == heads
    assert layers >= 1
    assert "sharpest head of the last layer" in capsys.readouterr().out


@pytest.fixture(scope="module")
def by_hand() -> SimpleNamespace:
    return example("transformer_by_hand.py")


def test_the_transformer_by_hand_equals_the_built_one(by_hand: SimpleNamespace) -> None:
    sizes = {"vocab_size": 11, "d_model": 16, "n_heads": 4, "d_ff": 24}
    built = gf.build(
        "tiny", residual="post-norm", dropout=0.0, encoder_layers=2, decoder_layers=2, **sizes
    ).eval()
    model = by_hand.Transformer(**sizes, n=2)
    model.load_state_dict(renamed(built.state_dict()))
    source, target = torch.randint(3, 11, (3, 7)), torch.randint(3, 11, (3, 5))
    source[0, 4:] = by_hand.PAD
    torch.testing.assert_close(model(source, target), built(source, target), atol=1e-4, rtol=1e-4)


def renamed(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename weights of `gf.build` to those of the script, which has no stacks."""
    found = {"embedding": weights["encoder.embedding.weight"]}
    for name, tensor in weights.items():
        if ".layers." in name:
            name = name.replace(".layers.", ".").replace("_residual.norm.", "_norm.")
            found[name.replace("norm.gain", "norm.weight")] = tensor
    return found


def test_the_transformer_by_hand_learns_to_reverse(by_hand: SimpleNamespace) -> None:
    torch.manual_seed(1)
    model = by_hand.Transformer(vocab_size=6, d_model=32, n_heads=2, d_ff=32, n=1)
    by_hand.train(model, steps=300, longest=3, symbols=3, rate=5e-3)
    assert by_hand.exact(model, longest=3, symbols=3, batches=4) > 0.9


def test_greedy_search_by_hand_ends_with_the_source(by_hand: SimpleNamespace) -> None:
    model = by_hand.Transformer(vocab_size=6, d_model=8, n_heads=2, d_ff=8, n=1)
    assert by_hand.reverse(model, torch.full((2, 5), by_hand.FIRST)).shape == (2, 5)
