"""Start and stop: addresses that need a token, and a graceful end by SIGTERM."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from glassformer.errors import SettingsError
from glassformer.serve.run import check_address, is_loopback


def test_another_address_needs_a_token() -> None:
    check_address("127.0.0.1", None)
    check_address("0.0.0.0", "x" * 16)
    with pytest.raises(SettingsError) as caught:
        check_address("0.0.0.0", None)
    assert str(caught.value) == (
        "The address 0.0.0.0 can be reached by other machines, and no token is given.\n"
        "  why:  Everyone in the network could use the models and see what they answer.\n"
        "  next: Add one: glassformer serve --host 0.0.0.0 --token TOKEN; or leave --host out."
    )


def test_a_short_token_is_refused() -> None:
    with pytest.raises(SettingsError, match="The token is too short"):
        check_address("127.0.0.1", "secret")


def test_loopback_is_told_from_other_addresses() -> None:
    own = ["localhost", "127.0.0.1", "127.1.2.3", "::1"]
    assert all(map(is_loopback, own))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "example.org"]))


def test_sigterm_ends_the_server_after_its_last_answer_and_torch_is_never_imported(
    folders: dict[str, Path],
) -> None:
    names = [str(folders["toy-text"]), str(folders["toy-translator"])]
    code = f"from glassformer.serve.run import serve; serve({names!r}, port=0)"
    how: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **how) as process:
        assert process.stderr
        printed = "".join(process.stderr.readline() for _ in range(3))
        found = re.search(r"open (http://127.0.0.1:\d+)/", printed)
        assert found, printed
        with post(found[1], "/translate", {"q": "a dog", "source": "en", "target": "fr"}) as answer:
            assert "translatedText" in json.load(answer)
        body = {"model": "toy-text", "prompt": "a", "max_tokens": 900, "stream": True, "n": 4}
        with post(found[1], "/v1/completions", body) as answer:
            answer.readline()
            assert not used(process.pid, "libtorch")
            process.send_signal(signal.SIGTERM)
            assert answer.read().endswith(b"data: [DONE]\n\n")
        process.wait(60)
        assert "Traceback" not in process.stderr.read()


def used(process: int, library: str) -> bool:
    """Return whether a process has loaded a library, where the system tells."""
    maps = Path(f"/proc/{process}/maps")
    return maps.exists() and library in maps.read_text()


def post(address: str, path: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    return urlopen(Request(f"{address}{path}", json.dumps(body).encode(), headers), timeout=60)
