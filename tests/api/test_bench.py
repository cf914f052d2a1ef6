"""`gf.bench` measures what `glassformer bench` does, and returns objects."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.api import bench as api
from glassformer.bench.report import Report
from glassformer.errors import InputError


@pytest.mark.parametrize("name", gf.bench.MEASUREMENTS)  # type: ignore[attr-defined]
def test_every_measurement_is_a_documented_function_of_gf_bench(name: str) -> None:
    function, called = getattr(api, name), getattr(gf.bench, name)
    assert inspect.unwrap(called) is function and function.__doc__
    assert inspect.signature(called) == inspect.signature(function)


def test_importing_a_module_leaves_the_measurement_callable() -> None:
    code = (
        "import sys, glassformer as gf; before = gf.bench.start; assert callable(before);"
        "import glassformer.bench.start, glassformer.bench.time_to_bleu;"
        "assert gf.bench.start is before and callable(gf.bench.time_to_bleu);"
        "assert callable(gf.bench.faults) and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_measurement_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'none'"):
        gf.bench.none  # type: ignore[attr-defined]  # noqa: B018


def test_a_report_has_its_figures_and_shows_them() -> None:
    import torch

    threads, seed = torch.get_num_threads(), torch.random.get_rng_state()
    report = gf.bench.model(threads=1, quick=True, progress=False)
    assert isinstance(report, Report) and set(report.ratios) == {"forward", "forward+backward"}
    assert report.worst_ratio == min(report.ratios.values())
    content = json.loads(json.dumps(report.to_json()))
    assert content["command"] == "glassformer.bench.model(...)" and content["machine"]["cores"]
    assert "Attention against length" in str(report) and "<table>" in report._repr_html_()
    assert torch.get_num_threads() == threads  # the caller's torch is as it was
    assert torch.equal(torch.random.get_rng_state(), seed)


def test_logs_are_compared_and_drawn_by_path(tmp_path: Path) -> None:
    lines = [
        {"step": 10 * i, "valid_bleu": bleu, "best": True, "labels": 1_000 * i, "seconds": 60 * i}
        for i, bleu in enumerate((30, 50, 60), start=1)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = gf.bench.time_to_bleu([str(tmp_path)], target=55)
    assert found.to_json()["runs"][0]["interpolated"]["minutes"] == 2.5
    assert "Time to BLEU 55" in str(found) and "<table>" in found._repr_html_()
    found.draw(tmp_path / "bleu.svg")
    assert gf.bench.course([log], tmp_path / "course.svg") == tmp_path / "course.svg"
    assert (tmp_path / "bleu.svg").is_file() and (tmp_path / "course.svg").is_file()


def test_a_reference_needs_a_source(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="A reference was given without a source"):
        gf.bench.decode(["tiny"], reference=tmp_path / "text.fr")
