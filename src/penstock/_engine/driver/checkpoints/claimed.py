"""Deletes a checkpoint or savepoint from elsewhere that a job has claimed, once newer checkpoints are there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.driver.checkpoints.damage import readable
from penstock._engine.protocol.metadata import RecordKind, encode_record
from penstock._engine.protocol.paths import METADATA, checkpoint_ids, checkpoint_path, metadata_path
from penstock._engine.savepoints.disposal import belongs

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import Record
    from penstock._engine.storage.checkpoint_storage import CheckpointStorage


def delete_claimed(storage: CheckpointStorage, path: str, owner: str) -> None:
    """Delete a checkpoint of another job, or a savepoint: first its metadata, so that what is left is never restored.

    Args:
        storage: The directory that it is in.
        path: Its path there.
        owner: The id of the job that has claimed it.
    """
    record = readable(storage, path)
    if record is None:  # it has gone already, or is damaged: then a person may want to look at it
        return
    if record.kind is RecordKind.SAVEPOINT:
        own = [file.path for file in storage.files(path) if belongs(file.path.removeprefix(f"{path}/"), record)]
        storage.delete([f"{path}/{METADATA}"])
        storage.delete(own)  # what else somebody has put there is theirs
        return
    files = _files_of_its_own(storage, record)
    _close_chain(storage, record, owner)
    storage.delete([f"{path}/{METADATA}"])
    storage.delete(files)


def _files_of_its_own(storage: CheckpointStorage, record: Record) -> list[str]:
    """Return the files that no other checkpoint of its job names; none where that cannot be told."""
    others = [number for number in checkpoint_ids(storage.names(record.job_id)) if number != record.checkpoint_id]
    needed: set[str] = set()
    for number in others:
        other = readable(storage, checkpoint_path(record.job_id, number))
        if other is None:
            return []
        needed |= state_files(other.snapshot) if other.snapshot is not None else set()
    return sorted(state_files(record.snapshot) - needed) if record.snapshot is not None else []


def _close_chain(storage: CheckpointStorage, record: Record, owner: str) -> None:
    """Let no driver of the other job take the id again that goes with its newest record."""
    if record.checkpoint_id != max(checkpoint_ids(storage.names(record.job_id))):
        return
    last = replace(
        record,
        kind=RecordKind.CANCELED,
        checkpoint_id=record.checkpoint_id + 1,
        run_id=owner,
        nonce=f"{owner}-claimed",
        parent=None,
        snapshot=None,
        savepoint=None,
        reason=f"job {owner} has claimed its checkpoint {record.checkpoint_id}",
    )
    storage.put_if_absent(metadata_path(last.job_id, last.checkpoint_id), encode_record(last))
