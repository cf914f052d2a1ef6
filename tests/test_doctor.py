"""A report on an installation: what is there, and what is wrong with it."""

from pathlib import Path

import pytest

import glassformer
from glassformer import doctor
from glassformer.compiled import cache_folder, kernel_name
from glassformer.data.direction import guess_language
from glassformer.doctor import SENTENCE, Section, examine
from glassformer.pretrained import names
from pretrained.stand_ins import bundle


def rows(section: Section) -> dict[str, str]:
    return {name: found for name, found, _ in section.rows}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SECONDS", 0.0)


def test_a_complete_installation_passes(quick: None) -> None:
    sections = {section.title: section for section in examine()}
    assert list(sections) == [
        *("versions", "processor", "devices", "compiled code", "bundled models", "extras"),
        "self-test",
    ]
    assert all(section.is_fine for section in sections.values())
    assert rows(sections["versions"])["glassformer"] == glassformer.__version__
    assert rows(sections["processor"])["kernel"] == kernel_name()
    assert set(rows(sections["bundled models"])) == set(names())
    assert "checksums hold" in rows(sections["bundled models"])["en-fr"]
    assert rows(sections["extras"])["train"].startswith("torch 2.")
    measured = rows(sections["self-test"])
    assert measured["text"] == SENTENCE and guess_language(measured["translation"]) == "fr"
    assert "tokens/s" in measured["speed"] and measured["load"].endswith(" s")


def test_the_cache_is_reported_without_the_path_of_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(doctor.Path, "home", lambda: tmp_path)
    (tmp_path / "cache").mkdir()
    found = rows(doctor.compiled_code())
    assert found["folder"] == "~/cache" and "empty" in found["holds"]
    (tmp_path / "cache/one.nbi").write_bytes(bytes(2_000_000))
    assert rows(doctor.compiled_code())["holds"] == "1 files, 2.0 MB"
    assert cache_folder().is_dir()


def test_a_read_only_cache_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    section = doctor.compiled_code()
    assert not section.is_fine and "no" in rows(section)["writable"]


def test_a_damaged_model_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = bundle(monkeypatch, tmp_path, "en-fr", "sentiment")
    assert doctor.bundled_models().is_fine
    file = root / "en-fr" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    section = doctor.bundled_models()
    assert not section.is_fine
    assert rows(section)["en-fr"] == "The checkpoint en-fr is damaged: model.safetensors."
    assert "checksums hold" in rows(section)["sentiment"]
    tested = doctor.self_test()
    assert not tested.is_fine and "damaged" in rows(tested)["failed"]


def test_missing_models_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle(monkeypatch, tmp_path)
    assert not doctor.bundled_models().is_fine and not doctor.self_test().is_fine


def test_a_missing_extra_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "is_installed", lambda package: False)
    section = doctor.extras()
    assert section.is_fine
    assert all(found.startswith("not installed: ") for found in rows(section).values())
