"""Deletes a checkpoint or savepoint from elsewhere that a job has claimed, once newer checkpoints are there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.paths import METADATA, checkpoint_ids, checkpoint_path, metadata_path, number_of_claim
from penstock._engine.savepoints.chains import readable_entry
from penstock._engine.savepoints.disposal import belongs
from penstock._engine.storage.checkpoint_storage import document_of

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import ChainEntry
    from penstock._engine.storage.checkpoint_storage import FileStorage


def delete_claimed(storage: FileStorage, path: str, owner: str) -> None:
    """Delete a checkpoint of another job, or a savepoint: its metadata first, so that the rest is never restored.

    Args:
        storage: The directory that it is in.
        path: Its path there.
        owner: The id of the job that has claimed it.
    """
    entry = readable_entry(storage, path)
    if entry is None:  # deleted already, or damaged and left for inspection
        return
    if entry.kind is ChainEntryKind.SAVEPOINT:
        own = [file.path for file in storage.files(path) if belongs(file.path.removeprefix(f"{path}/"), entry)]
        storage.delete([f"{path}/{METADATA}"])
        storage.delete(own)  # other files there are the user's
        return
    files = _files_of_its_own(storage, entry)
    _close_chain(storage, entry, owner)
    storage.delete([f"{path}/{METADATA}"])
    storage.delete([*files, *(f"{path}/{name}" for name in storage.names(path) if number_of_claim(name))])


def _files_of_its_own(storage: FileStorage, entry: ChainEntry) -> list[str]:
    """Return the files that no other checkpoint of its job names; none if that is uncertain."""
    others = [number for number in checkpoint_ids(storage.names(entry.job_id)) if number != entry.checkpoint_id]
    needed: set[str] = set()
    for number in others:
        other = readable_entry(storage, checkpoint_path(entry.job_id, number))
        if other is None:
            return []
        needed |= state_files(other.snapshot) if other.snapshot is not None else set()
    return sorted(state_files(entry.snapshot) - needed) if entry.snapshot is not None else []


def _close_chain(storage: FileStorage, entry: ChainEntry, owner: str) -> None:
    """Put a terminal entry after the other job's newest one, so that none of its drivers takes the same id again."""
    if entry.checkpoint_id != max(checkpoint_ids(storage.names(entry.job_id))):
        return
    last = replace(
        entry,
        kind=ChainEntryKind.CANCELED,
        checkpoint_id=entry.checkpoint_id + 1,
        run_id=owner,
        nonce=f"{owner}-claimed",
        parent=None,
        snapshot=None,
        savepoint=None,
        reason=f"job {owner} has claimed its checkpoint {entry.checkpoint_id}",
    )
    storage.put_if_absent(metadata_path(last.job_id, last.checkpoint_id), document_of(storage, last))
