"""What a worker does when Spark lets it go: it leaves by os._exit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.runtime.worker_cache import WorkerCache
from penstock._engine.spark import workers

if TYPE_CHECKING:
    from collections.abc import Callable

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


def subtask(number: int, close: Callable[[], object]) -> Any:
    return SimpleNamespace(place=(0, number), close=close, vertex=SimpleNamespace(name="Map"))


def test_function_that_hangs_in_close_is_interrupted_after_ten_seconds_and_the_next_one_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert workers._PATIENCE_S == 10
    monkeypatch.setattr(workers, "_PATIENCE_S", 0.01)
    closed: list[str] = []
    cache, before = WorkerCache(), signal.getsignal(signal.SIGALRM)
    cache.put(subtask(0, lambda: threading.Event().wait(60) and closed.append("first")))
    cache.put(subtask(1, lambda: closed.append("second")))
    with workers.patience():
        cache.close()
    assert closed == ["second"]
    assert [record.getMessage() for record in caplog.records] == ["Map (0) failed to close; the job is not affected"]
    assert "s to close at the end of a job" in caplog.text
    assert (signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)) == (before, (0.0, 0.0))


def test_closing_that_no_signal_interrupts_is_given_up_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = threading.Event()
    cancelled: list[str] = []

    def cancel(group: str) -> None:
        cancelled.append(group)
        given_up.set()

    named: list[str] = []

    def name(group: str, *_: Any, **__: Any) -> None:
        named.append(group)

    context = SimpleNamespace(setJobGroup=name, cancelJobGroup=cancel)
    monkeypatch.setattr(workers, "_PATIENCE_S", -2)  # two seconds more than the functions have
    with workers.closing_tasks(context, "run"):
        assert given_up.wait(10)
    assert cancelled == named == ["penstock-release-run"]
