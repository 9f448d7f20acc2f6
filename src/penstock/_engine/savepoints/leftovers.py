"""Finds the leftovers of dead jobs, each with the reason why it is dead, and deletes them on request.

Files that a running or resumable job may need are never listed. Files whose use is unknown are reported as unclear. In
checkpoint directories only ended jobs are searched, because a running job deletes its own leftovers.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.protocol import clocks
from penstock._engine.protocol.paths import (
    METADATA,
    checkpoint_path,
    frames_directory,
    run_of_file,
    shared_directory,
    staged_directory,
)
from penstock._engine.savepoints.batch_leftovers import batch_leftovers
from penstock._engine.savepoints.chains import JobChain, read_chains, same_place
from penstock._engine.savepoints.kept_leftovers import kept_leftovers, remove_kept
from penstock._engine.savepoints.local_leftovers import dead_local_directories, remove_local_directory
from penstock._engine.savepoints.staged_leftovers import UNREADABLE, StagedLeftovers
from penstock._engine.savepoints.survey import Leftover, LeftoverKind, LeftoverPlaces, Removal, Survey, UnclearLeftover
from penstock._engine.storage.opening import open_storage
from penstock._files.job_options import reaching_stores_by
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock._engine.storage.checkpoint_storage import FileStorage, StoredFile

#: Files that were changed within this time are ignored.
MIN_AGE_MS: Final = 3_600_000
#: A batch job that was lost with its driver this long ago is not resumed any more.
ABANDONED_AGE_MS: Final = 7 * 86_400_000
_SAVEPOINT: Final = "savepoint-"


def find_leftovers(
    places: LeftoverPlaces,
    *,
    min_age_ms: int = MIN_AGE_MS,
    abandoned_age_ms: int = ABANDONED_AGE_MS,
    now_ms: int | None = None,
) -> Survey:
    """Find the leftovers of dead jobs; nothing is changed.

    Args:
        places: The directories to search.
        min_age_ms: Ignore files that were changed within this time.
        abandoned_age_ms: Results and events of a batch job count as leftovers once nothing of them was changed within
            this time.
        now_ms: The current time in epoch milliseconds; by default this machine's.

    Raises:
        CheckpointStorageError: A directory cannot be read.
    """
    now_ms = clocks.now_ms() if now_ms is None else now_ms
    return _Search(places, now_ms - min_age_ms, now_ms - abandoned_age_ms).run()


def remove_leftovers(leftovers: Iterable[Leftover], options: Mapping[str, str] | None = None) -> Removal:
    """Remove what `find_leftovers` found.

    Args:
        leftovers: The leftovers to remove.
        options: Options of the object store.
    """
    removed: list[Leftover] = []
    failed: list[tuple[Leftover, str]] = []
    for leftover in leftovers:
        try:
            reason = _remove(leftover, options)
        except (PenstockError, OSError) as error:
            reason = str(error)
        if reason is None:
            removed.append(leftover)
        else:
            failed.append((leftover, reason))
    return Removal(tuple(removed), tuple(failed))


def _remove(leftover: Leftover, options: Mapping[str, str] | None) -> str | None:
    """Delete a leftover; return the reason if that failed, else None."""
    if leftover.kind is LeftoverKind.LOCAL_DIRECTORY:
        return remove_local_directory(Path(leftover.path))
    if leftover.kind is LeftoverKind.KEPT_STREAM:
        return remove_kept(open_storage(leftover.root, options), leftover.name)
    if leftover.kind is LeftoverKind.STAGED_FILE:
        from penstock._connectors.files.opening import filesystem_of

        with reaching_stores_by(options):
            filesystem_of(leftover.path).delete(leftover.path)
    else:
        storage = open_storage(leftover.root, options)
        inside = [file.path for file in storage.files(leftover.name)]
        storage.delete(inside or [leftover.name])
    return None


class _Search:
    """One search of all places."""

    def __init__(self, places: LeftoverPlaces, oldest_ms: int, abandoned_ms: int) -> None:
        self._places = places
        self._oldest_ms, self._abandoned_ms = oldest_ms, abandoned_ms
        self._chains: list[JobChain] = []
        self._savepoints: list[tuple[FileStorage, str]] = []
        self._unclear: list[UnclearLeftover] = []

    def run(self) -> Survey:
        found: list[Leftover] = []
        for directory in self._places.checkpoint_directories:
            storage = self._places.open(directory)
            self._chains += read_chains(storage)
            found += self._temporary_files(storage)
            found += kept_leftovers(storage, self._oldest_ms, self._unclear)
        for directory in self._places.savepoint_directories:
            storage = self._places.open(directory)
            self._savepoints += [(storage, name) for name in storage.names("") if not name.startswith(".")]
            found += self._temporary_files(storage)
        found += self._staged_files()  # first: what it finds unclear protects what other jobs have staged
        for chain in self._over:
            found += self._files_of(chain)
        ended = {chain.job_id for chain in self._chains if chain.has_ended}
        for directory in dict.fromkeys((*self._places.checkpoint_directories, *self._places.batch_directories)):
            found += batch_leftovers(
                self._places.open(directory),
                ended=ended,
                given_up=self._places.ended_jobs,
                running=self._places.running_jobs,
                oldest_ms=self._oldest_ms,
                abandoned_ms=self._abandoned_ms,
            )
        for storage, name in self._savepoints:
            found += self._unfinished_savepoint(storage, name)
        if self._places.local:
            found += [
                Leftover(LeftoverKind.LOCAL_DIRECTORY, str(path), size, reason, modified_ms)
                for path, size, reason, modified_ms in dead_local_directories(self._oldest_ms, self._unclear)
            ]
        return Survey(tuple(found), tuple(dict.fromkeys(self._unclear)))

    def _is_over(self, chain: JobChain) -> bool:
        """Tell whether a job has ended, by its newest record or by the user's word.

        With a damaged record, that word is needed: then all goes that such a record cannot name.
        """
        is_named = chain.job_id in self._places.ended_jobs
        if is_named and chain.job_id in self._places.running_jobs:
            path = chain.storage.full_path(chain.job_id)
            self._unclear.append(
                UnclearLeftover(path, "the job runs on this machine (penstock list), and has not ended")
            )
            return False
        if not (chain.has_ended or is_named):
            return False
        self._unclear += [UnclearLeftover(path, UNREADABLE) for path in chain.unreadable]
        return is_named or not chain.unreadable

    def _stored(self, kind: LeftoverKind, storage: FileStorage, file: StoredFile, reason: str) -> Leftover:
        path = storage.full_path(file.path)
        return Leftover(kind, path, file.size, reason, file.modified_ms, storage.url, file.path)

    def _temporary_files(self, storage: FileStorage) -> Iterator[Leftover]:
        for file in storage.unfinished():
            if file.modified_ms <= self._oldest_ms:
                reason = "its writer did not come to give it a name"
                yield self._stored(LeftoverKind.TEMPORARY_FILE, storage, file, reason)

    def _files_of(self, chain: JobChain) -> Iterator[Leftover]:
        storage, ended = chain.storage, f"job {chain.job_id} has ended"
        abandoned = chain.abandoned if self._places.retained else frozenset[int]()
        needed = chain.files_of(entry for entry in chain.living if entry.checkpoint_id not in abandoned)
        dead = {
            **dict.fromkeys(chain.doomed, f"{ended}, and was about to delete it"),
            **dict.fromkeys(abandoned, f"{ended}, and its last run did not continue from it"),
        }
        found = [
            (LeftoverKind.CHECKPOINT, file, reason)
            for number, reason in sorted(dead.items())
            for file in storage.files(checkpoint_path(chain.job_id, number))
        ]
        found += [
            (LeftoverKind.STATE_FILE, file, f"{ended}, and no checkpoint names it")
            for file in storage.files(shared_directory(chain.job_id))
            if file.path not in needed and not chain.may_be_named(file.path)
        ]
        found += [
            (LeftoverKind.PROGRAM, file, f"{ended}, and a resumed one brings its own")
            for file in storage.files(f"{chain.job_id}/blobs")
        ]
        runs = chain.runs_with_frames(abandoned=not self._places.retained)
        found += [
            (LeftoverKind.DATA_FRAME, file, f"{ended}, and no start reads it")
            for file in storage.files(frames_directory(chain.job_id))
            if run_of_file(file.path) not in runs and not chain.unreadable
        ]
        found += [
            (LeftoverKind.STAGED_DATA, file, f"{ended}, and no checkpoint names it")
            for file in storage.files(staged_directory(chain.job_id))
            if not self._is_needed(file.path)
        ]
        for kind, file, reason in found:
            if file.modified_ms <= self._oldest_ms:
                yield self._stored(kind, storage, file, reason)

    def _is_needed(self, staged: str) -> bool:
        """Tell whether a job may still commit what was staged in checkpoint storage."""
        self._unclear += self._staged.unclear
        return bool(self._staged.unclear) or self._staged.is_named(staged)

    @cached_property
    def _over(self) -> list[JobChain]:
        return list(filter(self._is_over, self._chains))

    @cached_property
    def _staged(self) -> StagedLeftovers:
        return StagedLeftovers(
            self._chains,
            self._over,
            self._places.ended_jobs,
            [storage.full_path(name) for storage, name in self._savepoints],
            dict(self._places.options),
        )

    def _unfinished_savepoint(self, storage: FileStorage, name: str) -> Iterator[Leftover]:
        if not name.startswith(_SAVEPOINT) or storage.is_link(name) or storage.find(f"{name}/{METADATA}") is not None:
            return
        files, path = storage.files(name), storage.full_path(name)
        if not files or max(file.modified_ms for file in files) > self._oldest_ms:
            return
        prefix = name.removeprefix(_SAVEPOINT).partition("-")[0]
        jobs = [chain for chain in self._chains if chain.job_id.startswith(prefix)]
        if not jobs:
            reason = "it has no metadata, but its job is in none of the checkpoint directories"
            self._unclear.append(UnclearLeftover(path, reason))
        elif any(chain.hides_newest for chain in jobs):
            reason = (
                "it has no metadata, but a record of its job that cannot be read may say that the job stops into it"
            )
            self._unclear.append(UnclearLeftover(path, reason))
        elif any(not chain.has_ended and chain.job_id not in self._places.ended_jobs for chain in jobs):
            # A savepoint may be complete except for its name while its job waits for commits.
            reason = "it has no metadata, but its job has not ended and may be about to write it"
            self._unclear.append(UnclearLeftover(path, reason))
        elif not any(same_place(path, place) for chain in jobs for place in chain.start()):
            size, modified_ms = sum(file.size for file in files), max(file.modified_ms for file in files)
            reason = "it was given up before its metadata was written"
            kind = LeftoverKind.UNFINISHED_SAVEPOINT
            yield Leftover(kind, path, size, reason, modified_ms, storage.url, name)

    def _staged_files(self) -> Iterator[Leftover]:
        if not self._places.sink_directories:
            return
        with reaching_stores_by(dict(self._places.options)):
            found = self._staged.below(self._places.sink_directories, self._oldest_ms)
        yield from found
        self._unclear += self._staged.unclear
