"""What a worker does when Spark lets it go: it leaves by os._exit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from types import SimpleNamespace
from penstock._engine.runtime.worker_cache import CACHE
from penstock._engine.spark.workers import close_at_exit

CACHE.put(SimpleNamespace(place=(0, 0), close=lambda: print("closed", flush=True)))
close_at_exit()
close_at_exit()
if sys.argv[1] == "fork" and os.fork() == 0:
    os._exit(5)
elif sys.argv[1] == "fork":
    print("child ended with", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
os._exit(3)
"""


def leave(how: str) -> tuple[int, str]:
    result = subprocess.run(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", PROGRAM, how],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not result.stderr
    return result.returncode, result.stdout


def test_worker_that_leaves_closes_its_functions_once_and_keeps_its_exit_code() -> None:
    assert leave("alone") == (3, "closed\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_process_that_a_function_forked_leaves_the_functions_of_its_worker_open() -> None:
    assert leave("fork") == (3, "child ended with 5\nclosed\n")
