"""The draft of a savepoint: its operators, and the changes to their state.

Only data; `writing` turns it into files.
"""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock._engine.coordinator.checkpoints.snapshots import with_renamed_sender
from penstock._engine.coordinator.restore.places import renamed
from penstock._engine.protocol.metadata import (
    ChainEntry,
    ChainEntryKind,
    JobSnapshot,
    OperatorMetadata,
    OperatorSubtaskState,
    OutstandingCommit,
    VertexMetadata,
    VertexSubtaskState,
)
from penstock._engine.state.declared import bare
from penstock._engine.state.rows import IN_ADDRESS, SLICED
from penstock._engine.state.table import ABSENT
from penstock.common.copies import copy_if_mutable
from penstock.errors import SavepointChangeError, UncopyableRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._engine.protocol.state_handle import StateMode
    from penstock._engine.savepoints.located import LocatedCheckpoint
    from penstock.common.typeinfo import TypeInformation

#: Iterates (key, namespace, sub-key or MISSING, value); each call starts fresh.
Entries: TypeAlias = "Callable[[], Iterable[tuple[Any, tuple[int, ...], Any, Any]]]"
#: Iterates (key, time, namespace); each call starts fresh.
NewTimers: TypeAlias = "Callable[[], Iterable[tuple[Any, int, tuple[int, ...]]]]"
#: Maps key and value to the new value; see `transformed` for the removal of a key.
Transform: TypeAlias = "Callable[[Any, Any], Any]"

#: The name of the state of a rolling reduce, whose kind is that of a value state.
_REDUCE: Final = "reduce"


@dataclass(slots=True)
class NewKeyedState:
    """The new contents of a keyed state, which replace the old ones."""

    kind: str
    entries: Entries
    #: Functions to apply one after the other.
    steps: list[Transform] = field(default_factory=list["Transform"])


def holds_none(name: str, kind: str) -> bool:
    """Return whether a state may hold None as a value: maps, reducing and aggregating state may.

    In other states, setting None clears the value.

    Example:
        >>> holds_none("total", "value[int]"), holds_none("reduce", "value"), holds_none("any", "window-aggregate")
        (False, True, True)
    """
    kind = bare(kind).removeprefix(IN_ADDRESS).removeprefix(SLICED)
    holding = {"window-reduce", "window-aggregate", "map", "aggregating"}
    return kind in holding or (kind == "value" and name == _REDUCE)


def detached(value: Any) -> Any:
    """Return a copy of a value, because the user may change the object, or pass it again for another key.

    A value that cannot be copied is returned itself; the write will refuse it, because it cannot be pickled, and name
    its state.
    """
    try:
        return copy_if_mutable(value)
    except UncopyableRecordError:
        return value


def transformed(steps: Iterable[Transform], name: str, kind: str, key: Any, value: Any) -> Any:
    """Return the value of a key after these steps; ABSENT removes the key.

    Args:
        steps: Functions to apply one after the other, until one of them removes the key.
        name: The state.
        kind: Its kind.
        key: The key.
        value: The given or stored value.
    """
    keeps_none = holds_none(name, kind)
    value = detached(value)  # a step may change it, and the given value may be used again
    try:
        for step in steps:
            if value is ABSENT or (value is None and not keeps_none):
                break
            value = detached(step(key, value))
    except Exception as error:
        error.add_note(f"while state {name!r} of key {key!r} was transformed")
        raise
    return ABSENT if value is None and not keeps_none else value


@dataclass(slots=True)
class OperatorDraft:
    """One operator, and its changes in the order in which they apply."""

    metadata: OperatorMetadata
    #: By name: functions to apply one after the other.
    transforms: dict[str, list[Transform]] = field(default_factory=dict[str, "list[Transform]"])
    #: By name: the types of transformed states from then on.
    types: dict[str, TypeInformation] = field(default_factory=dict[str, "TypeInformation"])
    #: By name: None to drop it.
    keyed: dict[str, NewKeyedState | None] = field(default_factory=dict[str, "NewKeyedState | None"])
    #: By domain.
    timers: dict[str, NewTimers] = field(default_factory=dict[str, "NewTimers"])
    #: By name: None to drop it. A list is one of (subtask that had the item or None, item).
    operator_states: dict[str, tuple[StateMode, Any] | None] = field(
        default_factory=dict[str, "tuple[StateMode, Any] | None"]
    )

    @property
    def keyed_changes(self) -> bool:
        """Whether the files of keyed state have to be written anew."""
        return bool(self.transforms or self.keyed or self.timers)


class Draft:
    """A savepoint in the making.

    Args:
        located: The savepoint that it begins with; None for an empty one.
        parallelism: Parts in which the state of a new operator is written.
        max_parallelism: The number of key groups of a new operator.
    """

    def __init__(self, located: LocatedCheckpoint | None, parallelism: int, max_parallelism: int) -> None:
        self.located = located
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        snapshot = JobSnapshot((), {}) if located is None else located.snapshot
        self._vertices = list(snapshot.vertices)
        self.operators: dict[str, OperatorDraft] = {
            uid: OperatorDraft(operator) for uid, operator in snapshot.operators.items()
        }
        self._outstanding = list(snapshot.outstanding)
        self._committed = list(snapshot.committed)
        self._places = snapshot.places
        self._given_up = snapshot.given_up
        #: By uid of an operator that had another one: the uid that its job knows it by.
        self._renamed: dict[str, str] = {} if located is None else dict(located.entry.renamed)
        self.job_id: str = uuid.uuid4().hex if located is None else located.entry.job_id
        self.checkpoint_id: int = 1 if located is None else located.entry.checkpoint_id

    def operator(self, uid: str) -> OperatorDraft:
        """Return an operator, a new one when there is none of that uid."""
        draft = self.operators.get(uid)
        if draft is None:
            subtasks = (OperatorSubtaskState(),) * self._parallelism
            metadata = OperatorMetadata(uid, len(self._vertices), self._parallelism, self._max_parallelism, subtasks)
            self._vertices.append(VertexMetadata(uid, (uid,), (VertexSubtaskState(),) * self._parallelism))
            draft = self.operators[uid] = OperatorDraft(metadata)
        return draft

    def drop(self, uid: str) -> None:
        """Remove an operator with all its state.

        Raises:
            SavepointChangeError: It is a sink that has yet to publish something.
        """
        for commits, what, way_out in (
            (self._outstanding, "that are not published yet", "stop it again"),
            (
                self._committed,
                "that it has not passed on yet to the operators behind their committer",
                "stop it again, or drain it",
            ),
        ):
            left = sum(len(commit.committables) for commit in commits if commit.uid == uid)
            if left:
                reason = f"operator {uid!r} has {left} committables {what}. Start the job from it and {way_out}, then"
                raise SavepointChangeError(self._path, f"{reason} drop the operator")
        del self.operators[uid]
        self._renamed.pop(uid, None)
        self._replace_in_vertices(uid, ())

    def rename(self, uid: str, new_uid: str) -> None:
        """Give an operator another uid.

        Raises:
            SavepointChangeError: Another operator has that uid.
        """
        if new_uid in self.operators:
            raise SavepointChangeError(self._path, f"there is an operator of uid {new_uid!r} already")
        self.operators[new_uid] = self.operators.pop(uid)
        self._renamed[new_uid] = self._renamed.pop(uid, uid)
        self._replace_in_vertices(uid, (new_uid,))
        self._places = renamed(self._places, uid, new_uid)
        self._vertices = [
            replace(vertex, inputs=tuple(with_renamed_sender(text, uid, new_uid) for text in vertex.inputs))
            for vertex in self._vertices
        ]
        self._outstanding = _renamed(self._outstanding, uid, new_uid)
        self._committed = _renamed(self._committed, uid, new_uid)

    def _replace_in_vertices(self, uid: str, by: tuple[str, ...]) -> None:
        changed: list[VertexMetadata] = []
        for vertex in self._vertices:
            operators = tuple(name for member in vertex.operators for name in (by if member == uid else (member,)))
            if operators:
                changed.append(replace(vertex, operators=operators))
        self._vertices = changed

    @property
    def _path(self) -> str:
        return "to be written" if self.located is None else self.located.path

    def entry(self, operators: dict[str, OperatorMetadata], now_ms: int, penstock_version: str) -> ChainEntry:
        """Return the metadata, given the operators as they were written."""
        placed = {
            uid: replace(operators[uid], vertex=position)
            for position, vertex in enumerate(self._vertices)
            for uid in vertex.operators
        }
        return ChainEntry(
            kind=ChainEntryKind.SAVEPOINT,
            job_id=self.job_id,
            job_name="" if self.located is None else self.located.entry.job_name,
            checkpoint_id=self.checkpoint_id,
            run_id=uuid.uuid4().hex,
            nonce=secrets.token_hex(8),
            created_ms=now_ms,
            penstock_version=penstock_version,
            snapshot=JobSnapshot(
                tuple(self._vertices),
                placed,
                tuple(self._outstanding),
                self._places,
                self._given_up,
                tuple(self._committed),
            ),
            renamed=self._renamed,
        )


def _renamed(commits: list[OutstandingCommit], uid: str, new_uid: str) -> list[OutstandingCommit]:
    return [replace(commit, uid=new_uid) if commit.uid == uid else commit for commit in commits]
