"""Deletes a savepoint, after checking that it is one, and that no job starts from it next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.snapshots import state_files
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.paths import METADATA, STAGED_METADATA, WAITING, checkpoint_of, number_of_claim
from penstock._engine.savepoints.chains import read_chains, same_place
from penstock._engine.savepoints.holders import HoldingJob, claimants, waiting_job
from penstock._engine.savepoints.located import LocatedCheckpoint, absolute, locate
from penstock._engine.storage.opening import above, open_storage
from penstock.errors import CheckpointStorageError, CorruptCheckpointError, PenstockError, SavepointChangeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.protocol.metadata import ChainEntry
    from penstock._engine.savepoints.chains import JobChain
    from penstock._engine.storage.checkpoint_storage import FileStorage

_UNKNOWN: Final = (
    "job {job.job_name!r} ({job.job_id}) {done}, and whether it needs it still is not known here, because "
    "{job.checkpoints} has no record of it {which}. Name the directory where its checkpoints are now (--checkpoint-dir)"
)


@dataclass(frozen=True, slots=True)
class Disposal:
    """The result of a deletion."""

    path: str
    #: Files, the metadata among them, and their bytes.
    files: int
    bytes: int


def dispose(
    path: str,
    checkpoint_directories: Iterable[str] = (),
    options: Mapping[str, str] | None = None,
    *,
    no_job_waits: bool = False,
) -> Disposal:
    """Delete a savepoint, its metadata first, so that no job can start from a partly deleted one.

    Args:
        path: The savepoint's directory or metadata file.
        checkpoint_directories: The checkpoint directories whose jobs may need it.
        options: Options of the object store.
        no_job_waits: The user's word that no job needs it, which counts where that cannot be known.

    Raises:
        UnknownStateError: There is no savepoint at that path.
        SavepointChangeError: It is a checkpoint, a job starts from it next or may do so, or other files are in its
            directory.
        CorruptCheckpointError: Its metadata is damaged, so its files are unknown.
        CheckpointStorageError: It cannot be deleted.
    """
    located = locate(path, options)
    if located.entry.kind is not ChainEntryKind.SAVEPOINT:
        reason = (
            f"it is a {located.entry.kind.value} entry in the chain of job {located.entry.job_id}, and no savepoint. "
            "A job removes its checkpoints itself; execution.checkpointing.num-retained says how many it keeps"
        )
        raise SavepointChangeError(located.path, reason)
    may_be_needed = _check_unneeded(located, checkpoint_directories, options)
    if may_be_needed is not None and not no_job_waits:
        raise SavepointChangeError(located.path, f"{may_be_needed}; or say that no job waits for it (--no-job-waits)")
    root, name = above(located.path)
    storage = open_storage(root or "/", options)
    files = {file.path.removeprefix(f"{name}/"): file.size for file in storage.files(name)}
    foreign = [file for file in files if not belongs(file, located.entry)]
    if foreign:
        reason = f"{storage.full_path(f'{name}/{foreign[0]}')} does not belong to it. Move it away, then try again"
        raise SavepointChangeError(located.path, reason)
    unfinished = [file.path for file in storage.unfinished() if file.path.startswith(f"{name}/")]
    storage.delete([f"{name}/{METADATA}"])
    storage.delete([*(f"{name}/{file}" for file in files if file != METADATA), *unfinished])
    return Disposal(located.path, len(files), sum(files.values()))


def belongs(file: str, entry: ChainEntry) -> bool:
    """Tell whether a file in the directory of a savepoint belongs to it, or to an earlier attempt to write it."""
    named = state_files(entry.snapshot) if entry.snapshot is not None else frozenset[str]()
    if file in {METADATA, STAGED_METADATA, WAITING} or file in named:
        return True
    return checkpoint_of(file) is not None or number_of_claim(file) is not None


def _check_unneeded(
    located: LocatedCheckpoint, directories: Iterable[str], options: Mapping[str, str] | None
) -> str | None:
    """Return why a job may need a savepoint although no record says so: a clause with the way out; None if none does.

    Raises:
        SavepointChangeError: A job starts from it next.
    """
    waiting, claimed, unknown = _jobs_of_savepoint(located.storage)
    known = claimed if waiting is None else [waiting, *claimed]
    places = dict.fromkeys(map(absolute, [*directories, *(job.checkpoints for job in known)]))
    chains: list[JobChain] = []
    for place in places:
        try:
            chains += read_chains(open_storage(place, options))
        except CheckpointStorageError as error:
            unknown = (
                f"{place} cannot be read ({error.reason}), and a job in it may need the savepoint. Make it readable"
            )
    for chain in chains:
        if any(_is_same(located, needed, waiting, chain, options) for needed in chain.start()):
            newest = chain.newest
            name = "" if newest is None else f" {newest.job_name!r}"
            reason = (
                f"job{name} ({chain.job_id}) continues from it next. Start that job and let it complete a checkpoint, "
                f"then try again. If it is never to run again, remove {chain.storage.full_path(chain.job_id)}, and try "
                "again with --no-job-waits"
            )
            raise SavepointChangeError(located.path, reason)
        if chain.hides_newest:
            unknown = (
                f"{chain.unreadable[-1]} cannot be read, and job {chain.job_id} may need the savepoint. Restore that "
                "file from a copy"
            )
    if waiting is not None and _newest_of(waiting, chains) < located.entry.checkpoint_id:
        unknown = unknown or _UNKNOWN.format(job=waiting, done="was stopped into it", which="from then on")
    for job in claimed:
        if not _newest_of(job, chains):
            unknown = unknown or _UNKNOWN.format(job=job, done="has claimed it", which="at all")
    return unknown


def _jobs_of_savepoint(savepoint: FileStorage) -> tuple[HoldingJob | None, list[HoldingJob], str | None]:
    """Return the job that was stopped into a savepoint, those that have claimed it, and why one may be unknown."""
    waiting: HoldingJob | None = None
    claimed: list[HoldingJob] = []
    done = "was stopped into it"
    try:
        waiting = waiting_job(savepoint)
        done = "has claimed it"
        claimed = claimants(savepoint)
    except CorruptCheckpointError as error:
        told = f"which job {done} is not known, because {error.path} is damaged. Restore that file"
        return waiting, claimed, told
    return waiting, claimed, None


def _newest_of(job: HoldingJob, chains: Iterable[JobChain]) -> int:
    """Return the id of a job's newest record that can be read; 0 without any."""
    return max((max(chain.entries, default=0) for chain in chains if chain.job_id == job.job_id), default=0)


def _is_same(
    located: LocatedCheckpoint,
    needed: str,
    waiting: HoldingJob | None,
    chain: JobChain,
    options: Mapping[str, str] | None,
) -> bool:
    """Tell whether a job needs this very savepoint; it may have been moved since the job was stopped into it."""
    if same_place(located.path, needed):
        return True
    if waiting is None or waiting.job_id != chain.job_id or not same_place(waiting.path, needed):
        return False
    try:
        locate(needed, options)
    except PenstockError:
        return True  # nothing is left where it was
    return False
