"""``--supervise``: what is started again, what is not, and what signals do."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.processes.exit_codes import ExitCode
from penstock._engine.processes.supervision_note import Supervision, SupervisionNote
from penstock._engine.processes.supervisor import RestartLimit, Supervisor
from penstock._engine.storage.scratch import is_dead
from penstock.errors import LocalDirectoryError, SupervisionNoteError

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).parents[3] / "src"

#: Writes down each start with the note's permissions and jobs, notes its job, does what is told, and ends as told.
PROGRAM = """
import os, sys
from pathlib import Path
from penstock._engine.processes.supervision_note import NotedJob, SupervisionNote
place = Path(os.environ["PENSTOCK_RESUME_FILE"])
note = SupervisionNote(place)
notes = open("starts", "a+")
notes.seek(0)
start = len(notes.readlines())
modes = [oct(path.stat().st_mode & 0o777) for path in (place.parent, place)]
print(place, *modes, len(note.read()), file=notes, flush=True)
note.write({1: NotedJob("prices", "ab" * 16, os.getpid(), "temporary" not in sys.argv)})
end, _, act = sys.argv[1:][start].partition(":")
exec(act)
if end.startswith("-"):
    os.kill(os.getpid(), -int(end))
sys.exit(int(end))
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home below a directory to work in."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def starts() -> list[str]:
    return Path("starts").read_text().splitlines()


def supervise(ends: Sequence[str], limit: int = 10) -> int:
    return Supervisor([sys.executable, "-c", PROGRAM, *ends], RestartLimit(limit, 60), 0).run()


@pytest.mark.parametrize("end", ["0", "1", "2", "3", "4", "77", "255", "130", "143", "-15"])
def test_end_for_good_is_not_started_again(end: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert supervise([end]) == (int(end) if int(end) >= 0 else 143)
    assert len(starts()) == 1
    assert ("which is the end: it is not started again." in capfd.readouterr().err) is (end != "0")


@pytest.mark.parametrize("crash", ["-9", "-11", "75", "137", "134"])
def test_crash_is_started_again_until_it_ends(crash: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert supervise([crash, crash, "0"]) == 0
    assert len(starts()) == 3
    assert len(capfd.readouterr().err.splitlines()) == 2


def test_note_of_the_jobs_is_the_users_alone_the_same_for_each_start_and_gone_afterwards(home: Path) -> None:
    supervise(["-9", "75", "0"])
    places, *rest = zip(*(line.split() for line in Path("starts").read_text().splitlines()), strict=True)
    assert rest == [("0o700",) * 3, ("0o600",) * 3, ("0", "1", "1")]
    assert len(set(places)) == 1
    assert Path(places[0]).is_relative_to(home / ".local/state/penstock/supervised")
    assert not Path(places[0]).parent.exists()


#: What a process leaves of the note before it crashes.
LOSSES = {
    "removed": "place.unlink()",
    "its directory removed": "__import__('shutil').rmtree(place.parent)",
    "empty": "place.write_text('')",
    "cut short": "place.write_text(place.read_text()[:-9])",
    "unreadable": "place.unlink() or place.mkdir()",
}


@pytest.mark.parametrize("loss", LOSSES)
def test_program_whose_note_was_lost_is_not_started_again(loss: str) -> None:
    with pytest.raises(SupervisionNoteError, match="penstock run --supervise -s latest"):
        supervise([f"-9:{LOSSES[loss]}", "0"])
    assert len(starts()) == 1


def descriptors() -> set[Path]:
    return set(Path("/dev/fd").iterdir())


def test_note_that_is_a_folder_leaves_no_descriptor(tmp_path: Path) -> None:
    before = descriptors()
    with pytest.raises(SupervisionNoteError, match="it cannot be read"):
        SupervisionNote(tmp_path).read()
    assert descriptors() == before


def test_note_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "jobs.json", 0o600)
    with pytest.raises(SupervisionNoteError, match="it is empty"):
        SupervisionNote(tmp_path / "jobs.json").read()


def test_supervisor_that_cannot_start_leaves_no_descriptor(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    monkeypatch.setattr(tempfile, "tempdir", str(Path.cwd()))
    (home / ".local").touch()
    Path(f"penstock-state-{os.geteuid()}").touch()
    with pytest.raises(LocalDirectoryError):
        supervise(["0"])
    assert descriptors() == before


def test_note_that_is_lost_while_the_supervisor_waits_ends_the_supervision(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor = Supervisor([sys.executable, "-c", PROGRAM, "-9", "0"], RestartLimit(9, 60), 0)

    def cleaned(*_: Any) -> None:
        shutil.rmtree(Path(Path("starts").read_text().split()[0]).parent)

    monkeypatch.setattr(select, "select", cleaned)
    with pytest.raises(SupervisionNoteError, match="it is gone"):
        supervisor.run()
    assert len(starts()) == 1


def test_lost_note_of_a_program_that_has_ended_for_good_is_no_error() -> None:
    assert supervise([f"0:{LOSSES['its directory removed']}"]) == 0


def test_command_tells_a_lost_note_in_one_line_with_what_to_do(home: Path) -> None:
    Path("job.py").write_text(
        "import os, shutil\n"
        "shutil.rmtree(os.path.dirname(os.environ['PENSTOCK_RESUME_FILE']))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", "--supervise", "--restart-delay", "1 ms", "job.py"],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"penstock: The note of this program's jobs, {home}"), done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (["-9", "0"], "it starts again and continues from the newest checkpoint."),
        (["-9", "0", "temporary"], "'prices' starts fresh, because execution.checkpointing.dir is not set."),
        (["-9:note.write({})", "0"], "it starts again, and no job of it was under way."),
    ],
)
def test_restart_says_what_the_jobs_do(ends: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    supervise(ends)
    assert capfd.readouterr().err.splitlines()[0].endswith(said)


@pytest.mark.parametrize("home_is", ["absent", "a file", "read-only"])
def test_without_a_home_the_note_is_a_temporary_one_and_that_is_said(
    home_is: str, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    temporary = Path.cwd() / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    match home_is:
        case "absent":
            monkeypatch.setattr(Path, "home", _no_home)
        case "a file":
            (home / ".local").write_text("")
        case _:
            monkeypatch.setattr(os, "access", lambda path, _: not Path(path).is_relative_to(home))
    assert supervise(["-9", "0"]) == 0
    place, directory_mode, mode, _ = Path("starts").read_text().splitlines()[0].split()
    assert Path(place).is_relative_to(temporary)
    assert (directory_mode, mode) == ("0o700", "0o600")
    said = capfd.readouterr().err.splitlines()[0]
    assert place in said
    assert "XDG_STATE_HOME" in said


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_temporary_place_that_belongs_to_somebody_else_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "home", _no_home)
    (tmp_path / f"penstock-state-{os.geteuid()}").symlink_to(home)
    with pytest.raises(LocalDirectoryError, match="XDG_STATE_HOME"):
        supervise(["0"])


def test_what_a_killed_supervisor_left_goes_with_the_next_one(home: Path) -> None:
    parent = home / ".local/state/penstock/supervised"
    (parent / "dead").mkdir(parents=True)
    (parent / "dead" / "lock").touch()
    other = Supervision()
    supervise(["0"])
    assert [path.name for path in parent.iterdir()] == [other.note.path.parent.name]
    other.__exit__(None, None, None)


def test_directory_is_held_by_the_program_when_its_supervisor_was_killed(home: Path) -> None:
    with Supervision() as supervision:
        program = subprocess.Popen(["sleep", "100"], pass_fds=(supervision.lock,))
        os.close(os.dup(supervision.lock))
        supervision._lock.close()
        try:
            assert not is_dead(supervision.note.path.parent)
        finally:
            program.kill()
            program.wait()
        assert is_dead(supervision.note.path.parent)


def test_too_many_crashes_are_given_up_with_the_last_code(capfd: pytest.CaptureFixture[str]) -> None:
    assert supervise(["-9"] * 9, limit=2) == 137
    assert len(starts()) == 3
    said = capfd.readouterr().err.splitlines()
    assert "Its restarts within 60 s have reached the limit of 2 (--max-restarts), so it is not" in said[-1]
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d The program ", line) for line in said)


def test_program_whose_checkpoints_are_missing_is_looked_for_more_rarely_each_time_and_never_given_up(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(select, "select", lambda *of: pauses.append(of[-1]))
    missing = str(int(ExitCode.MISSING))
    assert supervise(["-9", missing, missing, "-9", missing, "0"], limit=2) == 0
    assert pauses == [0, 2, 4, 0, 2]
    said = capfd.readouterr().err.splitlines()
    assert len(said) == len(pauses)
    assert said[1].endswith("It does not start them fresh; it looks again in 2 s.")


def test_first_start_that_finds_nothing_is_the_end() -> None:
    assert supervise([f"{int(ExitCode.MISSING)}:note.write({{}})", "0"]) == ExitCode.MISSING
    assert len(starts()) == 1


def test_program_that_could_not_stop_is_guarded_as_before() -> None:
    Path("job.py").write_text(PROGRAM)
    # In a process of its own: a signal to one with more threads than the supervisor has may wake another of them.
    stop = "import signal; signal.pthread_sigmask(0, [15]); os.kill(os.getppid(), 15); signal.sigwait([15])"
    failed = f"{stop}; note.tell_failed_stop()"
    command = [sys.executable, "-m", "penstock", "run", "--supervise", "--restart-delay", "0", "job.py"]
    ended: list[tuple[int, int, str]] = []
    for first in (failed, f"{failed}; {stop}"):  # a second signal counts
        Path("starts").unlink(missing_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
        done = subprocess.run(
            [*command, f"-9:{first}", "0"], env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        ended.append((done.returncode, len(starts()), done.stderr))
    (code, count, said), (last_code, last_count, last_said) = ended
    assert (code, count) == (0, 2), said
    assert re.search(r"did not stop: it runs on \(process \d+\), and is guarded still", said)
    assert (last_code, last_count) == (137, 1), last_said
    assert "after it was told to end, so it is not started again" in last_said


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_between_two_processes_ends_the_supervision_and_says_so(
    number: signal.Signals, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    select_ = select.select

    def interrupted(readers: Any, *more: Any) -> Any:
        os.kill(os.getpid(), number)
        return select_(readers, *more)

    monkeypatch.setattr(select, "select", interrupted)
    code = Supervisor([sys.executable, "-c", PROGRAM, "-9", "0"], RestartLimit(9, 60), 600).run()
    assert code == 128 + number
    assert len(starts()) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert f" Ended by {number.name} between two processes: the program, which was killed by SIGKILL, is" in last


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
