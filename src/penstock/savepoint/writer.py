"""SavepointWriter: makes a new savepoint, empty at first or based on another one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock._api.time_domain import TimeDomain
from penstock._engine.protocol.state_handle import StateMode
from penstock._engine.savepoints.draft import Draft, NewKeyedState, OperatorDraft
from penstock._engine.savepoints.located import locate
from penstock._engine.savepoints.writing import write_draft
from penstock._engine.state.declared import bare, declared
from penstock._engine.state.kinds.registry import has_sub_keys
from penstock.common.conversion import conversion
from penstock.common.typeinfo import MapTypeInfo
from penstock.errors import ConfigurationError, UnknownStateError
from penstock.savepoint._sources import (
    Selector,
    StateContent,
    broadcast_entries,
    keyed_entries,
    list_items,
    timer_entries,
)
from penstock.savepoint.savepoint import DOMAINS, Savepoint, allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock._engine.savepoints.draft import Transform
    from penstock._engine.savepoints.inspection import OperatorInfo
    from penstock._engine.state.files.trust import AllowedClasses
    from penstock.common.conversion import Conversion
    from penstock.common.typeinfo import TypeInformation


class SavepointWriter:
    """Makes a savepoint; begin with :meth:`new` or :meth:`from_existing`, end with :meth:`write`.

    The methods only note changes, and can be chained. :meth:`write` reads their arguments. It may be called again, also
    after an error, and writes the same savepoint. An iterator can be read only once, so a second write that needs it is
    refused. The original savepoint is not changed.

    Everything that `Savepoint` reads can be written again unchanged: as Python values, or as a pandas, Arrow or Spark
    data frame with the same columns.

    Source: org.apache.flink.state.api.SavepointWriter.

    Example:
        >>> path = SavepointWriter.new().set_keyed_state("totals", "total", {"ada": 3, "bob": 5}).write("first")
        >>> writer = SavepointWriter.from_existing(path)
        >>> path = writer.transform_keyed_state("totals", "total", lambda key, value: value * 100).write("second")
        >>> sorted((entry.key, entry.value) for entry in Savepoint.open(path).keyed_state("totals", "total"))
        [('ada', 300), ('bob', 500)]
    """

    def __init__(
        self, draft: Draft, existing: Savepoint | None, options: Mapping[str, str], classes: AllowedClasses
    ) -> None:
        self._draft = draft
        self._classes = classes
        self._existing = existing
        self._options = options
        #: By current uid: the uid of the operator in the original savepoint.
        self._origins = {} if existing is None else {operator.uid: operator for operator in existing.operators}

    @classmethod
    def new(
        cls,
        *,
        max_parallelism: int = 128,
        parallelism: int = 1,
        options: Mapping[str, str] | None = None,
        classes: Iterable[type[Any] | str] | None = (),
    ) -> SavepointWriter:
        """Begin with an empty savepoint.

        Args:
            max_parallelism: The number of key groups: subtasks that the job may ever have. A job that sets it has to
                set the same; any other one takes it over.
            parallelism: Parts in which state is written. A job of any parallelism reads them, best one of the same.
            options: Options of the object store, for writing.
            classes: The classes that values in data frames may have, beside plain types; see `Savepoint.open`.

        Raises:
            ConfigurationError: There is to be more parallelism than key groups, or none.
        """
        _check(parallelism, max_parallelism)
        return cls(Draft(None, parallelism, max_parallelism), None, options or {}, allowed(classes))

    @classmethod
    def from_existing(
        cls,
        path: str,
        *,
        max_parallelism: int | None = None,
        parallelism: int = 1,
        options: Mapping[str, str] | None = None,
        classes: Iterable[type[Any] | str] | None = (),
    ) -> SavepointWriter:
        """Begin with the contents of a savepoint or checkpoint.

        Args:
            path: Its directory.
            max_parallelism: The number of key groups of new operators; by default that of the savepoint's operators.
            parallelism: The number of parts in which the state of new operators is written.
            options: Options of the object store, for reading and writing.
            classes: The classes that values in the savepoint and in data frames may have, beside plain types; see
                `Savepoint.open`.

        Raises:
            UnknownStateError: There is none at that path.
            CorruptCheckpointError: Its metadata is damaged.
            ConfigurationError: There is to be more parallelism than key groups, or none.
        """
        existing = Savepoint.open(path, options, classes=classes)
        located = locate(path, options, allowed(classes))
        found = {operator.max_parallelism for operator in located.snapshot.operators.values()}
        most = max_parallelism or max(found, default=128)
        _check(parallelism, most)
        return cls(Draft(located, parallelism, most), existing, options or {}, allowed(classes))

    # ------------------------------------------------------------------------------------------------------ keyed state

    def set_keyed_state(
        self,
        uid: str,
        name: str,
        entries: Any,
        *,
        key: Selector = "key",
        value: Selector = "value",
        kind: str | None = None,
        type_info: TypeInformation | None = None,
    ) -> SavepointWriter:
        """Set the entries of a keyed state, which replace existing ones.

        Args:
            uid: The operator; a new one when there is none of that uid.
            name: The state, by the name in its descriptor.
            entries: A mapping, pairs of key and value, `KeyedEntry` values, or a pandas, Arrow or Spark data frame. The
                last entry of a key (of a window, where there are any) counts. None as a value leaves the key without
                one; a reduce and an accumulator may be None, and there `ABSENT` does that. Of a map: `MapEntry` values,
                pairs of a key and a mapping, or a data frame with a column ``map_key``; its values may be None.
            key: A data frame's column of keys; several columns make a tuple. Or a function of a row, a dict by column.
            value: The same for values.
            kind: The kind of the state. "value" for a ValueState and for a reduce, "list" for a ListState, "map",
                "reducing", "aggregating" (an accumulator); for the
                "window-contents" of a window "window-reduce", "window-aggregate" (an accumulator) or "window-elements"
                (a list), for its "window-fired" the same. When left out, that of the state that is there, else "value".
            type_info: The type of the values, as the job's descriptor has it: :meth:`write` holds them to it, of a map
                its keys as well, and a job that declares another one is refused.
        """
        there = next((state.kind for state in self._keyed_states(uid) if state.name == name), "")
        if kind is None:
            kind = bare(there) or "value"
        content = StateContent(entries, f"state {name!r} of operator {uid!r}", self._classes)
        of_kind = declared(kind, type_info) if type_info is not None else there if bare(there) == kind else kind
        state = NewKeyedState(kind, lambda: keyed_entries(content, key, value, of_kind))
        if type_info is not None:
            state.kind = of_kind
            state.steps += _held(uid, name, type_info, is_map=has_sub_keys(bare(kind)))
        self._draft.operator(uid).keyed[name] = state
        return self

    def transform_keyed_state(
        self, uid: str, name: str, function: Callable[[Any, Any], Any], *, type_info: TypeInformation | None = None
    ) -> SavepointWriter:
        """Change each value of a keyed state; the state keeps its type if all new values have it, else it has none.

        Args:
            uid: The operator.
            name: The state.
            function: Gets key and value, and returns the new value. None removes the key; of a reduce or an accumulator
                it is a value, and `ABSENT` removes the key. Of a map it gets each entry, with the pair of key and map
                key; there `ABSENT` removes the entry.
            type_info: The type of the new values, to which they are converted.

        Raises:
            UnknownStateError: There is no such state.
        """
        draft = self._operator(uid)
        added = draft.keyed.get(name)
        kind = next((state.kind for state in self._keyed_states(uid) if state.name == name), "")
        is_map = has_sub_keys(bare(kind if added is None else added.kind))
        steps = [function, *_held(uid, name, type_info, is_map=is_map)]
        if added is not None:
            added.steps += steps
        else:
            self._check_state(uid, name, draft)
            if type_info is not None:
                draft.types[name] = type_info
            draft.transforms.setdefault(name, []).extend(steps)
        return self

    def set_timers(self, uid: str, timers: Any, domain: TimeDomain = TimeDomain.EVENT_TIME) -> SavepointWriter:
        """Set the timers of an operator for one clock, which replace existing ones.

        Args:
            uid: The operator; a new one when there is none of that uid.
            timers: Pairs of key and time in epoch milliseconds, `TimerEntry` values, or a data frame with the columns
                ``key`` and ``timestamp``.
            domain: The clock.
        """
        content = StateContent(timers, f"the {DOMAINS[domain]} timers of operator {uid!r}", self._classes)
        self._draft.operator(uid).timers[DOMAINS[domain]] = lambda: timer_entries(content, domain)
        return self

    # --------------------------------------------------------------------------------------------------- operator state

    def set_list_state(self, uid: str, name: str, items: Any, *, value: Selector = "value") -> SavepointWriter:
        """Set a list state of an operator, which replaces an existing one.

        Args:
            uid: The operator; a new one when there is none of that uid.
            name: The state, by the name in its descriptor.
            items: Any items, `ListItem` values, or a data frame. Items with a subtask go to that subtask; others are
                dealt round-robin.
            value: A data frame's column of items, or a function of a row.
        """
        return self._set_list(uid, name, items, value, StateMode.LIST)

    def set_union_list_state(self, uid: str, name: str, items: Any, *, value: Selector = "value") -> SavepointWriter:
        """Set a union list state of an operator, of which each subtask sees all items; it replaces an existing one.

        Args:
            uid: The operator; a new one when there is none of that uid.
            name: The state, by the name in its descriptor.
            items: Any items, `ListItem` values, or a data frame.
            value: A data frame's column of items, or a function of a row.
        """
        return self._set_list(uid, name, items, value, StateMode.UNION)

    def _set_list(self, uid: str, name: str, items: Any, value: Selector, mode: StateMode) -> SavepointWriter:
        found = list_items(StateContent(items, f"list {name!r} of operator {uid!r}", self._classes), value)
        self._draft.operator(uid).operator_states[name] = mode, found
        return self

    def set_broadcast_state(
        self, uid: str, name: str, entries: Any, *, key: Selector = "key", value: Selector = "value"
    ) -> SavepointWriter:
        """Set a broadcast state of an operator, which replaces an existing one.

        Args:
            uid: The operator; a new one when there is none of that uid.
            name: The state, by the name in its descriptor.
            entries: A mapping, pairs of key and value, `BroadcastEntry` values, or a data frame. The last entry of a
                key counts.
            key: A data frame's column of keys, several for a tuple, or a function of a row.
            value: The same for values.
        """
        content = StateContent(entries, f"broadcast state {name!r} of operator {uid!r}", self._classes)
        found = broadcast_entries(content, key, value)
        self._draft.operator(uid).operator_states[name] = StateMode.BROADCAST, found
        return self

    # ------------------------------------------------------------------------------------------------- states and uids

    def drop_state(self, uid: str, name: str) -> SavepointWriter:
        """Remove one keyed state or operator state.

        Raises:
            UnknownStateError: There is no such state.
        """
        draft = self._operator(uid)
        self._check_state(uid, name, draft, operator_states=True)
        if name in {state.name for state in self._operator_states(uid)} or name in draft.operator_states:
            draft.operator_states[name] = None
        if name in {state.name for state in self._keyed_states(uid)} or name in draft.keyed:
            draft.keyed[name] = None
        return self

    def drop_operator(self, uid: str) -> SavepointWriter:
        """Remove an operator with all its state: a job that has it starts it afresh.

        Raises:
            UnknownStateError: There is no such operator.
            SavepointChangeError: It is a sink that has yet to publish something.
        """
        self._operator(uid)
        self._draft.drop(uid)
        self._origins.pop(uid, None)
        return self

    def change_uid(self, uid: str, new_uid: str) -> SavepointWriter:
        """Give an operator, with all its state, another uid.

        Raises:
            UnknownStateError: There is no such operator.
            SavepointChangeError: Another one has that uid.
        """
        self._operator(uid)
        self._draft.rename(uid, new_uid)
        if uid in self._origins:
            self._origins[new_uid] = self._origins.pop(uid)
        return self

    def write(self, path: str) -> str:
        """Write the savepoint: complete in itself, a job starts from it by ``execution.state-recovery.path``.

        Args:
            path: Its directory, which must be empty or not there yet.

        Returns:
            The path, absolute.

        Raises:
            SavepointChangeError: The directory is not empty, or an earlier write has used up an iterator.
            CorruptCheckpointError: A file of the savepoint that it begins with is damaged or missing.
            CheckpointStorageError: The directory cannot be written to.
            UnpicklableStateError: A value cannot be pickled.
            KeyEncodingError: A key has no canonical encoding.
        """
        return write_draft(self._draft, path, self._options)

    # ---------------------------------------------------------------------------------------------------------- helpers

    def _operator(self, uid: str) -> OperatorDraft:
        draft = self._draft.operators.get(uid)
        if draft is None:
            raise UnknownStateError(self._path, f"operator of uid {uid!r}", tuple(map(repr, self._draft.operators)))
        return draft

    def _check_state(self, uid: str, name: str, draft: OperatorDraft, *, operator_states: bool = False) -> None:
        known = {state.name for state in self._keyed_states(uid)} | {*draft.keyed}
        if operator_states:
            known |= {state.name for state in self._operator_states(uid)} | {*draft.operator_states}
        gone = {state for state, content in (draft.keyed | draft.operator_states).items() if content is None}
        if name not in known - gone:
            kind = "state" if operator_states else "keyed state"
            named = tuple(map(repr, sorted(known - gone)))
            raise UnknownStateError(self._path, f"{kind} {name!r} of operator {uid!r}", named)

    def _keyed_states(self, uid: str) -> Iterator[Any]:
        origin: OperatorInfo | None = self._origins.get(uid)
        return (state for state in (origin.keyed_states if origin else ()) if state.kind != "timers")

    def _operator_states(self, uid: str) -> Iterator[Any]:
        origin: OperatorInfo | None = self._origins.get(uid)
        return iter(origin.operator_states if origin else ())

    @property
    def _path(self) -> str:
        return "The new savepoint" if self._existing is None else self._existing.path


def _check(parallelism: int, max_parallelism: int) -> None:
    if not 1 <= parallelism <= max_parallelism <= 1 << 15:
        reason = f"parallelism is to be from 1 to max_parallelism, which is {max_parallelism}, and that at most 32768"
        raise ConfigurationError("parallelism", str(parallelism), reason)


def _held(uid: str, name: str, type_info: TypeInformation | None, *, is_map: bool) -> list[Transform]:
    """Return the conversion of a state's values to a type, and before it the check of a map's keys: steps or none."""
    steps: list[Transform] = []
    if is_map and isinstance(type_info, MapTypeInfo):
        keys = conversion(type_info.key_type, f"A key of state {name!r} of {uid!r}")
        type_info = type_info.value_type
        if keys is not None:
            steps.append(partial(_with_key, keys))
    held = conversion(type_info, f"State {name!r} of {uid!r}")
    return steps if held is None else [*steps, lambda _, value: held.value(value)]


def _with_key(keys: Conversion, key: tuple[Any, Any], value: Any) -> Any:
    keys.check_key(key[1])
    return value
