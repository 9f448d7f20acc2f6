"""What a search for leftovers knows of jobs: which are over, and which staged files one of them may still need.

A staged file's name has the job and the attempt that wrote it. Whether a file is needed is found without unpickling:
the bytes of a sink in a checkpoint contain the names of all files that the sink continues with or still has to publish.

A job may have been started from a checkpoint of any other job, and needs the files of that checkpoint until it has
copies. So while the needs of one job are unknown, no staged file of any job counts as left over.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from penstock._engine.savepoints.chains import read_chains
from penstock._engine.savepoints.located import locate
from penstock._engine.savepoints.survey import UnclearLeftover
from penstock.errors import PenstockError, UnknownStateError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.protocol.metadata import ChainEntry
    from penstock._engine.savepoints.chains import JobChain
    from penstock._engine.savepoints.survey import LeftoverPlaces

_UNREADABLE: Final = (
    "it cannot be read, so what it may name stays. Restore it from a copy; or delete it, if nothing is to start from "
    "it, and clean again. --ended-job with the job's id removes what it cannot name"
)
_GONE: Final = (
    "job {job_id} continues from it, and nothing is there, so that job may need any staged file. Bring it back, or "
    "name the job with --ended-job if it is not to be resumed under that id"
)


class Search:
    """One search of all places.

    Args:
        places: The directories, and what the user says of jobs.
        oldest_ms: What was changed after this time is no leftover.
        abandoned_ms: A batch job of which nothing was changed after this time will not be resumed.
    """

    def __init__(self, places: LeftoverPlaces, oldest_ms: int, abandoned_ms: int) -> None:
        self.places = places
        self.oldest_ms, self.abandoned_ms = oldest_ms, abandoned_ms
        self.unclear: list[UnclearLeftover] = []
        self.checkpoint_storages = [places.open(directory) for directory in places.checkpoint_directories]
        self.savepoint_storages = [places.open(directory) for directory in places.savepoint_directories]
        self.chains = [chain for storage in self.checkpoint_storages for chain in read_chains(storage)]
        #: What may be a savepoint.
        self.savepoints = [
            (storage, name)
            for storage in self.savepoint_storages
            for name in storage.names("")
            if not name.startswith(".")
        ]

    def note_unclear(self, path: str, reason: str) -> None:
        """Note a path that may be left over or needed."""
        self.unclear.append(UnclearLeftover(path, reason))

    @cached_property
    def over(self) -> list[JobChain]:
        """The jobs that have ended."""
        return list(filter(self._is_over, self.chains))

    @cached_property
    def staged(self) -> StagedNeeds:
        """The staged files that jobs may still need."""
        return StagedNeeds(self)

    def _is_over(self, chain: JobChain) -> bool:
        """Tell whether a job has ended, by its newest record or by the user's word.

        With a damaged record, that word is needed: then all goes that such a record cannot name.
        """
        is_named = chain.job_id in self.places.ended_jobs
        if is_named and chain.job_id in self.places.running_jobs:
            path = chain.storage.full_path(chain.job_id)
            self.note_unclear(path, "the job runs on this machine (penstock list), and has not ended")
            return False
        if not (chain.has_ended or is_named):
            return False
        self.unclear += _unreadable(chain)
        return is_named or not chain.unreadable


class StagedNeeds:
    """What jobs and savepoints need of staged files.

    Args:
        search: Its jobs may continue with staged files of another one.
    """

    def __init__(self, search: Search) -> None:
        self._options, self._ended_jobs = dict(search.places.options), search.places.ended_jobs
        #: The jobs whose needs are unknown: as long as there are any, no file counts as left over.
        self.unclear: list[UnclearLeftover] = []
        #: The bytes in which sinks name the files that they need.
        self._needed: list[bytes] = []
        for storage, name in search.savepoints:
            self._add_savepoint(storage.full_path(name))
        for chain in search.chains:
            self._add_chain(chain)
        over = {id(chain) for chain in search.over}
        living = [chain for chain in search.chains if id(chain) not in over]
        self._known = _runs(search.chains)
        #: The runs whose staged files are needed only if something names them.
        self._over = _runs(search.over) - _runs(living)

    def is_over(self, path: str, job_id: str, run_id: str) -> bool:
        """Tell whether the run that staged a file is over; an unknown run is noted as unclear."""
        if run_id in self._known:
            return run_id in self._over
        if job_id not in self._ended_jobs:
            reason = _unknown(job_id, run_id)
            if all(one.reason != reason for one in self.unclear):
                self.unclear.append(UnclearLeftover(path, reason))
        return job_id in self._ended_jobs

    def is_named(self, staged: str) -> bool:
        """Tell whether a checkpoint or savepoint names a staged file."""
        name = staged.rpartition("/")[2].encode()
        return any(name in blob for blob in self._needed)

    def _add_chain(self, chain: JobChain) -> None:
        """Note the files that a job needs, or that they are not known."""
        self.unclear += _unreadable(chain)
        newest = chain.newest
        for entry in chain.living:
            # What a takeover or an end knows of the commits of its parent counts only while it is the newest entry:
            # a parent that somebody else can start from is looked at itself.
            if entry.snapshot is not None or entry is newest:
                self._needed += _opaque(entry)
        for place in chain.start():
            try:
                self._needed += _opaque(locate(place, self._options).entry)
            except UnknownStateError:  # moved or deleted
                if chain.job_id not in self._ended_jobs:
                    self.unclear.append(UnclearLeftover(place, _GONE.format(job_id=chain.job_id)))
            except PenstockError as error:
                reason = f"job {chain.job_id} continues from it, and it cannot be read: {error}"
                self.unclear.append(UnclearLeftover(place, reason))

    def _add_savepoint(self, path: str) -> None:
        try:
            entry = locate(path, self._options).entry
        except UnknownStateError:  # something else
            return
        except PenstockError as error:
            self.unclear.append(
                UnclearLeftover(path, f"it cannot be read, so no staged file is known to be left over ({error})")
            )
            return
        self._needed += _opaque(entry)


def _runs(chains: Iterable[JobChain]) -> frozenset[str]:
    return frozenset[str]().union(*(chain.runs for chain in chains))


def _unreadable(chain: JobChain) -> list[UnclearLeftover]:
    return [UnclearLeftover(path, _UNREADABLE) for path in chain.unreadable]


def _unknown(job_id: str, run_id: str) -> str:
    """Return the reason why a staged file is unclear."""
    return (
        f"run {run_id} of job {job_id} is in none of the checkpoint directories, so that job may need any staged file; "
        "give its directory with --checkpoint-dir, or --ended-job where it is not to be resumed"
    )


def _opaque(entry: ChainEntry) -> list[bytes]:
    """Return the opaque bytes of operators and sinks in a checkpoint, or of sinks in another entry."""
    snapshot = entry.snapshot
    operators = () if snapshot is None else tuple(snapshot.operators.values())
    states = [part.state for operator in operators for part in operator.subtasks]
    commits = entry.commits if snapshot is None else snapshot.commits
    outstanding = () if commits is None else commits.outstanding
    pending = [committable.payload for commit in outstanding for committable in commit.committables]
    return [state for state in states if state is not None] + pending
