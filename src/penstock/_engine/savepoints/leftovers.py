"""The owners of files, each with what it has left behind, and how that is deleted.

Files that a running or resumable job may need are never listed. Files whose use is unknown are reported as unclear. In
checkpoint directories only ended jobs are searched, because a running job deletes its own leftovers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.caches.place import CACHES, of_this_host
from penstock._engine.protocol import clocks
from penstock._engine.protocol.paths import (
    METADATA,
    checkpoint_path,
    events_directory,
    finished_directory,
    frames_directory,
    is_job_directory,
    results_directory,
    run_of_file,
    shared_directory,
    staged_directory,
)
from penstock._engine.savepoints.chains import same_place
from penstock._engine.savepoints.local_directories import leftover_directories, remove_local_directory
from penstock._engine.savepoints.search import Search
from penstock._engine.savepoints.survey import Leftover, LeftoverKind, LeftoverPlaces, Removal, Survey
from penstock._engine.storage.local import LocalStorage
from penstock._engine.storage.opening import open_storage
from penstock._engine.storage.scratch import is_dead, remove_dead
from penstock._files.job_options import reaching_stores_by
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock._engine.savepoints.chains import JobChain
    from penstock._engine.storage.checkpoint_storage import FileStorage, StoredFile

#: Files that were changed within this time are ignored.
MIN_AGE_MS: Final = 3_600_000
#: A batch job that was lost with its driver this long ago is not resumed any more.
ABANDONED_AGE_MS: Final = 7 * 86_400_000
_DAY_MS: Final = 86_400_000
_SAVEPOINT: Final = "savepoint-"


def find_leftovers(
    places: LeftoverPlaces,
    *,
    min_age_ms: int = MIN_AGE_MS,
    abandoned_age_ms: int = ABANDONED_AGE_MS,
    now_ms: int | None = None,
) -> Survey:
    """Ask all owners for their leftovers; nothing is changed.

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
    search = Search(places, now_ms - min_age_ms, now_ms - abandoned_age_ms)
    found = [one for owner in OWNERS for one in owner.find(search) if one.modified_ms <= search.oldest_ms]
    return Survey(tuple(found), tuple(dict.fromkeys(search.unclear)))


def remove_leftovers(leftovers: Iterable[Leftover], options: Mapping[str, str] | None = None) -> Removal:
    """Remove what `find_leftovers` found.

    Args:
        leftovers: The leftovers to remove.
        options: Options of the object store.
    """
    removed: list[Leftover] = []
    failed: list[tuple[Leftover, str]] = []
    remove_by = {kind: owner.remove for owner in OWNERS for kind in owner.kinds}
    for leftover in leftovers:
        try:
            reason = remove_by[leftover.kind](leftover, options or {})
        except (PenstockError, OSError) as error:
            reason = str(error)
        if reason is None:
            removed.append(leftover)
        else:
            failed.append((leftover, reason))
    return Removal(tuple(removed), tuple(failed))


def _stored(kind: LeftoverKind, storage: FileStorage, name: str, files: Sequence[StoredFile], reason: str) -> Leftover:
    """Return a file, or a directory with its files, of a storage."""
    size, modified_ms = sum(file.size for file in files), _newest_ms(files)
    return Leftover(kind, storage.full_path(name), size, reason, modified_ms, storage.url, name)


def _newest_ms(files: Sequence[StoredFile]) -> int:
    return max((file.modified_ms for file in files), default=0)


def _remove_stored(leftover: Leftover, options: Mapping[str, str]) -> None:
    storage = open_storage(leftover.root, options)
    inside = [file.path for file in storage.files(leftover.name)]
    storage.delete(inside or [leftover.name])


def _temporary_files(search: Search) -> Iterator[Leftover]:
    for storage in (*search.checkpoint_storages, *search.savepoint_storages):
        for file in storage.unfinished():
            reason = "its writer did not come to give it a name"
            yield _stored(LeftoverKind.TEMPORARY_FILE, storage, file.path, [file], reason)


def _cached_streams(search: Search) -> Iterator[Leftover]:
    """Iterate what ended programs have kept of their streams below a checkpoint directory.

    On a disk the lock of the program tells, on its own host; in a bucket only the age: what was kept there a day ago
    and has not changed since is left over. A program that lives all the same computes its cached streams anew.
    """
    for storage in search.checkpoint_storages:
        is_local = isinstance(storage, LocalStorage)
        of_here = {path.name for path in of_this_host(Path(storage.full_path(CACHES)))} if is_local else set[str]()
        for program in storage.names(CACHES):
            name = f"{CACHES}/{program}"
            path = storage.full_path(name)
            files = [] if storage.is_link(name) else storage.files(name)
            if not files or _newest_ms(files) > search.oldest_ms - (0 if is_local else _DAY_MS):
                continue
            if is_local and program not in of_here:
                search.note_unclear(path, "a program of another host keeps it; look there")
            elif not is_local or is_dead(Path(path)):
                reason = "the program that kept it has ended" if is_local else "it has not changed for a day"
                yield _stored(LeftoverKind.CACHED_STREAM, storage, name, files, reason)


def _remove_cached_stream(leftover: Leftover, options: Mapping[str, str]) -> str | None:
    storage = open_storage(leftover.root, options)
    if not isinstance(storage, LocalStorage):
        return _remove_stored(leftover, options)
    directory = Path(storage.full_path(leftover.name))
    remove_dead(directory)
    return "a program uses it now" if directory.exists() else None


def _staged_files(search: Search) -> Iterator[Leftover]:
    """Iterate what file sinks have staged in their folders, and no checkpoint will publish."""
    if not search.places.sink_directories:
        return
    # Only the connector knows its names; this is the only place of the engine that asks for them.
    from penstock._connectors.files.opening import filesystem_of
    from penstock._connectors.files.staging import list_segments

    found: list[Leftover] = []
    with reaching_stores_by(dict(search.places.options)):
        for directory in search.places.sink_directories:
            statuses = {status.path: status for status in filesystem_of(directory).hidden_files(directory)}
            for segment in list_segments(directory):
                is_over = search.staged.is_over(segment.path, segment.job_id, segment.run_id)
                status = statuses.get(segment.path)
                if is_over and status is not None and not search.staged.is_named(segment.path):
                    token = segment.token
                    reason = f"job {segment.job_id} has ended, and no checkpoint names what attempt {token} staged"
                    kind = LeftoverKind.STAGED_FILE
                    found.append(Leftover(kind, segment.path, status.size, reason, status.modified_ms))
    search.unclear += search.staged.unclear
    yield from [] if search.staged.unclear else found


def _remove_staged_file(leftover: Leftover, options: Mapping[str, str]) -> None:
    from penstock._connectors.files.opening import filesystem_of

    with reaching_stores_by(options):
        filesystem_of(leftover.path).delete(leftover.path)


def _files_of_ended_jobs(search: Search) -> Iterator[Leftover]:
    for chain in search.over:
        for kind, reason, files in _unnamed(search, chain):
            for file in files:
                clause = f"job {chain.job_id} has ended, and {reason}"
                yield _stored(kind, chain.storage, file.path, [file], clause)


def _unnamed(search: Search, chain: JobChain) -> Iterator[tuple[LeftoverKind, str, Iterable[StoredFile]]]:
    """Iterate the files of an ended job that nothing names which stays, each kind with its reason."""
    files, job_id = chain.storage.files, chain.job_id
    abandoned = chain.abandoned if search.places.retained else frozenset[int]()
    named = chain.files_of(entry for entry in chain.living if entry.checkpoint_id not in abandoned)
    runs = chain.runs_with_frames(abandoned=not search.places.retained)
    for reason, numbers in (
        ("was about to delete it", chain.to_be_deleted - abandoned),
        ("its last run did not continue from it", abandoned),
    ):
        for number in sorted(numbers):
            yield LeftoverKind.CHECKPOINT, reason, files(checkpoint_path(job_id, number))
    states = (file for file in files(shared_directory(job_id)) if file.path not in named)
    unnamed = (file for file in states if not chain.may_be_named(file.path))
    yield LeftoverKind.STATE_FILE, "no checkpoint names it", unnamed
    yield LeftoverKind.PROGRAM, "a resumed one brings its own", files(f"{job_id}/blobs")
    if not chain.unreadable:
        frames = (file for file in files(frames_directory(job_id)) if run_of_file(file.path) not in runs)
        yield LeftoverKind.DATA_FRAME, "no start reads it", frames
    if staged := files(staged_directory(job_id)):
        search.unclear += search.staged.unclear
        if not search.staged.unclear:
            unnamed = (file for file in staged if not search.staged.is_named(file.path))
            yield LeftoverKind.STAGED_DATA, "no checkpoint names it", unnamed


def _files_of_batch_jobs(search: Search) -> Iterator[Leftover]:
    """Iterate the results and events of batch jobs that no start needs any more.

    A killed job can be resumed at any time, and nothing says that it will not be: only its age does. Its events go with
    its results, because a start that finds neither starts the job fresh. Those of a job that has ended may tell a start
    that it has: they stay for the longer time.
    """
    ended = {chain.job_id for chain in search.chains if chain.has_ended}
    directories = dict.fromkeys((*search.places.checkpoint_directories, *search.places.batch_directories))
    for storage in map(search.places.open, directories):
        for job_id in storage.names(""):
            if not is_job_directory(job_id) or job_id in search.places.running_jobs or storage.is_link(job_id):
                continue
            results = storage.files(results_directory(job_id))
            events = [*storage.files(finished_directory(job_id)), *storage.files(events_directory(job_id))]
            reason = f"job {job_id} has ended"
            if _newest_ms([*results, *events]) <= min(search.abandoned_ms, search.oldest_ms):
                reason = f"no start has continued job {job_id} for so long"
            elif job_id not in search.places.ended_jobs:
                results, events = results if job_id in ended else [], []
            for kind, files in ((LeftoverKind.STAGE_RESULT, results), (LeftoverKind.JOB_EVENTS, events)):
                for file in files:
                    yield _stored(kind, storage, file.path, [file], reason)


def _unfinished_savepoints(search: Search) -> Iterator[Leftover]:
    for storage, name in search.savepoints:
        if not name.startswith(_SAVEPOINT) or storage.is_link(name) or storage.find(f"{name}/{METADATA}") is not None:
            continue
        files, path = storage.files(name), storage.full_path(name)
        if not files or _newest_ms(files) > search.oldest_ms:
            continue
        prefix = name.removeprefix(_SAVEPOINT).partition("-")[0]
        jobs = [chain for chain in search.chains if chain.job_id.startswith(prefix)]
        if not jobs:
            search.note_unclear(path, "it has no metadata, but its job is in none of the checkpoint directories")
        elif any(chain.hides_newest for chain in jobs):
            reason = "a record of its job that cannot be read may say that the job stops into it"
            search.note_unclear(path, f"it has no metadata, but {reason}")
        elif any(not chain.has_ended and chain.job_id not in search.places.ended_jobs for chain in jobs):
            # A savepoint may be complete except for its name while its job waits for commits.
            search.note_unclear(path, "it has no metadata, but its job has not ended and may be about to write it")
        elif not any(same_place(path, place) for chain in jobs for place in chain.start()):
            reason = "it was given up before its metadata was written"
            yield _stored(LeftoverKind.UNFINISHED_SAVEPOINT, storage, name, files, reason)


@dataclass(frozen=True, slots=True)
class FileOwner:
    """Who makes files and may leave them behind."""

    #: What it leaves.
    kinds: frozenset[LeftoverKind]
    #: Iterates what nobody needs, with the reason; what may be needed is noted as unclear. Whoever asks leaves out what
    #: is too young.
    find: Callable[[Search], Iterator[Leftover]]
    #: Deletes a leftover with options of the object store; returns why it could not be deleted, else None.
    remove: Callable[[Leftover, Mapping[str, str]], str | None] = _remove_stored


_OF_JOBS: Final = (
    *(LeftoverKind.CHECKPOINT, LeftoverKind.STATE_FILE, LeftoverKind.PROGRAM),
    *(LeftoverKind.DATA_FRAME, LeftoverKind.STAGED_DATA),
)
OWNERS: Final = (
    FileOwner(frozenset({LeftoverKind.TEMPORARY_FILE}), _temporary_files),
    FileOwner(frozenset({LeftoverKind.CACHED_STREAM}), _cached_streams, _remove_cached_stream),
    # Before those of jobs: what it finds unclear protects what they have staged.
    FileOwner(frozenset({LeftoverKind.STAGED_FILE}), _staged_files, _remove_staged_file),
    FileOwner(frozenset(_OF_JOBS), _files_of_ended_jobs),
    FileOwner(frozenset({LeftoverKind.STAGE_RESULT, LeftoverKind.JOB_EVENTS}), _files_of_batch_jobs),
    FileOwner(frozenset({LeftoverKind.UNFINISHED_SAVEPOINT}), _unfinished_savepoints),
    FileOwner(frozenset({LeftoverKind.LOCAL_DIRECTORY}), leftover_directories, remove_local_directory),
)
