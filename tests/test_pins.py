"""The lock has a hash for every pin but torch's, and no file names a registry."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    found = PIN.findall((ROOT / name).read_text("utf-8"))
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in found}


def test_the_lock_has_the_versions_of_the_constraints_but_for_torch() -> None:
    expected = pins("constraints.txt")
    assert expected.pop("torch")
    assert pins("requirements.lock") == expected


def test_every_pin_of_the_lock_has_a_hash() -> None:
    """Without one, pip refuses the whole file."""
    blocks = re.split(r"\n(?=[A-Za-z])", (ROOT / "requirements.lock").read_text("utf-8"))[1:]
    assert len(blocks) == len(pins("requirements.lock"))
    for block in blocks:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}(?: \\)?$", block, re.MULTILINE), block


def test_no_file_of_the_installation_names_a_registry() -> None:
    """Where packages come from is a matter of pip's own settings."""
    for name in ("Makefile", "constraints.txt", "requirements.lock", ".ci/run"):
        assert "://" not in (ROOT / name).read_text("utf-8"), name
