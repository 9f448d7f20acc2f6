"""Savepoint: the contents of a savepoint or checkpoint, and its states as rows."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from penstock._api.time_domain import TimeDomain
from penstock._engine.protocol.state_handle import StateMode
from penstock._engine.savepoints import reading
from penstock._engine.savepoints.inspection import OperatorInfo, SavepointInfo, inspect
from penstock._engine.savepoints.located import locate
from penstock._engine.savepoints.reading import SubtaskStateLocation
from penstock._engine.savepoints.verification import Verification, verify
from penstock._engine.state.declared import bare
from penstock._engine.state.files.trust import ALL_CLASSES, AllowedClasses
from penstock._engine.state.kinds.registry import has_sub_keys
from penstock._engine.state.rows import IN_ADDRESS
from penstock._engine.state.table import MISSING
from penstock.common.notebook import table
from penstock.errors import UnknownStateError
from penstock.savepoint._columns import RowShape
from penstock.savepoint.entries import BroadcastEntry, KeyedEntry, ListItem, MapEntry, SplitEntry, TimerEntry
from penstock.savepoint.rows import StateRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock._api.connectors.serializer import SimpleVersionedSerializer

#: The names of the timers of each clock in a store.
DOMAINS = {TimeDomain.EVENT_TIME: "event-time", TimeDomain.PROCESSING_TIME: "processing-time"}


#: Splits of the sources that come with Penstock.
_SPLITS: Final = frozenset(
    f"penstock._connectors.{name}"
    for name in (
        "collection.CollectionSplit",
        "datagen.IndexSplit",
        "files.source.FileSourceSplit",
        "number_sequence.NumberSequenceSplit",
    )
)


def allowed(classes: Iterable[type[Any] | str] | None) -> AllowedClasses:
    """Return the classes that values may have; see `Savepoint.open`."""
    return ALL_CLASSES if classes is None else AllowedClasses.of(classes)


class Savepoint:
    """A savepoint or checkpoint at rest; made by :meth:`open`.

    Nothing is unpickled before entries of a state are read.

    Source: org.apache.flink.state.api.SavepointReader.

    Example:
        >>> from penstock.savepoint import SavepointWriter
        >>> path = SavepointWriter.new().set_keyed_state("totals", "total", {"ada": 3, "bob": 5}).write("sp")
        >>> savepoint = Savepoint.open(path)
        >>> [(operator.uid, operator.keyed_states[0].name) for operator in savepoint.operators]
        [('totals', 'total')]
        >>> sorted((entry.key, entry.value) for entry in savepoint.keyed_state("totals", "total"))
        [('ada', 3), ('bob', 5)]
    """

    def __init__(self, path: str, options: Mapping[str, str], classes: AllowedClasses) -> None:
        self._options = tuple(sorted(options.items()))
        self._located = locate(path, options, classes)

    @classmethod
    def open(
        cls, path: str, options: Mapping[str, str] | None = None, *, classes: Iterable[type[Any] | str] | None = ()
    ) -> Savepoint:
        """Open a savepoint or a checkpoint.

        A pickled value can run code of its writer when it is read. So by default values may only have plain types,
        rows, and the named classes: reading creates such values and calls nothing else.

        Args:
            path: Its directory or its metadata file: a local path or a URL.
            options: The options of the object store: the configuration's ``s3.…`` keys; the environment supplies
                missing ones. With ``penstock.state.signing-key`` the savepoint must be signed.
            classes: Classes that values may have beside plain types, or their names such as "shop.Order"; None allows
                all classes, as in a job.

        Raises:
            UnknownStateError: There is no savepoint or checkpoint at that path.
            CorruptCheckpointError: Its metadata is damaged.
            SignatureError: It is not signed with the key that the options name.
            UnsupportedFormatError: It is in a format that this version does not read.
        """
        return cls(path, options or {}, allowed(classes))

    @property
    def path(self) -> str:
        """Its directory."""
        return self._located.path

    @cached_property
    def info(self) -> SavepointInfo:
        """Its description, made without unpickling anything."""
        return inspect(self.path, options=dict(self._options))

    @property
    def operators(self) -> tuple[OperatorInfo, ...]:
        """Its operators, in the order of the job."""
        return self.info.operators

    def verify(self) -> Verification:
        """Read all its files, and compare them with their checksums."""
        return verify(self.path, dict(self._options))

    def operator(self, uid: str) -> OperatorInfo:
        """Return one operator.

        Raises:
            UnknownStateError: There is none of that uid.
        """
        reading.operator_of(self._located, uid)
        return next(operator for operator in self.operators if operator.uid == uid)

    # ------------------------------------------------------------------------------------------------------ keyed state

    def keyed_state(self, uid: str, name: str) -> StateRows[KeyedEntry]:
        """Return a keyed state: columns ``key`` and ``value``.

        State of windows has the columns ``window_start`` and ``window_end`` between them. Each entry of a map is a
        `MapEntry`, with a column ``map_key`` before the value. The name is that of the descriptor; a reduce of a keyed
        stream has the name "reduce".

        Raises:
            UnknownStateError: The operator has no such state.
        """
        states = {state.name: state for state in self.operator(uid).keyed_states if state.kind != "timers"}
        if name not in states:
            known = tuple(f"{state.name!r} ({state.kind or 'undeclared'})" for state in states.values())
            raise UnknownStateError(self.path, f"keyed state {name!r} of operator {uid!r}", known)
        parts = tuple(partial(_keyed, place, name) for place in self._places(uid))
        state = states[name]
        windows = bool(state.windows) or state.kind.startswith(IN_ADDRESS)
        is_map = has_sub_keys(bare(state.kind))
        columns = (
            "key",
            *(("window_start", "window_end") if windows else ()),
            *(("map_key",) if is_map else ()),
            "value",
        )
        return StateRows(parts, RowShape(columns, partial(_keyed_cells, windows, is_map), _title(uid, name)))

    def windows(self, uid: str) -> StateRows[KeyedEntry]:
        """Return the contents of a window operator's open windows for each key.

        Raises:
            UnknownStateError: The operator has no open windows.
        """
        return self.keyed_state(uid, "window-contents")

    def timers(self, uid: str, domain: TimeDomain = TimeDomain.EVENT_TIME) -> StateRows[TimerEntry]:
        """Return the pending timers of one clock: columns ``key``, ``timestamp``; none where the operator has none.

        Raises:
            UnknownStateError: There is no such operator.
        """
        reading.operator_of(self._located, uid)
        parts = tuple(partial(_timers, place, domain) for place in self._places(uid))
        return StateRows(parts, RowShape(("key", "timestamp"), _timer_cells, _title(uid, DOMAINS[domain])))

    # --------------------------------------------------------------------------------------------------- operator state

    def list_state(self, uid: str, name: str) -> StateRows[ListItem]:
        """Return the items of a list or union list of all subtasks: columns ``subtask``, ``value``.

        Raises:
            UnknownStateError: The operator has no such state.
        """
        mode = self._mode(uid, name, {StateMode.LIST, StateMode.UNION})
        parts = tuple(partial(_items, place, name, mode) for place in self._places(uid))
        return StateRows(parts, RowShape(("subtask", "value"), _item_cells, _title(uid, name)))

    def broadcast_state(self, uid: str, name: str) -> StateRows[BroadcastEntry]:
        """Return a broadcast state as one subtask has it: columns ``key``, ``value``.

        Raises:
            UnknownStateError: The operator has no such state.
        """
        self._mode(uid, name, {StateMode.BROADCAST})
        subtasks = self._located.snapshot.operators[uid].subtasks
        having = [
            place
            for place, subtask in zip(self._places(uid), subtasks, strict=True)
            if any(part.name == name for handle in subtask.operator_state for part in handle.parts)
        ]
        part = partial(_broadcast, having[0], name)
        return StateRows((part,), RowShape(("key", "value"), _entry_cells, _title(uid, name)))

    def source_splits(
        self, uid: str, serializer: SimpleVersionedSerializer[Any] | None = None
    ) -> StateRows[SplitEntry]:
        """Return the splits that a source's readers have: columns ``subtask``, ``split``, ``has_arrived``.

        Unassigned splits are in the state of the source's enumerator.

        Args:
            uid: The source.
            serializer: The source's serializer of splits; by default splits are pickles of allowed classes.

        Raises:
            UnknownStateError: The operator is no source.
        """
        if reading.operator_of(self._located, uid).enumerator is None:
            sources = tuple(repr(operator.uid) for operator in self.operators if operator.source is not None)
            raise UnknownStateError(self.path, f"source of uid {uid!r}", sources)
        parts = tuple(partial(_splits, place, serializer) for place in self._places(uid))
        return StateRows(parts, RowShape(("subtask", "split", "has_arrived"), _split_cells, _title(uid, "splits")))

    # ---------------------------------------------------------------------------------------------------------- helpers

    def _repr_html_(self) -> str:
        """Return its operators and their states as a table, for notebooks; nothing is unpickled."""
        info = self.info
        columns = ("operator", "uid", "parallelism", "state", "kind", "keys or items", "bytes")
        footer = f"{len(info.operators):,} operators, {info.files:,} files, {info.bytes:,} bytes; {info.path}"
        title = f"{info.kind.capitalize()} {info.checkpoint_id} of job {info.job_name!r}"
        rows = (row for operator in info.operators for row in _state_rows(operator))
        return table(title, columns, rows, footer=footer)

    def _places(self, uid: str) -> list[SubtaskStateLocation]:
        parallelism = self._located.snapshot.operators[uid].parallelism
        classes = self._located.classes
        return [SubtaskStateLocation(self.path, self._options, uid, subtask, classes) for subtask in range(parallelism)]

    def _mode(self, uid: str, name: str, wanted: set[StateMode]) -> StateMode:
        modes = reading.modes(reading.operator_of(self._located, uid))
        if modes.get(name) not in wanted:
            known = tuple(f"{other!r} ({mode.value})" for other, mode in modes.items())
            kinds = " or ".join(sorted(mode.value for mode in wanted))
            raise UnknownStateError(self.path, f"{kinds} state {name!r} of operator {uid!r}", known)
        return modes[name]


def _state_rows(operator: OperatorInfo) -> Iterator[tuple[object, ...]]:
    """Return a row for each state of an operator; the first one names it, and says so where there is none."""
    states: list[tuple[object, ...]] = []
    for state in operator.keyed_states:
        keys = "unknown" if state.keys is None else f"{state.keys:,}"
        states.append((state.name, state.kind or "undeclared", keys, f"{state.bytes:,}"))
    states += [(state.name, state.mode, f"{state.items:,}", "") for state in operator.operator_states]
    if operator.source is not None:
        states.append(("splits", "source", f"{sum(operator.source.reader_splits):,}", ""))
    named = operator.name, operator.uid, operator.parallelism
    for row in states or [("none", "", "", f"{operator.bytes:,}")]:
        yield *named, *row
        named = "", "", ""


def _title(uid: str, name: str) -> str:
    return f"{name!r} of operator {uid!r}"


def _keyed(place: SubtaskStateLocation, name: str) -> Iterator[KeyedEntry]:
    for key, window, sub_key, value in reading.keyed_entries(place, name):
        if sub_key is MISSING:
            yield KeyedEntry(key, value, window)
        else:
            yield MapEntry(key, value, window, sub_key)


def _timers(place: SubtaskStateLocation, domain: TimeDomain) -> Iterator[TimerEntry]:
    return (TimerEntry(key, time, domain, window) for key, time, window in reading.timers(place, DOMAINS[domain]))


def _items(place: SubtaskStateLocation, name: str, mode: StateMode) -> list[ListItem]:
    return [ListItem(place.subtask, value) for value in reading.list_items(place, name, mode)]


def _broadcast(place: SubtaskStateLocation, name: str) -> list[BroadcastEntry]:
    return [BroadcastEntry(key, value) for key, value in reading.broadcast_entries(place, name)]


def _splits(place: SubtaskStateLocation, serializer: SimpleVersionedSerializer[Any] | None) -> list[SplitEntry]:
    pickles = place.classes.with_names(_SPLITS)  # which a source without a serializer of its own has
    return [
        SplitEntry(
            place.subtask,
            reading.load_split(place, pickles, split) if serializer is None else serializer.deserialize(version, split),
            has_arrived,
        )
        for split, version, has_arrived in reading.splits(place)
    ]


def _keyed_cells(windows: bool, is_map: bool, entry: KeyedEntry) -> tuple[Any, ...]:
    window = (*entry.window, None, None)[:2] if windows else ()
    map_key = (entry.map_key if isinstance(entry, MapEntry) else None,) if is_map else ()
    return entry.key, *window, *map_key, entry.value


def _timer_cells(entry: TimerEntry) -> tuple[Any, ...]:
    return entry.key, entry.timestamp


def _item_cells(entry: ListItem) -> tuple[Any, ...]:
    return entry.subtask, entry.value


def _entry_cells(entry: BroadcastEntry) -> tuple[Any, ...]:
    return entry.key, entry.value


def _split_cells(entry: SplitEntry) -> tuple[Any, ...]:
    return entry.subtask, entry.split, entry.has_arrived
