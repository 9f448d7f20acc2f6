"""Map state over a pane: each entry is a row, read, written and iterated one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from penstock._api.state.kinds import MapState, MapStateDescriptor
from penstock._engine.protocol.key_values import gives_back, key_value
from penstock._engine.protocol.keys import NormalKey, normal_key
from penstock._engine.state.key_rows import clear_key, rows_of_key
from penstock._engine.state.kinds.kind import StateKind, StateScope
from penstock._engine.state.kinds.typed import typed_map
from penstock._engine.state.row_lives import RowLives
from penstock._engine.state.rows import owner_at
from penstock._engine.state.table import ABSENT, MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.state.rows import Composite, Owner, Row


class MapKind(StateKind[MapStateDescriptor]):
    """One map per key."""

    name = "map"
    can_expire = True
    descriptor = MapStateDescriptor
    has_sub_keys = True

    def state(self, descriptor: MapStateDescriptor, scope: StateScope) -> MapState[Any, Any]:
        stored = ExpiringMapState(scope) if scope.expires else StoredMapState(scope)
        return typed_map(stored, descriptor, scope.operator)


class StoredMapState(MapState[Any, Any]):
    """One map per key of the stream. Map keys are compared as stream keys are, see docs/state.md.

    Args:
        scope: The table, the current key and the namespace.
    """

    __slots__ = ("_dirty", "_discard", "_hot", "_key", "_load", "_originals", "_pane", "_subs")

    def __init__(self, scope: StateScope) -> None:
        pane = scope.table.pane(scope.namespace)
        self._key = scope.key
        # These stay the same objects for the life of the pane.
        self._hot = pane.hot
        self._dirty = pane.dirty
        self._load = pane.load
        self._discard = pane.discard
        self._originals = pane.originals
        self._pane = pane
        self._subs = pane.sub_rows()

    # --------------------------------------------------------------------------------------------------------- entries

    # There may be several of these for each record: where key and map key are str or int, they need few calls.

    def get(self, key: Any) -> Any:
        normal = self._key.normal
        is_usual = (type(key) is str or type(key) is int) and (type(normal) is str or type(normal) is int)
        address: Composite = (normal, (), key) if is_usual else self._at(key)
        try:
            value = self._hot[address]
        except KeyError:
            value = self._load(address)
        return None if value is ABSENT else value

    def contains(self, key: Any) -> bool:
        return self._value(key) is not ABSENT

    def put(self, key: Any, value: Any) -> None:
        context = self._key
        normal = context.normal
        if context.key is normal and (type(key) is str or type(key) is int):  # a str or int is its own normal key
            self._write((normal, (), key), value)
        else:
            self._put_any(self._at(key), key, value)

    def _put_any(self, address: Composite, key: Any, value: Any) -> None:
        """Put an entry, with its keys where the normal keys do not tell them."""
        if self._hot.get(address, ABSENT) is ABSENT:  # else its keys are kept already
            self._originals.pop(address, None)
            owner = self._key.key
            kept = None if gives_back(owner) else owner, None if gives_back(key) else key
            if kept[0] is not None or kept[1] is not None:
                self._originals[address] = kept
        self._write(address, value)

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        is_mapping = isinstance(dict_value, Mapping)
        pairs = cast("Mapping[Any, Any]", dict_value).items() if is_mapping else dict_value
        for key, value in cast("Iterable[tuple[Any, Any]]", pairs):
            self.put(key, value)

    def remove(self, key: Any) -> None:
        address = self._at(key)
        if not self._discard(address):
            self._write(address, ABSENT)
            self._originals.pop(address, None)

    def _value(self, key: Any) -> Any:
        address = self._at(key)
        value = self._hot.get(address, MISSING)
        return self._load(address) if value is MISSING else value

    def _write(self, address: Composite, value: Any) -> None:
        hot = self._hot
        before = len(hot)
        hot[address] = value
        if len(hot) != before:
            self._subs.note(address)
        self._dirty.add(address)

    def _at(self, key: Any) -> Composite:
        sub: NormalKey = key if type(key) is str or type(key) is int else normal_key(key)
        normal = self._key.normal
        if type(normal) is not tuple:  # else a window's, see `owner_at`
            return normal, (), sub
        owner, namespace = owner_at(cast("Composite", normal))
        return owner, namespace, sub

    # --------------------------------------------------------------------------------------------------- the whole map

    def items(self) -> Iterator[tuple[Any, Any]]:
        return ((_sub_key(row), row[1]) for row in self._rows())

    def keys(self) -> Iterator[Any]:
        return map(_sub_key, self._rows())

    def values(self) -> Iterator[Any]:
        return (row[1] for row in self._rows())

    def is_empty(self) -> bool:
        return next(self._rows(), None) is None

    def clear(self) -> None:
        clear_key(self._pane, self._owner())

    def _rows(self) -> Iterator[Row]:
        return rows_of_key(self._pane, self._owner())

    def _owner(self) -> Owner:
        return owner_at(self._key.normal)


class ExpiringMapState(StoredMapState):
    """One map per key of the stream; each entry has its own time to live."""

    __slots__ = ("_lives",)

    def __init__(self, scope: StateScope) -> None:
        super().__init__(scope)
        self._lives = RowLives(scope.table.pane(scope.namespace))

    def get(self, key: Any) -> Any:
        value = self._value(key)
        return None if value is ABSENT else value

    def _value(self, key: Any) -> Any:
        value = super()._value(key)
        return value if value is ABSENT else self._lives.read(self._at(key), value)

    def _write(self, address: Composite, value: Any) -> None:
        super()._write(address, value)
        if value is ABSENT:
            self._lives.cleared(address)
        else:
            self._lives.written(address)

    def _rows(self) -> Iterator[Row]:
        return self._lives.reading(super()._rows())


def _sub_key(row: Any) -> Any:
    """Return the key of an entry as it was put."""
    kept = None if row[2] is None else row[2][1]
    return key_value(row[0][2]) if kept is None else kept
