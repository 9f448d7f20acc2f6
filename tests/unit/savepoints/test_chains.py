"""What a start from the newest record of a job needs beside its own checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind, JobSnapshot, ParentCheckpoint
from penstock._engine.protocol.metadata_document import encode_chain_entry
from penstock._engine.protocol.paths import metadata_path
from penstock._engine.savepoints.chains import JobChain, read_chains, same_place
from penstock._engine.storage.opening import open_storage

if TYPE_CHECKING:
    from pathlib import Path

JOB = "a" * 32
ELSEWHERE = "/savepoints/savepoint-1"


def chain(place: Path, *records: tuple[ChainEntryKind, str | None, str | None]) -> JobChain:
    """Write a chain; each record is its kind, the path of its parent, and its savepoint."""
    storage = open_storage(str(place))
    for number, (kind, parent, savepoint) in enumerate(records, start=1):
        came_from = None if parent is None else ParentCheckpoint(int(parent.rpartition("-")[2]), parent)
        snapshot = JobSnapshot((), {}) if kind is ChainEntryKind.CHECKPOINT else None
        record = ChainEntry(
            kind, JOB, "job", number, "run", "nonce", 0, "", parent=came_from, snapshot=snapshot, savepoint=savepoint
        )
        storage.put(metadata_path(JOB, number), encode_chain_entry(record))
    [found] = read_chains(storage)
    return found


TAKEOVER, CHECKPOINT = ChainEntryKind.TAKEOVER, ChainEntryKind.CHECKPOINT


@pytest.mark.parametrize(
    ("records", "needed"),
    [
        ([(TAKEOVER, None, None)], ()),
        ([(TAKEOVER, ELSEWHERE, None)], (ELSEWHERE,)),
        ([(TAKEOVER, ELSEWHERE, None), (ChainEntryKind.FAILED, ELSEWHERE, None)], (ELSEWHERE,)),
        ([(TAKEOVER, ELSEWHERE, None), (TAKEOVER, ELSEWHERE, None)], (ELSEWHERE,)),
        ([(TAKEOVER, ELSEWHERE, None), (CHECKPOINT, ELSEWHERE, None)], ()),
        ([(TAKEOVER, None, None), (CHECKPOINT, None, ELSEWHERE)], (ELSEWHERE,)),
        ([(CHECKPOINT, None, None), (ChainEntryKind.SUSPENDED, f"{JOB}/chk-1", ELSEWHERE)], (ELSEWHERE,)),
        ([(CHECKPOINT, None, None), (ChainEntryKind.CANCELED, f"{JOB}/chk-1", ELSEWHERE)], (ELSEWHERE,)),
        ([(CHECKPOINT, None, None), (ChainEntryKind.CANCELED, f"{JOB}/chk-1", None)], ()),
        ([(CHECKPOINT, None, ELSEWHERE), (ChainEntryKind.CANCELED, f"{JOB}/chk-1", None)], ()),
        ([(CHECKPOINT, None, None), (TAKEOVER, f"{JOB}/chk-1", None)], ()),
        ([(CHECKPOINT, None, None), (ChainEntryKind.DRAINED, f"{JOB}/chk-1", ELSEWHERE)], ()),  # it has ended
    ],
)
def test_savepoints_that_a_start_needs(
    tmp_path: Path, records: list[tuple[ChainEntryKind, str | None, str | None]], needed: tuple[str, ...]
) -> None:
    assert chain(tmp_path, *records).start() == needed


@pytest.mark.parametrize(("keeps", "needed"), [(False, ()), (True, (ELSEWHERE,))])
def test_finished_job_without_a_checkpoint_of_its_own_needs_its_start_where_it_may_go_on(
    tmp_path: Path, keeps: bool, needed: tuple[str, ...]
) -> None:
    found = chain(tmp_path, (TAKEOVER, ELSEWHERE, None), (ChainEntryKind.FINISHED, ELSEWHERE, None))
    found.entries[2] = replace(found.entries[2], keeps_checkpoints=keeps)
    assert found.start() == needed


def test_drained_job_needs_no_savepoint_also_where_a_crash_has_left_its_last_checkpoint(tmp_path: Path) -> None:
    found = chain(tmp_path, (CHECKPOINT, None, ELSEWHERE), (ChainEntryKind.DRAINED, f"{JOB}/chk-1", ELSEWHERE))
    found.entries[2] = replace(found.entries[2], keeps_checkpoints=False)
    assert found.start() == ()


@pytest.mark.parametrize(
    ("kind", "said", "to_be_deleted"),
    [
        (ChainEntryKind.FINISHED, {"keeps_checkpoints": False}, {1, 2}),
        (ChainEntryKind.FINISHED, {"keeps_checkpoints": False, "begins": 2}, {2}),
        (ChainEntryKind.FINISHED, {"keeps_checkpoints": True}, set[int]()),
        (TAKEOVER, {}, set[int]()),
    ],
)
def test_checkpoints_of_a_job_that_has_ended_are_doomed_but_for_those_that_are_the_users(
    tmp_path: Path, kind: ChainEntryKind, said: dict[str, Any], to_be_deleted: set[int]
) -> None:
    found = chain(tmp_path, (CHECKPOINT, None, None), (CHECKPOINT, None, None), (kind, None, None))
    found.entries[3] = replace(found.entries[3], **said)
    assert found.to_be_deleted == to_be_deleted
    assert found.living == [entry for number, entry in found.entries.items() if number not in to_be_deleted]


def test_damaged_record_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    chain(tmp_path, (TAKEOVER, None, None), (CHECKPOINT, None, None), (ChainEntryKind.FINISHED, None, None))
    damaged = tmp_path / JOB / "chk-2" / "_metadata"
    damaged.write_bytes(b"{")
    [found] = read_chains(open_storage(str(tmp_path)))
    assert (list(found.entries), found.unreadable, found.has_ended) == ([1, 3], (str(damaged),), True)


def test_one_place_has_many_names() -> None:
    assert same_place("/a/s", "file:///a/s/")
    assert same_place("file:/a%20b/s/_metadata", "/a b/s")
    assert not same_place("/a/s", "/a/s2")
