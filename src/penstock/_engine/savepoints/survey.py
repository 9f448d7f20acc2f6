"""The input and the result of a search for leftovers, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock._engine.savepoints.located import absolute
from penstock._engine.storage.opening import open_storage

if TYPE_CHECKING:
    from penstock._engine.storage.checkpoint_storage import CheckpointStorage


class LeftoverKind(StrEnum):
    """What is left."""

    STAGED_FILE = "staged file"
    CHECKPOINT = "checkpoint"
    STATE_FILE = "state file"
    PROGRAM = "job program"
    TEMPORARY_FILE = "temporary file"
    UNFINISHED_SAVEPOINT = "unfinished savepoint"
    LOCAL_DIRECTORY = "local directory"


@dataclass(frozen=True, slots=True)
class Leftover:
    """One file or directory that is not needed any more."""

    kind: LeftoverKind
    #: As a person would give it.
    path: str
    bytes: int
    #: Why it is dead: a clause without a full stop.
    reason: str
    modified_ms: int
    #: The storage that it is in, and its path there; "" for what is no file of a checkpoint directory.
    root: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class UnclearLeftover:
    """What may be left over, and may be needed."""

    path: str
    #: What is not known, a clause without a full stop.
    reason: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What a look found."""

    leftovers: tuple[Leftover, ...]
    unclear: tuple[UnclearLeftover, ...]

    @property
    def bytes(self) -> int:
        """The size of all that is left over."""
        return sum(leftover.bytes for leftover in self.leftovers)


@dataclass(frozen=True, slots=True)
class Removal:
    """What became of leftovers."""

    removed: tuple[Leftover, ...]
    #: With the reason why not.
    failed: tuple[tuple[Leftover, str], ...]


@dataclass(frozen=True, slots=True)
class LeftoverPlaces:
    """Where to look.

    Attributes:
        checkpoint_directories: Directories of checkpoints; they tell which jobs have ended.
        savepoint_directories: Directories in which savepoints lie. What those savepoints name is needed.
        sink_directories: Folders that file sinks write to.
        ended_jobs: Ids of jobs that somebody knows to have ended, though no entry says so: a killed one that nobody
            will resume, or one without a checkpoint directory.
        retained: Whether checkpoints of ended jobs count as left over that the job's last run did not continue from.
        local: Whether to look at the temporary directory of this machine.
        options: Options of the object store.
    """

    checkpoint_directories: tuple[str, ...] = ()
    savepoint_directories: tuple[str, ...] = ()
    sink_directories: tuple[str, ...] = ()
    ended_jobs: frozenset[str] = frozenset()
    retained: bool = False
    local: bool = True
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def open(self, directory: str) -> CheckpointStorage:
        """Open one of the directories."""
        return open_storage(absolute(directory), dict(self.options))
