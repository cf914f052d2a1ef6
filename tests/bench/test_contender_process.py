"""Contenders in processes of their own: calls, results, and a quiet end."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from time import sleep

import pytest

from bench.toys import deaf_to_sigterm, pow_of
from glassformer.bench.contender_process import ContenderProcess

SCRIPT = """
import signal
import sys
from operator import methodcaller
from time import sleep
from glassformer.bench.contender_process import ContenderProcess
if __name__ == "__main__":
    # A shell without job control starts background commands with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    contender = ContenderProcess(methodcaller, "__len__")
    print("ready", flush=True)
    try:
        ContenderProcess(sleep, 60)  # never loaded
    except KeyboardInterrupt:
        sleep(0.3)  # time for a child to print a traceback
        contender.close()
        sys.exit(130)
"""


def test_calls_go_to_another_process_and_results_come_back() -> None:
    contender = ContenderProcess(pow_of, 3)
    assert contender(2) == (9, contender._process.pid)
    contender.close()
    assert contender._process.exitcode is not None


def test_a_call_has_a_time_limit_and_the_end_of_the_process_is_an_error() -> None:
    with ContenderProcess(deaf_to_sigterm) as contender, pytest.raises(TimeoutError):
        contender(60, timeout=0.01)
    with ContenderProcess(partial, os._exit) as contender, pytest.raises(EOFError):
        contender(1, timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups")
def test_ctrl_c_ends_all_processes_without_their_tracebacks(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    parent = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None and parent.stdout.readline() == "ready\n"
    sleep(0.2)  # the second child is being started
    os.killpg(parent.pid, signal.SIGINT)
    _, errors = parent.communicate(timeout=30)  # ends only when every child has ended
    assert (parent.returncode, errors) == (130, "")
