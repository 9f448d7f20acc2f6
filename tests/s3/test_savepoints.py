"""Savepoints in S3: moved from bucket to bucket, claimed or not, looked at, disposed of; and what the command says."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.fault.job import assembled, counting_graph, is_truth
from tests.fault.points import Points
from tests.fault.support import crash, run_here
from tests.kit.clock import HastyClock
from tests.kit.driving import CrashError
from tests.unit.cli.conftest import Command, Done

from penstock._engine.cli.main import main
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.paths import MARK, START_ORDER
from penstock._engine.savepoints.located import locate
from penstock.common.job_status import JobStatus
from penstock.savepoint import Savepoint, SavepointWriter

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from tests.services.s3 import S3Server

    from penstock._engine.driver.driver import JobDriver

pytestmark = pytest.mark.s3

#: The first checkpoint is complete.
CHECKPOINTED = "publish_progress-1-before"


@pytest.fixture
def penstock(
    tmp_path: Path, server: S3Server, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    """The command in this process, where the environment says how S3 is reached."""
    for name, value in server.penstock_variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def call(*words: str) -> Done:
        code = main(words)
        printed = capfd.readouterr()
        assert server.secret_key not in printed.out + printed.err
        return Done(code, printed.out, printed.err)

    return call


def stopped_into_savepoint(directory: Path, checkpoints: str, savepoints: str, **settings: str) -> str:
    """Run the job until its first checkpoint, stop it with a savepoint, and return that."""
    futures: list[Future[str]] = []
    graph, clock = counting_graph(directory), HastyClock()
    driver, loop = assembled(graph, directory, None, clock, checkpoints=checkpoints, **settings)
    Points({CHECKPOINTED: lambda: futures.append(driver.savepoint(savepoints, StopMode.SUSPEND))}).watch(loop)
    driver.run(loop)
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    path = futures[0].result(0)
    assert path.startswith(savepoints)
    assert locate(path, settings).entry.kind is ChainEntryKind.SAVEPOINT
    return path


def restored(directory: Path, path: str, checkpoints: str, parallelism: int = 2, **settings: str) -> JobDriver:
    """Run the job from a savepoint to its end, on a machine that has nothing of it."""
    shutil.rmtree(directory / "state", ignore_errors=True)
    graph = counting_graph(directory, parallelism)
    return run_here(directory, graph=graph, recover=path, checkpoints=checkpoints, **settings)


@pytest.mark.parametrize("prefix", ["", "moved", "some/where else"])
def test_savepoint_that_was_moved_to_another_bucket_restores_at_another_parallelism(
    tmp_path: Path, server: S3Server, bucket: str, prefix: str
) -> None:
    path = stopped_into_savepoint(
        tmp_path, f"s3://{bucket}/checkpoints", f"s3://{bucket}/savepoints", **server.settings
    )
    other = f"{bucket}-other"
    server.make_bucket(other)
    name = path.removeprefix(f"s3://{bucket}/")
    server.move(bucket, other, prefix)
    assert server.keys(bucket) == []
    moved = f"s3://{other}/{prefix}/{name}" if prefix else f"s3://{other}/{name}"
    driver = restored(tmp_path, moved, f"s3://{bucket}/new", 3, **server.settings)
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert is_truth(tmp_path)


@pytest.mark.parametrize("place", ["", "/savepoint"])
def test_savepoint_at_the_root_of_a_bucket_restores(tmp_path: Path, server: S3Server, bucket: str, place: str) -> None:
    path = stopped_into_savepoint(
        tmp_path, f"s3://{bucket}/checkpoints", f"s3://{bucket}/savepoints", **server.settings
    )
    other = f"{bucket}-other"
    url = server.make_bucket(other) + place
    SavepointWriter.from_existing(path, options=server.settings).write(url)
    driver = restored(tmp_path, url, f"s3://{bucket}/new", **server.settings)
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert is_truth(tmp_path)


def test_claimed_savepoint_goes_and_another_one_stays(tmp_path: Path, server: S3Server, bucket: str) -> None:
    claim = {"execution.state-recovery.claim-mode": "CLAIM"}
    path = stopped_into_savepoint(
        tmp_path, f"s3://{bucket}/checkpoints", f"s3://{bucket}/savepoints", **server.settings
    )
    before = server.keys(bucket)
    for number, more in enumerate(({}, {}, claim)):
        shutil.rmtree(tmp_path / "again", ignore_errors=True)
        shutil.copytree(tmp_path / "out", tmp_path / "again" / "out")
        driver = restored(tmp_path / "again", path, f"s3://{bucket}/new-{number}", **server.settings, **more)
        assert driver.status is JobStatus.FINISHED, driver.result.exception()
        assert is_truth(tmp_path / "again")
        left = [key for key in server.keys(bucket) if key.startswith("savepoints/")]
        assert left == ([] if more else [key for key in before if key.startswith("savepoints/")])


def test_savepoint_is_read_changed_and_disposed_of(
    tmp_path: Path, server: S3Server, bucket: str, penstock: Command
) -> None:
    path = (
        SavepointWriter.new(options=server.settings)
        .set_keyed_state("totals", "total", {"ada": 3})
        .write(f"s3://{bucket}/one")
    )
    writer = SavepointWriter.from_existing(path, options=server.settings)
    writer.transform_keyed_state("totals", "total", lambda _, total: total + 1)
    changed = Savepoint.open(writer.write(f"s3://{bucket}/two"), server.settings)
    assert [(entry.key, entry.value) for entry in changed.keyed_state("totals", "total")] == [("ada", 4)]
    assert changed.verify().damaged == ()
    shown = penstock("savepoint", "inspect", "--verify", "--count-keys", path)
    assert shown.code == 0, shown.err
    assert "totals" in shown.out
    for name in ("one", "two"):
        gone = penstock("savepoint", "dispose", f"s3://{bucket}/{name}")
        assert gone.code == 0, gone.err
    assert server.keys(bucket) == []
    missing = penstock("savepoint", "inspect", path)
    assert missing.code != 0
    assert path in missing.err


def test_clean_removes_what_a_dead_job_left(tmp_path: Path, server: S3Server, bucket: str, penstock: Command) -> None:
    checkpoints = f"s3://{bucket}/checkpoints"
    with pytest.raises(CrashError):
        run_here(tmp_path, actions={"put_chain_entry-4-before": crash}, checkpoints=checkpoints, **server.settings)
    [job_id] = {key.split("/")[1] for key in server.keys(bucket)} - {MARK, START_ORDER}
    where = ("--checkpoint-dir", checkpoints, "--no-local", "--min-age", "0 s", "--ended-job", job_id)
    listed = penstock("clean", *where)
    assert listed.code == 0, listed.err
    assert f"{checkpoints}/{job_id}/shared/" in listed.out
    before = server.keys(bucket)
    removed = penstock("clean", "--remove", *where)
    assert removed.code == 0, removed.err
    assert len(server.keys(bucket)) < len(before)
    driver = run_here(tmp_path, checkpoints=checkpoints, **server.settings)
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert is_truth(tmp_path)


def test_doctor_says_whether_s3_is_reached(server: S3Server, bucket: str, penstock: Command) -> None:
    setting = ("-D", f"execution.checkpointing.dir=s3://{bucket}/checkpoints")
    assert f"s3://{bucket}/checkpoints can be written to and refuses to overwrite" in penstock("doctor", *setting).out
    wrong = penstock("doctor", *setting, "-D", "s3.secret-key=wrong")
    assert wrong.code == 1
    assert "refuses access with the credentials that it was given" in wrong.out
    assert server.keys(bucket) == []


def test_config_hides_the_secret(penstock: Command) -> None:
    shown = penstock("config", "s3.").out
    assert "s3.secret-key" in shown
    assert "******" in shown
