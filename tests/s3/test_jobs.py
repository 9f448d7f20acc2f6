"""Whole jobs with their checkpoints in S3; Spark's part is played in the process of the driver."""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.fault.job import is_truth
from tests.fault.support import Driver, run, run_here
from tests.services.proxy import FAILED, UNAVAILABLE, Proxy
from tests.services.s3 import S3Server

from penstock._connectors.files import stores
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.driver.epochs import execution as epochs
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.storage import object_store
from penstock._engine.storage.opening import open_storage
from penstock.common import Configuration, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.common.serialization import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.errors import CheckpointStorageError
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.s3

#: Another three checkpoints are to come.
AT_WORK = "put_chain_entry-3-after"
COMMIT = "put_chain_entry-4-before"


@pytest.fixture
def settings(server: S3Server, bucket: str) -> dict[str, str]:
    """Where checkpoints go, and how S3 is reached."""
    return {"checkpoints": f"s3://{bucket}/checkpoints", **server.settings}


def test_job_keeps_its_state_in_s3_and_ends_with_the_truth(
    tmp_path: Path, server: S3Server, bucket: str, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "MAX_INLINE_PROGRAM", 0)  # the program goes there, too
    objects: dict[str, bytes] = {}
    driver = run_here(tmp_path, actions={AT_WORK: lambda: objects.update(server.objects(bucket))}, **settings)
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert is_truth(tmp_path)
    assert all(key.startswith("checkpoints/") for key in objects)
    for part in ("/_metadata", "/shared/", "/blobs/"):
        assert any(part in key for key in objects)
    assert not any(server.secret_key.encode() in content for content in objects.values())


@pytest.mark.fault
def test_killed_driver_is_followed_by_one_that_loses_nothing(
    tmp_path: Path, server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    where = ("--checkpoints", f"s3://{bucket}/checkpoints")
    assert run(tmp_path, *where, "--kill", COMMIT).was_killed
    ended = run(tmp_path, *where)
    assert ended.has_finished, ended.log
    assert is_truth(tmp_path)
    assert server.secret_key not in ended.log


@pytest.mark.fault
def test_driver_that_was_stopped_while_another_did_its_job_is_fenced(
    tmp_path: Path, server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    where = ("--checkpoints", f"s3://{bucket}/checkpoints")
    with Driver(tmp_path, *where, "--stop", COMMIT) as old:
        assert old.wait_until_stopped()
        ended = run(tmp_path, *where)
        assert ended.has_finished, ended.log
        last = old.go_on()
    assert last.was_fenced, last.log
    assert is_truth(tmp_path)


@pytest.mark.parametrize("changes", [{"s3.secret-key": "wrong"}, {"checkpoints": "s3://no-such-bucket/checkpoints"}])
def test_store_that_cannot_be_used_is_told_before_the_job_does_anything(
    tmp_path: Path, settings: dict[str, str], changes: dict[str, str]
) -> None:
    with pytest.raises(CheckpointStorageError):
        run_here(tmp_path, **{**settings, **changes})
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------------ outages


def test_server_that_crashes_and_comes_back_soon_costs_the_job_nothing(tmp_path: Path) -> None:
    with S3Server() as server:
        settings = {"checkpoints": server.make_bucket("jobs"), **server.settings}

        def crash() -> None:
            server.kill()
            threading.Timer(2, server.start).start()

        driver = run_here(tmp_path, actions={AT_WORK: crash}, restart="none", **settings)
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert is_truth(tmp_path)


def test_server_that_stays_away_costs_restarts_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_PATIENT", object_store._IMPATIENT)
    with S3Server() as server:
        settings = {"checkpoints": server.make_bucket("jobs"), **server.settings}
        restarted = threading.Event()

        def come_back() -> None:
            restarted.set()
            server.start()

        actions = {AT_WORK: server.kill, "report_failure-1-before": come_back}
        driver = run_here(tmp_path, actions=actions, **settings)
    assert restarted.is_set()
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert driver.progress.restarts >= 1
    assert is_truth(tmp_path)


@pytest.mark.parametrize("instead", [b"", UNAVAILABLE])
@pytest.mark.parametrize("record", [1, 3, 6])
def test_lost_answer_on_a_record_is_not_taken_for_another_driver(
    tmp_path: Path, server: S3Server, settings: dict[str, str], record: int, instead: bytes
) -> None:
    with Proxy(server.port) as proxy:
        proxy.lose(
            lambda head: head.startswith("PUT") and f"/chk-{record}/_metadata" in head and not proxy.lost, instead
        )
        driver = run_here(tmp_path, restart="none", **{**settings, "s3.endpoint": proxy.endpoint})
        assert len(proxy.lost) == 1
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert is_truth(tmp_path)


def uppercase(place: Path, server: S3Server, bucket: str, **settings: str) -> list[str]:
    """Run a job that reads lines in S3 and writes them there in capitals; return what it has written."""
    configuration = Configuration.from_dict({**server.settings, "restart-strategy.type": "none", **settings})
    store = open_storage(f"s3://{bucket}/in", server.settings)
    for part in range(3):
        store.put(f"{part}", f"a{part}\nb{part}\n".encode())
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"s3://{bucket}/in").build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").map(str.upper)
    lines.sink_to(FileSink.for_row_format(f"s3://{bucket}/out", Encoder.simple_string_encoder()).build())
    environment = RuntimeEnvironment(InProcessEpochRunner(), 2, place / "state")
    driver, loop = assemble(build_job_graph(env._stream_graph("files")), configuration, None, environment)
    driver.run(loop)
    driver.result.result(0)
    written = b"".join(content for key, content in server.objects(bucket).items() if key.startswith("out/"))
    return sorted(written.decode().split())


CAPITALS = sorted(f"{name}{part}" for name in "AB" for part in range(3))


@pytest.mark.usefixtures("_no_opened_stores")
def test_files_in_s3_are_read_and_written_by_the_keys_of_the_job(tmp_path: Path, server: S3Server, bucket: str) -> None:
    assert uppercase(tmp_path, server, bucket) == CAPITALS


@pytest.mark.usefixtures("_no_opened_stores")
def test_a_store_that_answers_late_and_says_500_to_what_it_has_done_costs_no_record(
    tmp_path: Path, server: S3Server, bucket: str
) -> None:
    requests = count()
    with Proxy(server.port) as proxy:
        proxy.lose(lambda _: next(requests) % 4 == 3, FAILED)
        proxy.hold(lambda head: head.startswith("PUT"), 0.2)
        assert uppercase(tmp_path, server, bucket, **{"s3.endpoint": proxy.endpoint}) == CAPITALS
        assert len(proxy.lost) > 3
        assert proxy.held


@pytest.fixture
def _no_opened_stores() -> Iterator[None]:
    stores._opened.cache_clear()
    yield
    stores._opened.cache_clear()
