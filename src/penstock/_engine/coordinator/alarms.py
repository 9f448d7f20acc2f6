"""The events that the coordinator sets alarms for: the driver hands one in when its time has come.

Each is handled by the table like any other event, and does nothing where the job has moved on meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class PauseOver:
    """The next epoch or stage is due."""


@dataclass(frozen=True, slots=True)
class EpochLookDue:
    """The running epoch is to be looked at, because it may have expired."""


@dataclass(frozen=True, slots=True)
class PartitionsLookDue:
    """The stored results that a batch job continues from are to be looked for again."""


@dataclass(frozen=True, slots=True)
class CommitsLookDue:
    """The running commits are to be looked at, because one may hang."""


@dataclass(frozen=True, slots=True)
class CommitRetryDue:
    """A postponed commit is to be tried again."""

    #: Of its sink.
    uid: str


@dataclass(frozen=True, slots=True)
class EntryRetryDue:
    """A chain entry without a known outcome is to be put again."""


@dataclass(frozen=True, slots=True)
class SavepointRetryDue:
    """The savepoint that the job stops into is to be named again."""

    path: str


@dataclass(frozen=True, slots=True)
class StopTimedOut:
    """A stop with a timeout has taken that long."""

    #: Of its request.
    request_id: int


@dataclass(frozen=True, slots=True)
class RestartDue:
    """The delay of a restart is over."""


Alarm: TypeAlias = (
    PauseOver
    | EpochLookDue
    | PartitionsLookDue
    | CommitsLookDue
    | CommitRetryDue
    | EntryRetryDue
    | SavepointRetryDue
    | StopTimedOut
    | RestartDue
)
