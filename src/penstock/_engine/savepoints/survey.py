"""The input and the result of a search for leftovers, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock._engine.savepoints.located import absolute
from penstock._engine.storage.opening import open_storage

if TYPE_CHECKING:
    from penstock._engine.storage.checkpoint_storage import FileStorage


class LeftoverKind(StrEnum):
    """The kind of a leftover."""

    STAGED_FILE = "staged file"
    STAGED_DATA = "staged data"
    CHECKPOINT = "checkpoint"
    STATE_FILE = "state file"
    PROGRAM = "job program"
    TEMPORARY_FILE = "temporary file"
    UNFINISHED_SAVEPOINT = "unfinished savepoint"
    LOCAL_DIRECTORY = "local directory"
    CACHED_STREAM = "cached stream"
    DATA_FRAME = "DataFrame"
    STAGE_RESULT = "stage result"
    JOB_EVENTS = "job events"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or directory that is no longer needed."""

    kind: LeftoverKind
    #: Its full path or URL, for display.
    path: str
    bytes: int
    #: Why it is not needed: a clause without a full stop.
    reason: str
    modified_ms: int
    #: Its storage, and its path in it; "" outside of checkpoint directories.
    root: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class UnclearLeftover:
    """A file that may be left over or may be needed."""

    path: str
    #: The open question, a clause without a full stop.
    reason: str


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of a search for leftovers."""

    leftovers: tuple[Leftover, ...]
    unclear: tuple[UnclearLeftover, ...]

    @property
    def bytes(self) -> int:
        """The bytes of all leftovers."""
        return sum(leftover.bytes for leftover in self.leftovers)


@dataclass(frozen=True, slots=True)
class Removal:
    """The result of a deletion of leftovers."""

    removed: tuple[Leftover, ...]
    #: The leftovers that were not deleted, each with the reason.
    failed: tuple[tuple[Leftover, str], ...]


@dataclass(frozen=True, slots=True)
class LeftoverPlaces:
    """The directories of a search.

    Attributes:
        checkpoint_directories: Checkpoint directories, which show the jobs that have ended.
        savepoint_directories: Directories of savepoints, whose files are needed.
        sink_directories: Folders that file sinks write to.
        ended_jobs: Ids of jobs that have ended although no chain entry says so, for example a killed job that will not
            be resumed, or a job without a checkpoint directory.
        retained: Whether checkpoints that the last run of an ended job did not continue from count as leftovers.
        batch_directories: Directories with results and events of batch jobs, beside those of checkpoints.
        running_jobs: Ids of jobs that run on this machine.
        local: Whether to look at the temporary directory of this machine.
        options: Options of the object store.
    """

    checkpoint_directories: tuple[str, ...] = ()
    savepoint_directories: tuple[str, ...] = ()
    sink_directories: tuple[str, ...] = ()
    ended_jobs: frozenset[str] = frozenset()
    retained: bool = False
    batch_directories: tuple[str, ...] = ()
    running_jobs: frozenset[str] = frozenset()
    local: bool = True
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def open(self, directory: str) -> FileStorage:
        """Open one of the directories."""
        return open_storage(absolute(directory), dict(self.options))
