"""What a program shows at its end, under ``python`` and under ``penstock run``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock._builders.program import Program

SOURCES = Path(__file__).parents[3] / "src"

BUILT = """
from penstock.datastream import StreamExecutionEnvironment
def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    return env
env = main()
"""
#: Stands for what starts Spark.
SUBMIT = """
from penstock._engine import launch
from penstock.common.completable_future import CompletableFuture
from penstock.errors import JobExecutionError
class Client:
    def get_job_execution_result(self):
        error = JobExecutionError("0" * 32, "prices", "KeyError: 'x'")
        error.__cause__ = CompletableFuture.failed(KeyError("x")).exception()
        return CompletableFuture.failed(error)
class Handle:
    client = Client()
launch.submit = lambda *_: Handle()
"""
UNDER = {"python": [sys.executable], "penstock run": [sys.executable, "-P", "-m", "penstock", "run"]}


@pytest.fixture(params=UNDER)
def under(request: pytest.FixtureRequest) -> list[str]:
    return UNDER[request.param]


def errors_of(under: list[str], text: str, place: Path) -> str:
    path = place / "job.py"
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run([*under, path], env=environment, capture_output=True, text=True, check=False)
    return done.stderr


def test_program_that_forgets_to_execute_is_told_so_once(under: list[str], tmp_path: Path) -> None:
    assert errors_of(under, BUILT, tmp_path).splitlines() == [
        "Nothing ran: job.py describes a job, but ends without a call of execute() or execute_async()."
    ]


@pytest.mark.parametrize(
    "end",
    [
        "env.close()",
        f"{SUBMIT}\nenv.execute_async()",
        f"{SUBMIT}\ntry: env.execute()\nexcept Exception: pass",
        # Python 3.12 and later warn of a fork where threads run.
        "import os, warnings\nwarnings.simplefilter('ignore')\nif os.fork() == 0: exit()\nos.wait()\nenv.close()",
    ],
)
def test_program_that_has_executed_or_given_up_is_told_nothing(tmp_path: Path, end: str) -> None:
    assert errors_of(UNDER["python"], BUILT + end, tmp_path) == ""


def test_program_that_an_error_ends_is_told_of_the_error_alone(under: list[str], tmp_path: Path) -> None:
    lines = errors_of(under, f"{BUILT}1 / 0\n", tmp_path).splitlines()
    assert "Nothing ran" not in lines[-1]
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_failure_of_execute_shows_lines_of_the_program_alone(under: list[str], tmp_path: Path) -> None:
    said = errors_of(under, f"{BUILT}{SUBMIT}env.execute('prices')\n", tmp_path)
    lines = [line.strip() for line in said.splitlines() if line.startswith("  File")]
    number = len(f"{BUILT}{SUBMIT}".splitlines()) + 1
    assert lines == [f'File "{tmp_path / "job.py"}", line {number}, in <module>']
    assert said.splitlines()[0] == "KeyError: 'x'"


def test_hook_of_the_program_gets_the_error_and_a_debugger_all_of_its_lines(tmp_path: Path) -> None:
    hook = (
        "import sys, traceback\nsys.excepthook = lambda *error: print('hooked', len(traceback.extract_tb(error[2])))\n"
    )
    late = (
        "import atexit, sys, traceback\natexit.register(lambda: print(len(traceback.extract_tb(sys.last_traceback))))\n"
    )
    path = tmp_path / "job.py"
    path.write_text(f"{hook}{BUILT}{SUBMIT}{late}env.execute('prices')\n")
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, check=False)
    hooked, debugged = done.stdout.splitlines()
    assert hooked == "hooked 1"
    assert int(debugged) > 1


def test_test_runner_may_build_what_it_does_not_execute() -> None:
    assert Program.of_this_process().is_silent
