"""``--supervise``: what is started again, what is not, and what signals do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock._engine.cli.supervisor import RestartLimit, Supervisor

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).parents[3] / "src"

#: Takes note of each start, and ends as the next word of the arguments says.
PROGRAM = """
import os, sys
notes = open("starts", "a+")
notes.seek(0)
start = len(notes.readlines())
print(os.path.exists(os.environ["PENSTOCK_RESUME_FILE"]), file=notes, flush=True)
open(os.environ["PENSTOCK_RESUME_FILE"], "w").close()
end = sys.argv[1:][start]
if end.startswith("-"):
    os.kill(os.getpid(), -int(end))
sys.exit(int(end))
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def starts() -> list[str]:
    return Path("starts").read_text().split()


def supervise(ends: Sequence[str], limit: int = 10) -> int:
    return Supervisor([sys.executable, "-c", PROGRAM, *ends], RestartLimit(limit, 60), 0).run()


@pytest.mark.parametrize("end", ["0", "1", "2", "3", "4", "77", "255", "130", "143", "-15"])
def test_end_for_good_is_not_started_again(end: str) -> None:
    assert supervise([end]) == (int(end) if int(end) >= 0 else 143)
    assert len(starts()) == 1


@pytest.mark.parametrize("crash", ["-9", "-11", "75", "137", "134"])
def test_crash_is_started_again_until_it_ends(crash: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert supervise([crash, crash, "0"]) == 0
    assert len(starts()) == 3
    assert len(capfd.readouterr().err.splitlines()) == 2


def test_file_with_the_jobs_is_the_same_for_each_start_and_gone_afterwards() -> None:
    supervise(["-9", "75", "0"])
    assert starts() == ["False", "True", "True"]


def test_too_many_crashes_are_given_up_with_the_last_code(capfd: pytest.CaptureFixture[str]) -> None:
    assert supervise(["-9"] * 9, limit=2) == 137
    assert len(starts()) == 3
    assert "--max-restarts" in capfd.readouterr().err.splitlines()[-1]


def test_limit_counts_within_its_window_only() -> None:
    limit = RestartLimit(2, 60)
    assert [limit.allows(now) for now in (0, 1, 2, 59, 60, 61, 62)] == [True, True, False, False, True, True, False]


#: Says when it is there; ends with code 0 after two signals, and tells how many came.
WAITS = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
print("ready", flush=True)
print(signal.Signals(signal.sigwait([signal.SIGINT, signal.SIGTERM])).name, flush=True)
assert not signal.sigpending()
sys.exit(75)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_is_passed_on_once_and_the_end_is_final(number: signal.Signals) -> None:
    Path("job.py").write_text(WAITS)
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", "run", "--supervise", "job.py"],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, number)  # as Ctrl-C in a terminal does
        assert process.stdout.readline() == f"{number.name}\n"
        assert process.wait() == 75


def test_program_killed_from_outside_is_started_again_with_its_words() -> None:
    Path("job.py").write_text(
        "import os, sys\n"
        "if not os.path.exists('crashed'):\n"
        "    open('crashed', 'w').close()\n"
        "    os.kill(os.getpid(), 9)\n"
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "print(sys.argv[1:], StreamExecutionEnvironment.get_execution_environment().get_parallelism())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", "--supervise", "-p", "3", "job.py", "--own", "word"],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "['--own', 'word'] 3\n")
    assert "SIGKILL" in done.stderr
