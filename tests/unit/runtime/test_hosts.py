"""A task learns on its host what it has to know of it: another user, directory or home gives the same answers."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import EpochFailedError
from tests.unit.runtime.host_worker import running_sums

from penstock._engine.savepoints.leftovers import find_leftovers
from penstock._engine.savepoints.local_directories import is_dead_directory
from penstock._engine.savepoints.survey import LeftoverPlaces
from penstock._engine.storage import executor_directory, local_state
from penstock._engine.storage.local_state import LocalStateDirectory
from penstock._engine.storage.scratch import DirectoryLock
from penstock.errors import LocalStateError
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engine.plan.epoch_plan import EpochOutcome, EpochPlan

ROOT = Path(__file__).parents[3]
STRANGER = 65_534
#: Users of one checkpoint directory have to read the files of each other.
SHARED = {"penstock.state.private-files": "false"}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="runs a worker as another user: run as root")


def cleaned() -> list[Path]:
    """Return the directories that ``penstock clean`` finds."""
    return [Path(one.path) for one in find_leftovers(LeftoverPlaces(), now_ms=1 << 62).leftovers]


@dataclass(frozen=True)
class Host:
    """Where a worker runs, and as whom."""

    temporary: Path
    home: Path
    user: int | None = None

    @property
    def state(self) -> Path:
        user = os.geteuid() if self.user is None else self.user
        return self.temporary / f"penstock-{user}" / "state"

    def worker(self) -> subprocess.Popen[bytes]:
        for place in (self.temporary, self.home):
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(0o1777)
        command = [sys.executable, "-m", "tests.unit.runtime.host_worker"]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(self.home)}
        env |= {"TMPDIR": str(self.temporary), "AS_USER": "" if self.user is None else str(self.user)}
        return subprocess.Popen(command, cwd=self.home, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


class Elsewhere(InProcessEpochRunner):
    """Runs epochs in other processes in turn."""

    def __init__(self, hosts: Sequence[Host], stack: ExitStack) -> None:
        super().__init__()
        self._processes = [stack.enter_context(host.worker()) for host in hosts]
        self._next = cycle(self._processes)

    def run(self, plan: EpochPlan) -> EpochOutcome:
        return self._ask(next(self._next), replace(plan, state_directory=None, storage_options=SHARED))

    def end(self) -> None:
        for process in self._processes:
            self._ask(process, None)
            assert process.wait(30) == 0

    def _ask(self, process: subprocess.Popen[bytes], plan: EpochPlan | None) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump(plan, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)


def test_another_directory_home_and_user_give_the_same_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "driver"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    hosts = [Host(tmp_path / "a", tmp_path / "home-a"), Host(tmp_path / "b", tmp_path / "home-b")]
    run_on(hosts, tmp_path)
    assert list(own.iterdir()) == [], "of the driver's place"


@needs_root
def test_two_users_on_one_host_have_directories_of_their_own() -> None:
    with tempfile.TemporaryDirectory() as name:  # below pytest's own no other user can enter
        place = Path(name)
        place.chmod(0o1777)
        run_on([Host(place / "tmp", place / "home", user) for user in (None, STRANGER)], place)


def run_on(hosts: Sequence[Host], place: Path) -> None:
    """Run a job with keyed state on each of the hosts in turn."""
    (place / "expected").mkdir()
    expected = running_sums(place / "expected").run()["out"]
    job = running_sums(place)
    job.configuration["execution.checkpointing.data-inline-threshold"] = "0 b"
    with ExitStack() as stack:
        runner = job.runner = Elsewhere(hosts, stack)
        (place / "checkpoints").chmod(0o1777)
        while not job.finished:
            job.epoch(10)
        for host in hosts:
            (run,) = host.state.iterdir()
            assert list(run.glob("*/*/version-*")), "what a worker keeps there"
            assert stat.S_IMODE(run.stat().st_mode) == 0o700
            assert run.stat().st_uid == (os.geteuid() if host.user is None else host.user)
            assert list(host.home.iterdir()) == []
        runner.end()
    assert job.outputs["out"] == expected
    assert [list(host.state.iterdir()) for host in hosts] == [[], []], "the last process of a run clears its host"


def test_a_host_without_the_checkpoint_directory_names_it_and_makes_none(tmp_path: Path) -> None:
    job = running_sums(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(EpochFailedError, match=rf"{tmp_path}/checkpoints.*does not have it"):
        job.epoch()
    assert not (tmp_path / "checkpoints").exists()


def test_a_host_without_room_for_local_state_names_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = running_sums(tmp_path)
    (tmp_path / "local").write_text("in its place")
    with pytest.raises(EpochFailedError, match=rf"LocalStateError: .*{tmp_path}/local.*TMPDIR"):
        job.epoch()

    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(LocalStateError, match="No usable temporary directory"):
        LocalStateDirectory("run").hold()


# ---------------------------------------------------------------------------------------- who holds a run's directory


def test_the_last_process_that_leaves_a_run_deletes_its_directory(tmp_path: Path) -> None:
    first, second = LocalStateDirectory("run", tmp_path), LocalStateDirectory("run", tmp_path)
    first.hold()
    assert second.hold().is_relative_to(second.path)
    first.leave()
    assert second.path.is_dir()
    second.leave()
    assert list(tmp_path.iterdir()) == []


def test_the_next_run_deletes_what_a_killed_one_has_left_and_nothing_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, living = LocalStateDirectory("a" * 32), LocalStateDirectory("b" * 32)
    for directory in (killed, living):
        (directory.hold() / "op-0").mkdir()
    assert cleaned() == []
    killed._release()
    assert cleaned() == [killed.path]
    following = LocalStateDirectory("c" * 32)
    following.hold()
    assert sorted(path.name[0] for path in following.path.parent.iterdir()) == ["b", "c"]
    living.remove()
    following.remove()


EXECUTOR = {
    "standalone": ("{0}/app:{1}", "SPARK_EXECUTOR_DIRS", {}),
    "YARN": ("{0}/app,{1}", "LOCAL_DIRS", {"CONTAINER_ID": "container_1"}),
    "Kubernetes": ("{0}/app/blockmgr-1,{1}/blockmgr-2", "SPARK_LOCAL_DIRS", {"SPARK_EXECUTOR_POD_NAME": "exec-1"}),
}


@pytest.mark.parametrize("manager", EXECUTOR)
def test_state_of_an_executor_lies_in_the_first_directory_that_its_cluster_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: str
) -> None:
    text, name, others = EXECUTOR[manager]
    for variable, value in {name: text.format(tmp_path, tmp_path / "second"), **others}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "app").mkdir()
    directory = LocalStateDirectory("a" * 32)
    assert directory.hold().is_relative_to(tmp_path / "app")
    directory.remove()
    (tmp_path / "app").chmod(0o777)  # others could exchange what is in it
    (tmp_path / "second").mkdir()
    directory = LocalStateDirectory("a" * 32)
    assert directory.hold().is_relative_to(tmp_path / "second")
    directory.remove()
    (tmp_path / "second").rename(tmp_path / "gone")
    assert LocalStateDirectory("a" * 32).path.is_relative_to(tmp_path / "temporary")


def test_the_next_application_on_a_standalone_host_deletes_what_another_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def application(number: int) -> LocalStateDirectory:
        executor = tmp_path / f"spark-{number}" / f"executor-{number}"
        executor.mkdir(parents=True)
        monkeypatch.setenv("SPARK_EXECUTOR_DIRS", str(executor))
        directory = LocalStateDirectory(str(number) * 32)
        (directory.hold() / "op-0").mkdir()
        return directory

    killed = application(1)
    path = killed.path
    killed._release()
    living = application(2)
    assert not path.exists()
    kept, following = living.path, application(3)
    assert kept.exists()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    living._release()
    assert cleaned() == [kept]
    following.remove()


def test_state_of_a_living_executor_stays_though_spark_has_ended_its_idle_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark ends workers after a minute without tasks: a job with longer epochs would restore it each time."""

    def run_of(number: int, executor: str | None) -> LocalStateDirectory:
        monkeypatch.setattr(local_state, "executor_process", lambda: executor)
        place = tmp_path / f"spark-{number}" / f"executor-{number}"
        place.mkdir(parents=True)
        monkeypatch.setenv("SPARK_EXECUTOR_DIRS", str(place))
        directory = LocalStateDirectory(str(number) * 32)
        (directory.hold() / "op-0").mkdir()
        return directory

    with subprocess.Popen(["sleep", "100"]) as executor:
        idle = run_of(1, f"{executor.pid}-{executor_directory._status(executor.pid)[19].decode()}")
        idle._release()
        run_of(2, f"{executor.pid}-1").leave()  # the id of a process that is gone
        assert idle.path.exists()
        assert not is_dead_directory(idle.path)
        executor.kill()
        executor.wait()
    assert is_dead_directory(idle.path)
    run_of(3, None).leave()
    assert not idle.path.exists()


def test_worker_knows_its_executor_by_a_name_that_no_later_process_has() -> None:
    look = "from penstock._engine.storage.executor_directory import executor_process as p; print(p())"
    daemon = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {look!r}])"
    found = subprocess.run(
        [sys.executable, "-c", daemon, "pyspark.daemon"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.strip()
    assert found.partition("-")[0] == str(os.getpid())
    assert executor_directory.is_alive(found)
    assert not executor_directory.is_alive(f"{found}1")
    assert executor_directory.executor_process() is None


def test_what_another_kernel_may_hold_is_kept_unless_it_is_older_than_this_boot(tmp_path: Path) -> None:
    killed, old = LocalStateDirectory("a" * 32, tmp_path), LocalStateDirectory("b" * 32, tmp_path)
    for directory in (killed, old):
        directory.hold().rename(directory.path / "boot-other-7")
        directory._release()
    os.utime(old.path / "boot-other-7", (1, 1))
    following = LocalStateDirectory("c" * 32, tmp_path)
    following.hold()
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["a", "c"]
    following.remove()


def test_processes_of_two_namespaces_share_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: set[Path] = set()
    for number in (1, 2):
        (tmp_path / f"ns-{number}").symlink_to(f"pid:[{number}]")
        monkeypatch.setattr(local_state, "_NAMESPACE", tmp_path / f"ns-{number}")
        local_state._boot.cache_clear()
        places.add(LocalStateDirectory("run", tmp_path / "state").hold())
    local_state._boot.cache_clear()
    assert len(places) == 2


def test_a_directory_that_is_removed_while_it_is_taken_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    remover, taker = DirectoryLock(path), LocalStateDirectory("run", tmp_path)
    thread = threading.Thread(target=taker.hold)
    thread.start()
    shutil.rmtree(path, ignore_errors=True)  # fails if the directory was taken in the middle of it
    remover.close()
    thread.join()
    assert taker._lock is not None
    assert taker._lock.is_there(path)
    taker.remove()


def test_local_state_from_before_a_reboot_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LocalStateDirectory("run", tmp_path / "state")
    boots = [tmp_path / "first", tmp_path / "second"]
    places: set[Path] = set()
    for boot in boots:
        boot.write_text(f"{boot.name}\n")
        monkeypatch.setattr(local_state, "_BOOT_ID", boot)
        local_state._boot.cache_clear()
        places.add(directory.hold())
    local_state._boot.cache_clear()
    assert len(places) == 2
    directory.remove()
    assert list((tmp_path / "state").iterdir()) == []
