"""The mark of a checkpoint directory on a real S3 server: who puts the first one, and what ids follow from it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.fault.job import NAME
from tests.fault.support import run_here
from tests.services.proxy import UNAVAILABLE, Proxy

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.checkpoints.start_lookups import StartLookups
from penstock._engine.protocol.paths import MARK, is_mark, job_id_of_name
from penstock._engine.storage.opening import open_storage
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3

DRIVERS = 8


def keeper(url: str, settings: dict[str, str]) -> StartLookups:
    return StartLookups(open_storage(url, settings))


def test_drivers_that_find_no_mark_at_the_same_time_agree(server: S3Server, bucket: str) -> None:
    keepers = [keeper(f"s3://{bucket}/checkpoints", server.settings) for _ in range(DRIVERS)]
    together = threading.Barrier(DRIVERS)

    def read(number: int) -> ev.Event:
        together.wait()
        return keepers[number].read_mark(do.ReadMark(f"{number:032x}"))

    with ThreadPoolExecutor(DRIVERS) as pool:
        marks = set(pool.map(read, range(DRIVERS)))
    assert len(marks) == 1
    assert marks <= {ev.MarkRead(f"{number:032x}") for number in range(DRIVERS)}
    assert server.keys(bucket) == [f"checkpoints/{MARK}"]


@pytest.mark.parametrize("instead", [b"", UNAVAILABLE])
def test_driver_whose_answer_is_lost_takes_the_mark_that_it_has_put(
    server: S3Server, bucket: str, instead: bytes
) -> None:
    with Proxy(server.port) as proxy:
        proxy.lose(lambda head: head.startswith("PUT") and MARK in head and not proxy.lost, instead)
        found = keeper(f"s3://{bucket}", {**server.settings, "s3.endpoint": proxy.endpoint}).read_mark(
            do.ReadMark("ab" * 16)
        )
        assert len(proxy.lost) == 1
    assert found == ev.MarkRead("ab" * 16)
    assert keeper(f"s3://{bucket}", server.settings).read_mark(do.ReadMark("cd" * 16)) == found


def test_jobs_of_one_name_below_two_prefixes_have_ids_of_their_marks(
    tmp_path: Path, server: S3Server, bucket: str
) -> None:
    ids: list[str] = []
    for place in ("a", "b"):
        url = f"s3://{bucket}/{place}"
        driver = run_here(tmp_path, checkpoints=url, **server.settings)
        mark = open_storage(url, server.settings).read(MARK).decode()
        assert is_mark(mark.removesuffix("\n"))
        assert driver.job_id == job_id_of_name(NAME, mark.strip())
        ids.append(driver.job_id)
    assert len(set(ids)) == 2


def test_mark_that_is_damaged_ends_the_start_with_an_error_that_names_the_object(
    tmp_path: Path, server: S3Server, bucket: str
) -> None:
    storage = open_storage(f"s3://{bucket}", server.settings)
    storage.put(MARK, b"not a mark")
    error = run_here(tmp_path, checkpoints=f"s3://{bucket}", **server.settings).result.exception()
    assert isinstance(error, CorruptCheckpointError)
    assert error.path == f"s3://{bucket}/{MARK}"
    assert storage.names("") == [MARK]
