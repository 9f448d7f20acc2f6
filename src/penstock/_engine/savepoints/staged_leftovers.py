"""Staged files that no checkpoint or savepoint will ever publish: those of sinks, and those of the file sink.

A staged file's name has the job and the attempt that wrote it. Whether a file is needed is found without unpickling:
the bytes of a sink in a checkpoint contain the names of all files that the sink continues with or still has to publish.

A job may have been started from a checkpoint of any other job, and needs the files of that checkpoint until it has
copies. So while the needs of one job are unknown, no staged file of any job counts as dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.savepoints.located import locate
from penstock._engine.savepoints.survey import Leftover, LeftoverKind, UnclearLeftover
from penstock.errors import PenstockError, UnknownStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock._engine.protocol.metadata import ChainEntry
    from penstock._engine.savepoints.chains import JobChain

#: The reason for a job with a damaged entry.
UNREADABLE: Final = (
    "it cannot be read, so what it may name stays. Restore it from a copy; or delete it, if nothing is to start from "
    "it, and clean again. --ended-job with the job's id removes what it cannot name"
)

_GONE: Final = (
    "job {job_id} continues from it, and nothing is there, so that job may need any staged file. Bring it back, or "
    "name the job with --ended-job if it is not to be resumed under that id"
)


class StagedLeftovers:
    """Finds staged files of ended jobs.

    Args:
        chains: The chains of all jobs in the checkpoint directories; a job may continue with staged files of another.
        over: The chains of ended jobs.
        ended_jobs: Ids of further jobs that, by the user's word, have ended.
        savepoints: The paths of all possible savepoints.
        options: Options of the object store.
    """

    def __init__(
        self,
        chains: Iterable[JobChain],
        over: Iterable[JobChain],
        ended_jobs: frozenset[str],
        savepoints: Iterable[str],
        options: Mapping[str, str],
    ) -> None:
        self._options = options
        #: The jobs whose needs are unknown: as long as there are any, no file counts as left over.
        self.unclear: list[UnclearLeftover] = []
        #: The bytes in which sinks name the files that they need.
        self._needed: list[bytes] = []
        for path in savepoints:
            self._add_savepoint(path)
        self._ended_jobs = ended_jobs
        chains = tuple(chains)
        ended = {id(chain) for chain in over}
        # Ended chains whose needs are all known; other chains may need their staged files.
        dead = [chain for chain in chains if self._add_chain(chain) and id(chain) in ended]
        living = [chain for chain in chains if chain not in dead]
        self._known = frozenset[str]().union(*(chain.runs for chain in chains))
        #: The runs whose staged files are needed only if something names them.
        self._over = frozenset[str]().union(*(chain.runs for chain in dead))
        self._over -= frozenset[str]().union(*(chain.runs for chain in living))

    def below(self, directories: Iterable[str], oldest_ms: int) -> list[Leftover]:
        """Return the leftovers below sinks' folders that were written before a time."""
        # Only the connector knows its names; this is the only place of the engine that asks for them.
        from penstock._connectors.files.opening import filesystem_of
        from penstock._connectors.files.staging import list_segments

        found: list[Leftover] = []
        asked: set[tuple[str, str | None]] = set()
        for directory in directories:
            statuses = {status.path: status for status in filesystem_of(directory).hidden_files(directory)}
            for segment in list_segments(directory):
                job_id, run_id, status = segment.job_id, segment.run_id, statuses.get(segment.path)
                is_unknown = run_id not in self._known and job_id not in self._ended_jobs
                if is_unknown and (job_id, run_id) not in asked:
                    asked.add((job_id, run_id))
                    self.unclear.append(UnclearLeftover(segment.path, _unknown(job_id, run_id)))
                is_over = run_id in self._over or (run_id not in self._known and job_id in self._ended_jobs)
                if not is_over or status is None or status.modified_ms > oldest_ms or self.is_named(segment.path):
                    continue
                reason = f"job {job_id} has ended, and no checkpoint names what attempt {segment.token} staged"
                found.append(Leftover(LeftoverKind.STAGED_FILE, segment.path, status.size, reason, status.modified_ms))
        return [] if self.unclear else found

    def is_named(self, staged: str) -> bool:
        """Tell whether a checkpoint or savepoint names a staged file."""
        name = staged.rpartition("/")[2].encode()
        return any(name in blob for blob in self._needed)

    def _add_chain(self, chain: JobChain) -> bool:
        """Note the files that a job needs, and return whether all of them are known."""
        self.unclear += [UnclearLeftover(path, UNREADABLE) for path in chain.unreadable]
        for entry in chain.living:
            self._needed += _opaque(entry)
        for place in chain.start():
            try:
                self._needed += _opaque(locate(place, self._options).entry)
            except UnknownStateError:  # moved or deleted
                if chain.job_id not in self._ended_jobs:
                    self.unclear.append(UnclearLeftover(place, _GONE.format(job_id=chain.job_id)))
                    return False
            except PenstockError as error:
                self.unclear.append(
                    UnclearLeftover(place, f"job {chain.job_id} continues from it, and it cannot be read: {error}")
                )
                return False
        return not chain.unreadable

    def _add_savepoint(self, path: str) -> None:
        try:
            entry = locate(path, self._options).entry
        except UnknownStateError:  # something else
            return
        except PenstockError as error:
            self.unclear.append(
                UnclearLeftover(path, f"it cannot be read, so no staged file is known to be dead ({error})")
            )
            return
        self._needed += _opaque(entry)


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
