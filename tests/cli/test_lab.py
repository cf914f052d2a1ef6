"""`glassformer lab` as a user types it, on the experiment that docs/lab.md shows."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from glassformer.lab import experiments
from train.runs import Command

DOCS = Path(__file__).parents[2] / "docs/lab.md"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (tmp_path / "mine.py").write_text(example)
    return tmp_path / "mine.py"


def test_the_example_of_the_docs_is_run_reported_and_listed(
    glassformer: Command, mine: Path, tmp_path: Path
) -> None:
    code, err, told = glassformer("lab", "run", "mine.py", "--quick")
    assert code == 0
    assert "Dropout slows down learning on data that never repeats." in err
    assert "verdict: " in err and "(quick run)" in err and "100%" in told
    assert "results/lab/quick/dropout.json" in err
    result = json.loads((tmp_path / "results/lab/quick/dropout.json").read_text())
    assert result["command"] == "glassformer lab run mine.py --quick"
    assert result["verdict"]["outcome"] in ("supported", "not supported", "depends")
    assert result["budget"] == {"quick": True, "seeds": [0, 1], "threads": 1, "device": "cpu"}
    assert len(result["measurements"]) == 2 * 2 * 2 and result["machine"]["torch"]
    assert result["tables"][0]["columns"] == ["dropout", "loss", "diverged"]
    assert str(tmp_path) not in json.dumps(result)

    assert "(quick run)</text>" in (tmp_path / "results/lab/quick/dropout.svg").read_text()

    code, err, _ = glassformer("lab", "report", "--output", "results/lab/quick")
    assert (code, err) == (0, "written: results/lab/quick/report.html (dropout)\n")
    page = (tmp_path / "results/lab/quick/report.html").read_text()
    assert "Dropout on endless data" in page and "data:image/svg+xml;base64," in page


def test_seeds_and_the_folder_are_the_users(
    glassformer: Command, mine: Path, tmp_path: Path
) -> None:
    options = ("--quick", "--seeds", "3", "--output", "elsewhere")
    code, err, _ = glassformer("lab", "run", "mine.py", *options)
    assert code == 0 and "3 seeds" in err
    assert json.loads((tmp_path / "elsewhere/dropout.json").read_text())["budget"]["seeds"] == [
        *range(3)
    ]


def test_the_list_names_every_experiment_with_its_verdict(
    glassformer: Command, tmp_path: Path
) -> None:
    code, err, _ = glassformer("lab", "list")
    assert code == 0
    assert all(name in err for name in experiments.names())
    assert err.count("not run") == len(experiments.names())


def test_the_list_needs_no_torch() -> None:
    code = (
        "import sys; sys.argv = ['glassformer', 'lab', 'list']\n"
        "from glassformer.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "scaling" in done.stdout


def test_a_device_that_is_not_there_is_refused_before_the_work(
    glassformer: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, error = glassformer("lab", "run", "scaling", "--quick", "--device", "cuda")
    assert code == 2 and "no device 'cuda'" in error
    assert not (tmp_path / "results").exists()


def test_nothing_is_run_if_one_name_is_wrong(
    glassformer: Command, mine: Path, tmp_path: Path
) -> None:
    code, err, error = glassformer("lab", "run", "mine.py", "skaling")
    assert code == 2 and not err
    assert "There is no experiment 'skaling'" in error and "'scaling'" in error
    assert not (tmp_path / "results").exists()


def test_a_report_of_nothing_says_how_to_begin(glassformer: Command) -> None:
    code, _, error = glassformer("lab", "report", "--output", "empty")
    assert code == 3
    assert "There are no results in empty" in error and "lab run scaling" in error


def test_a_damaged_result_is_named(glassformer: Command, tmp_path: Path) -> None:
    folder = tmp_path / "results/lab"
    folder.mkdir(parents=True)
    (folder / "scaling.json").write_text("{}")
    for verb in ("report", "list"):
        code, _, error = glassformer("lab", verb)
        assert code == 3 and "scaling.json is not the result of an experiment" in error


def test_a_folder_that_cannot_be_written_is_told(
    glassformer: Command, mine: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    code, _, error = glassformer("lab", "run", "mine.py", "--quick", "--output", "file/lab")
    assert code == 3 and "file/lab cannot be written" in error
    assert "100%" not in error, "told before the work"
