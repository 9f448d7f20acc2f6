"""What may be missing, empty, older, damaged or another's, for each command that deletes, moves or starts.

Each cell is one mistake of an operator before one command. No cell ends in output twice, in state that is gone or in a
job that nobody guards without a line that says so.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import Epochs
from tests.kit.without_spark import Cluster
from tests.unit.cli.fake_driver import FakeDriver, serving

from penstock._engine import launch
from penstock._engine.cli import jobs
from penstock._engine.coordinator import instructions as do
from penstock._engine.processes.registry import JobRegistry, RegistryEntry, default_directory, is_stopped
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.paths import METADATA, WAITING, checkpoint_ids, is_job_directory
from penstock._engine.storage.scratch import ScratchDirectory
from penstock.common.config_loading import OPTIONS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.cli.conftest import Command

NUMBERS, EPOCH = 240, 10  # a request has time to arrive before the end
PROGRAM = f"""
import sys
from penstock.common import Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.connectors.number_seq import NumberSequenceSource
env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
numbers = env.from_source(NumberSequenceSource(0, {NUMBERS - 1}), WatermarkStrategy.no_watermarks(), "n").uid("n")
sink = FileSink.for_row_format("out", Encoder.simple_string_encoder())
numbers.sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()).uid("sink")
env.execute(sys.argv[1])
"""


class Jobs(Cluster):
    """Runs the program's jobs; in its third epoch a job is asked to stop, cancelled, or neither."""

    third: Callable[[Any], object] = staticmethod(lambda driver: None)

    def submit(self, *arguments: Any) -> Any:
        self.runner = Epochs(EPOCH, clock=None)
        return super().submit(*arguments)

    def watch(self, loop: Any) -> None:
        perform, driver, epochs = loop.perform, self.drivers[-1], Counter[type]()

        def ask(instruction: Any) -> None:
            epochs[type(instruction)] += 1
            if isinstance(instruction, do.RunEpoch) and epochs[do.RunEpoch] == 3:
                self.third(driver)
            perform(instruction)

        loop.perform = ask


class Place:
    """A working directory in which job a was suspended into a savepoint, and job c cancelled."""

    def __init__(self, penstock: Command, cluster: Jobs) -> None:
        self.penstock, self.cluster = penstock, cluster
        Path("job.py").write_text(PROGRAM)
        cluster.third = lambda driver: driver.savepoint(str(Path("sp").absolute()), StopMode.SUSPEND)
        assert self.run().code == 0
        cluster.third = lambda driver: driver.cancel()
        assert self.run(name="c").code == 3
        cluster.third = lambda driver: None
        [self.savepoint] = Path("sp").iterdir()
        suspended, cancelled = (driver.job_id for driver in cluster.drivers)
        self.a, self.c = Path("ck", suspended), Path("ck", cancelled)
        self.kept = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    def as_it_was(self) -> None:
        for path in Path().iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path, data in self.kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def run(self, *words: str, name: str = "a") -> Any:
        """Run a program, as ``penstock run`` does."""
        settings = ("-D", "execution.checkpointing.dir=ck", "-D", "restart-strategy.type=none")
        return self.penstock("run", *settings, *words, "job.py", name)

    def newest(self, job: Path) -> Path:
        return job / f"chk-{checkpoint_ids([path.name for path in job.iterdir()])[-1]}" / METADATA

    def repeated(self) -> bool:
        """Tell whether the output of job a, or that of job c, is there twice."""
        lines = [line for part in Path("out").rglob("part-*") for line in part.read_text().split()]
        return max(Counter(lines).values(), default=0) > 2  # each of the two jobs writes a number once

    def state(self) -> set[Path]:
        """Return what jobs may start from."""
        found = set(Path().rglob(METADATA))
        return {path for path in found if path.parent.parent.name == "sp" or is_job_directory(path.parent.parent.name)}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, penstock: Command) -> Place:
    for name, value in {"argv": list(sys.argv), "path": list(sys.path)}.items():
        monkeypatch.setattr(sys, name, value)
    monkeypatch.setenv(OPTIONS_VARIABLE, "{}")
    cluster = Jobs(tmp_path / "local")
    monkeypatch.setattr(launch, "submit", cluster.submit)
    return Place(penstock, cluster)


def gone(_: Place) -> None:
    Path("ck").rename("away")


def empty(_: Place) -> None:
    gone(_)
    Path("ck").mkdir()


def a_file(_: Place) -> None:
    gone(_)
    Path("ck").write_text("")


def of_another(place: Place) -> None:
    shutil.rmtree(place.a)
    shutil.rmtree("ck/.starts")


def older(place: Place) -> None:
    shutil.rmtree(place.newest(place.a).parent)


def damaged(place: Place) -> None:
    record = place.newest(place.a)
    record.write_bytes(record.read_bytes()[:-40])


def damaged_within(place: Place) -> None:
    record = place.a / "chk-1" / METADATA
    record.write_bytes(b"")


def savepoint_moved(place: Place) -> None:
    place.savepoint.rename("moved")


def savepoint_copied(place: Place) -> None:
    shutil.copytree(place.savepoint, "moved")


def savepoint_damaged(place: Place) -> None:
    (place.savepoint / METADATA).write_bytes(b"")


def note_damaged(place: Place) -> None:
    (place.savepoint / WAITING).write_bytes(b"{}")


def went_on(place: Place) -> None:
    assert place.run("-s", "latest").code == 0


def nothing(_: Place) -> None:
    pass


SP = "{savepoint}"
DISPOSE = ("savepoint", "dispose")
#: Stands for a program whose job has another name.
AS_OTHER = "as another"
LATEST = "execution.state-recovery.path=latest"
#: By what has happened, and the command: its exit code, and what it says.
RUNS: list[tuple[Callable[[Place], None], tuple[str, ...], int, str]] = [
    (nothing, ("-s", "latest"), 0, ""),
    (nothing, ("-s", SP), 0, ""),
    (nothing, ("-s", f"{SP}-mistyped"), 1, "there is no checkpoint metadata at that path"),
    (nothing, (), 0, r"out has output of job [0-9a-f]+, which has not finished"),
    (gone, ("-s", "latest"), 10, r"is not started from /.*/ck: that directory has no record of it"),
    (empty, ("-s", "latest"), 10, r"no record of it, and penstock run -s latest says"),
    (of_another, ("-s", "latest"), 10, r"--allow-first-start"),
    (a_file, ("-s", "latest"), 75, "cannot be used"),
    (
        gone,
        ("-s", "latest", "--allow-first-start"),
        0,
        r"starts fresh: /.*/ck has no record of it(.|\n)*out has output of",
    ),
    (gone, ("-s", "latest", "-D", "penstock.allow-first-start=true"), 0, r"starts fresh: /.*/ck has no record"),
    (empty, ("-D", LATEST), 0, r"starts fresh: /.*/ck has no record of it(.|\n)*out has output of"),
    (empty, ("-D", LATEST, "-D", "penstock.job-id={a}"), 10, r"no record of it, and penstock.job-id says"),
    (gone, ("-s", SP), 0, ""),  # a savepoint needs no directory
    (older, ("-s", "latest"), 0, "out has output of job"),  # only the sink's folder knows of the stop
    (damaged, ("-s", "latest"), 1, r"_metadata cannot be restored.* Restore the file from a copy"),
    (
        savepoint_moved,
        ("-s", "latest"),
        10,
        r"its last record, .*/chk-\d+ \(suspended\), says that it was stopped into.*If it is lost, a start without",
    ),
    (savepoint_moved, ("-s", "moved"), 0, ""),
    (savepoint_damaged, ("-s", "latest"), 1, r"cannot be restored"),
    (went_on, ("-s", "latest"), 0, ""),  # it has finished
    (nothing, ("-s", SP, "--claim-mode", "CLAIM"), 0, ""),
    (
        nothing,
        ("-s", SP, "--claim-mode", "CLAIM", AS_OTHER),
        0,
        r"is what job {a} may continue from, too.* is there twice",
    ),
    (went_on, ("-s", SP, "--claim-mode", "CLAIM", AS_OTHER), 0, r"published again|comes twice|second time"),
]
CHECKED: list[tuple[Callable[[Place], None], tuple[str, ...], int, str]] = [
    (nothing, (*DISPOSE, SP), 1, r"job 'a' \((\w+)\) continues from it next.* remove .*ck/\1, and .*--no-job-waits"),
    (nothing, (*DISPOSE, SP, "--no-job-waits"), 1, "continues from it"),
    (nothing, (*DISPOSE, SP, "--checkpoint-dir", "mistyped"), 2, "there is no directory mistyped"),
    (nothing, (*DISPOSE, f"{SP}-mistyped"), 1, "has no savepoint or checkpoint"),
    (nothing, (*DISPOSE, "{a}/chk-1"), 1, "no savepoint"),
    (gone, (*DISPOSE, SP), 1, r"has no record of it.*--checkpoint-dir.*--no-job-waits"),
    (gone, (*DISPOSE, SP, "--checkpoint-dir", "away"), 1, "continues from it"),
    (gone, (*DISPOSE, SP, "--no-job-waits"), 0, "Deleted"),
    (empty, (*DISPOSE, SP), 1, "has no record of it"),
    (a_file, (*DISPOSE, SP), 1, "--no-job-waits"),
    (of_another, (*DISPOSE, SP), 1, "has no record of it"),
    (older, (*DISPOSE, SP), 1, "has no record of it from then on"),
    (damaged, (*DISPOSE, SP), 1, r"continues from it|_metadata cannot be read"),
    (savepoint_moved, (*DISPOSE, "moved"), 1, "continues from it"),
    (savepoint_copied, (*DISPOSE, "moved"), 0, "Deleted"),
    (savepoint_damaged, (*DISPOSE, SP), 1, "cannot be restored"),
    (note_damaged, (*DISPOSE, SP), 1, r"which job was stopped into it is not known.*--no-job-waits"),
    (went_on, (*DISPOSE, SP), 0, "Deleted"),
    (nothing, ("savepoint", "sign", SP), 2, "there is no key"),
    (savepoint_damaged, ("savepoint", "sign", SP, "-D", f"penstock.state.signing-key={'k' * 32}"), 1, "restored"),
    (nothing, ("clean", "--remove", "--checkpoint-dir", "ck", "--savepoint-dir", "sp"), 0, ""),
    (nothing, ("clean", "--remove", "--checkpoint-dir", "mistyped"), 2, "there is no directory mistyped"),
    (damaged, ("clean", "--remove", "--checkpoint-dir", "ck", "--ended-job", "{a}"), 0, "Restore it from a copy"),
    (damaged_within, ("clean", "--remove", "--checkpoint-dir", "ck", "--ended-job", "{a}"), 0, "or delete it, if noth"),
    (damaged_within, ("clean", "--remove", "--checkpoint-dir", "ck", "--sink-dir", "out"), 0, "Restore it from a copy"),
    (
        savepoint_moved,
        ("clean", "--remove", "--checkpoint-dir", "ck", "--sink-dir", "out"),
        0,
        "continues from it.*--ended-job",
    ),
    (
        savepoint_moved,
        ("clean", "--checkpoint-dir", "ck", "--sink-dir", "out", "--ended-job", "{a}"),
        0,
        r"\A(?!.*Left alone)",
    ),
    (of_another, ("clean", "--remove", "--checkpoint-dir", "ck", "--sink-dir", "out"), 0, ""),
]


def test_no_start_repeats_output_or_loses_state_without_a_line(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    failures: list[str] = []
    for mistake, words, code, said in RUNS:
        place.as_it_was()
        mistake(place)
        caplog.clear()
        before = place.state()
        names = {"savepoint": place.savepoint, "a": place.a.name}
        given = [word.format(**names) for word in words if word != AS_OTHER]
        done = place.run(*given, name="other" if AS_OTHER in words else "a")
        text = done.err + caplog.text
        told = re.search("twice|second time", text) is not None
        if done.code != code or not re.search(said.replace("{a}", place.a.name), text):
            failures.append(f"{mistake.__name__} {words}: {done.code} {text[-600:]}")
        elif place.repeated() and not told:
            failures.append(f"{mistake.__name__} {words}: output twice without a line")
        elif code == 10 and place.state() != before:
            failures.append(f"{mistake.__name__} {words}: a start that is refused has changed something")
    assert not failures, "\n".join(failures)


def test_no_command_deletes_what_is_needed_without_a_line(place: Place) -> None:
    failures: list[str] = []
    for mistake, words, code, said in CHECKED:
        place.as_it_was()
        mistake(place)
        more = ("--min-age", "0 s", "--no-local") if words[0] == "clean" else ()
        before = place.state()
        done = place.penstock(*(word.format(savepoint=place.savepoint, a=place.a.name) for word in words), *more)
        lost = before - place.state()
        if done.code != code or not re.search(said, done.err):
            failures.append(f"{mistake.__name__} {words}: {done.code} {done.err[-600:]}")
        elif lost and "Deleted" not in done.err:
            failures.append(f"{mistake.__name__} {words}: {lost} is gone without a line")
        elif ".. " in done.err or "..\n" in done.err:
            failures.append(f"{mistake.__name__} {words}: two full stops: {done.err}")
    assert not failures, "\n".join(failures)


def test_commands_on_a_job_whose_process_stands_still_say_so_at_once(
    penstock: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "is_stopped", lambda pid: True)
    driver = FakeDriver()
    with serving(driver):
        done = penstock("list")
        assert (done.code, "UNREACHABLE" in done.out) == (0, True)
        assert re.search(r"Job 'prices' .*was stopped by a signal.* kill -CONT \d+ lets it continue\.\n", done.err)
        for words in (
            ("info",),
            ("stop",),
            ("cancel",),
            ("cancel", "--with-savepoint"),
            ("savepoint", "take"),
            ("checkpoint",),
        ):
            done = penstock(*words, "prices")
            assert (done.code, len(done.err.splitlines())) == (6, 1), words
            assert "was stopped by a signal" in done.err
    assert not driver.asked


def test_commands_name_the_jobs_that_they_wait_for_and_wait_for_all_at_once(
    penstock: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_LOOK_S", 0.3)
    monkeypatch.setattr(jobs, "_QUIET_S", 0.0)
    with ExitStack() as silent:
        registry = JobRegistry(default_directory())
        silent.callback(registry.clear)
        for number in range(3):  # each takes connections, and answers nothing
            server = silent.enter_context(socket.create_server(("127.0.0.1", 0)))
            address = f"http://127.0.0.1:{server.getsockname()[1]}"
            registry.add(RegistryEntry.of_this_process(f"{number}" * 32, f"job-{number}", address, 1))
        done = penstock("list")
    waited = [line for line in done.err.splitlines() if line.startswith("Waiting for 'job-")]
    assert len(waited) == 3
    assert done.out.count("UNREACHABLE") == 3
    assert done.err.count("it does not answer within 0 s") == 3


def test_process_that_a_signal_has_stopped_is_known() -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert is_stopped(process.pid)
        process.kill()
    assert not is_stopped(process.pid)


def test_directories_of_other_jobs_dead_processes_go_with_local_alone(
    penstock: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = ScratchDirectory("penstock-checkpoints-", tmp_path)
    directory._lock.close()  # as when its process is killed
    shown = penstock("clean", "--min-age", "0 s")
    assert str(directory.path) in shown.out
    assert "(of user " in shown.out
    kept = penstock("clean", "--min-age", "0 s", "--remove")
    assert directory.path.exists()
    assert "Removed 0 leftovers" in kept.err
    assert "penstock clean --local --remove removes them" in kept.err
    penstock("clean", "--min-age", "0 s", "--remove", "--local")
    assert not directory.path.exists()
