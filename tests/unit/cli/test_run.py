"""``penstock run``: the program runs as ``python script.py`` would, with the settings of the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.cli.conftest import Done

from penstock._engine.processes.exit_codes import ExitCode, exit_code_of
from penstock.errors import (
    CheckpointStorageError,
    EpochInfrastructureError,
    FencedError,
    JobCancelledError,
    JobExecutionError,
    SparkLaunchError,
)

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Command

SOURCES = Path(__file__).parents[3] / "src"


def run(*words: str | Path, **environ: str) -> Done:
    """Run the command in a process of its own: a program takes the process over."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "penstock", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(SOURCES), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def program(text: str, name: str = "job.py") -> Path:
    """Write a program into a folder beside the working directory."""
    path = Path.cwd().parent / "program" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_program_finds_what_it_would_find_under_python() -> None:
    path = program(
        "import sys, beside\n"
        "class Kept: pass\n"
        "print(__name__, sys.argv[1:], sys.path[0], Kept.__module__, sys.modules['__main__'].Kept is Kept, __file__)\n"
    )
    (path.parent / "beside.py").touch()
    words = ("-x", "--json", "-D", "last")
    expected = subprocess.run([sys.executable, path, *words], capture_output=True, text=True, check=True).stdout
    assert run("run", path, *words).out == expected


def test_module_of_the_working_directory_is_found_behind_all_others() -> None:
    path = program("import here, json, sys\nprint(here.__file__, json.__file__)\n")
    for name in ("here.py", "json.py"):
        Path(name).touch()
    here, library = run("run", path).out.split()
    assert Path(here) == Path("here.py").resolve()
    assert not Path(library).is_relative_to(Path.cwd())


@pytest.mark.parametrize(("text", "code"), [("", 0), ("exit(7)", 7), ("raise SystemExit('no')", 1), ("1 / 0", 1)])
def test_exit_code_of_the_program_is_passed_on(text: str, code: int) -> None:
    assert run("run", program(text)).code == code


def test_error_of_the_program_is_shown_as_python_shows_it() -> None:
    path = program("def f():\n    return 1 / 0\n\nf()\n")
    expected = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False).stderr
    assert run("run", path).err == expected


def test_error_of_the_library_ends_in_the_line_of_the_program() -> None:
    path = program(
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.execute('nothing')\n"
    )
    done = run("run", path)
    assert done.code == 1
    lines = done.err.splitlines()
    assert f'  File "{path}", line 3, in <module>' in lines
    assert sum("File " in line for line in lines) == 1
    assert lines[-1].startswith("penstock.errors.EmptyJobError")


def test_program_without_a_stream_ends_silently() -> None:
    text = "from penstock.datastream import StreamExecutionEnvironment as E\nE.get_execution_environment()\n"
    assert run("run", program(text)) == Done(0, "", "")


def test_cause_of_ours_is_told_without_our_lines() -> None:
    path = program(
        "from penstock.errors import JobExecutionError\n"
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "try:\n"
        "    env.execute('nothing')\n"
        "except Exception as error:\n"
        "    cause = error.with_traceback(error.__traceback__.tb_next)\n"
        "raise JobExecutionError('0' * 32, 'nothing', 'it was empty') from cause\n"
    )
    lines = run("run", path).err.splitlines()
    assert sum("File " in line for line in lines) == 1
    assert lines[0].startswith("penstock.errors.EmptyJobError")


SHOW = """
from penstock.common import option_table as table
from penstock.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
config = env.get_config()._configuration
keys = (table.PARALLELISM, table.RECOVERY_PATH, table.IGNORE_UNCLAIMED_STATE, table.RECOVERY_CLAIM_MODE,
        table.PROGRESS_ENABLED, table.JOB_NAME)
print(*(config.get(key) for key in keys))
"""


def test_options_are_settings_of_the_program_above_those_of_its_file() -> None:
    path = program(SHOW)
    (path.parent / "config.yaml").write_text("{parallelism.default: 2, pipeline.name: from-file}")
    savepoint, short = Path.cwd() / "sp", ("-p", "3", "-s", "sp", "-n", "--claim-mode", "claim", "--progress")
    assert run("run", *short, path).out.split() == ["3", str(savepoint), "True", "CLAIM", "True", "from-file"]
    given = run("run", "-D", "parallelism.default=5", "-D", "pipeline.name=a=b", path)
    assert given.out.split() == ["5", "None", "False", "NO_CLAIM", "False", "a=b"]


def test_options_win_over_variables_of_the_environment() -> None:
    done = run("run", "-p", "3", program(SHOW), PENSTOCK_PARALLELISM__DEFAULT="4")
    assert done.out.split()[0] == "3"


@pytest.mark.parametrize(
    "words",
    [
        ("missing.py",),
        ("-D", "parallelism.default=many", "job.py"),
        ("-D", "nothing", "job.py"),
        ("-p", "0", "job.py"),
        ("--json", "job.py"),
        (".",),
    ],
)
def test_bad_call_is_refused_with_one_line_before_the_program_runs(penstock: Command, words: tuple[str, ...]) -> None:
    Path("job.py").write_text("print('it ran')")
    done = penstock("run", *words)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (JobCancelledError("0" * 32, "prices"), ExitCode.CANCELED),
        (FencedError("0" * 32, 1, "a", "b"), ExitCode.FENCED),
        (SparkLaunchError("no memory", "log"), ExitCode.TEMPORARY),
        (CheckpointStorageError("s3://bucket", "it does not answer"), ExitCode.TEMPORARY),
        (JobExecutionError("0" * 32, "prices", "ValueError: bad"), ExitCode.FAILED),
        (ValueError("bad"), ExitCode.FAILED),
    ],
)
def test_exit_code_tells_what_another_start_may_get_past(error: Exception, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def test_job_that_spark_lost_may_be_started_again_and_one_that_failed_by_itself_not() -> None:
    job = JobExecutionError("0" * 32, "prices", "it failed")
    job.__cause__ = EpochInfrastructureError("an executor died")
    assert exit_code_of(job) is ExitCode.TEMPORARY
    job.__cause__ = OSError("the user's own")
    assert exit_code_of(job) is ExitCode.FAILED


def test_interrupted_program_ends_as_under_python() -> None:
    path = program("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(9)")
    done = run("run", path)
    assert done.code == -signal.SIGINT
    assert done.err.splitlines()[-1] == "KeyboardInterrupt"


REGISTERS = """
import signal, sys
from penstock._engine.processes.registry import RegistryEntry, JobRegistry, default_directory
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
registry = JobRegistry(default_directory())
registry.add(RegistryEntry.of_this_process("ab" * 16, "prices", "http://127.0.0.1:9", 1))
print("started", sys.argv[1:], flush=True)
signal.sigwait([signal.SIGTERM])
"""


def test_a_supervised_program_gets_its_own_words(penstock: Command) -> None:
    path = program("import sys\nopen('words', 'w').write(repr(sys.argv[1:]))")
    assert penstock("run", "--supervise", str(path), "-x", "y").code == 0
    assert Path("words").read_text() == "['-x', 'y']"


@pytest.mark.parametrize("supervised", [False, True])
def test_detached_program_goes_on_and_its_job_is_printed(home: Path, *, supervised: bool) -> None:
    options = ("--supervise",) if supervised else ()
    done = run(
        "run",
        "-d",
        "--json",
        *options,
        program("import signal\nsignal.pthread_sigmask(0, [15])\n" + REGISTERS),
        "--now",
    )
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["job"] == {"id": "ab" * 16, "name": "prices", "address": "http://127.0.0.1:9"}
    log = Path(printed["log"])
    assert log.is_relative_to(home)
    assert log.read_text() == "started ['--now']\n"
    assert os.getsid(printed["pid"]) == printed["pid"]
    os.kill(printed["pid"], signal.SIGTERM)


def test_detached_program_whose_log_was_cleaned_away_is_told_without_it() -> None:
    path = program("import os\nos.unlink('here.log')\nexit(4)")
    done = run("run", "-d", "--log-file", "here.log", path)
    assert done.code == 4
    assert done.err.splitlines()[-1] == "(the log cannot be read: No such file or directory)"


def test_detached_program_that_ends_at_once_is_told_with_its_last_lines() -> None:
    done = run("run", "-d", "--log-file", "here.log", program("print('hello')\nexit(4)"))
    assert done.code == 4
    assert "hello" in done.err
    assert str(Path("here.log").absolute()) in done.err


#: A job in this process whose sink's committer gives up what its words say; it ends as the first word says.
LOSES = """
import sys
from pathlib import Path
from penstock._connectors.files import committer
from penstock._connectors.files.staging import FinishedPart
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.graph.chaining import build_job_graph
from penstock.common import Configuration, Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.testing.in_process import InProcessEpochRunner

def give_up(self, requests):
    for request in requests:
        if isinstance(request.get_committable(), FinishedPart):
            request.signal_failed_with_known_reason(TimeoutError("expired"))

if "lose" in sys.argv:
    committer.FileCommitter.commit = give_up
env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
sink = FileSink.for_row_format(f"{Path.cwd()}/out", Encoder.simple_string_encoder()).build()
env.from_collection(["a", "b"]).sink_to(sink).name("letters").uid("letters")
graph = build_job_graph(env._stream_graph("letters"))
runner = InProcessEpochRunner()
driver, loop = assemble(graph, Configuration(env._configuration), None, RuntimeEnvironment(runner, 1, Path("state")))
driver.run(loop)
driver.result.result(0)
exec(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("", "lose"), ExitCode.GIVEN_UP),
        (("sys.exit(0)", "lose"), ExitCode.GIVEN_UP),
        (("sys.exit(77)", "lose"), 77),
        (("",), ExitCode.OK),
    ],
)
def test_program_whose_job_lost_what_a_committer_gave_up_ends_with_a_code_of_its_own(
    words: tuple[str, ...], code: int
) -> None:
    done = run("run", program(LOSES), *words)
    assert done.code == code, done.err
    said = "Job 'letters': Sink 'letters' (uid 'letters') gave up 1 committable of checkpoint" in done.err
    assert said == ("lose" in words), done.err
