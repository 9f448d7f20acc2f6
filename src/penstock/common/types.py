"""Row, the record with optional field names and a change kind (``pyflink.common.types``).

Rows are built and read once per record, so this module stays small and plain: a row is a list of values beside an
optional list of names.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Row", "RowKind"]


class RowKind(Enum):
    """The kind of change that a row makes to its table: an insert, a delete, or one half of an update.

    Example:
        >>> str(RowKind.UPDATE_BEFORE)
        '-U'
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]

    def to_j_row_kind(self) -> NoReturn:
        """Refuse: there is no Java counterpart.

        Raises:
            UnsupportedOperationError: Always.
        """
        operation = "to_j_row_kind()"
        raise UnsupportedOperationError(operation, "records are Python objects here, so there is no JVM counterpart")


#: Python 3.11 takes long to find a member of an enumeration.
_INSERT: Final = RowKind.INSERT


class Row:
    """A record whose fields are read by position, and by name where it has names.

    ``Row(1, 2)`` has no names, ``Row(a=1, b=2)`` has them in the order given, and ``Row("a", "b")`` called with values
    gives rows with these names. Two rows are equal when they have the same kind and either both lack names and have
    equal values, or both have names and equal values by name.

    Args:
        *args: The values of a row without names.
        **kwargs: The values of a row with names.

    Raises:
        ValueError: Both positional and named values were given.

    Source: ``pyflink.common.Row``.

    Example:
        >>> row = Row(name="ada", score=1.5)
        >>> row.name, row["score"], row[1]
        ('ada', 1.5, 1.5)
        >>> Person = Row("name", "age")
        >>> Person("ada", 36)
        Row(name='ada', age=36)
        >>> Row(1, None)
        <Row(1, None)>
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: list[str] | None
    _row_kind: RowKind
    _values: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._row_kind = _INSERT
        if not kwargs:
            self._fields = None
            self._values = list(args)
            return
        if args:
            msg = "A Row takes either positional or named values, not both."
            raise ValueError(msg)
        if not _known.issuperset(kwargs):
            _learn(kwargs)
        self._fields = list(kwargs)
        self._values = list(kwargs.values())

    @property
    def __dict__(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The fields in the form that PyFlink's rows keep them, for programs that read it; a copy."""
        return {"_fields": self._fields, "_values": self._values, "_row_kind": self._row_kind}

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Make a row of the given kind; the values are those of ``Row(...)``."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def get_row_kind(self) -> RowKind:
        """Return the kind of change that this row makes to its table."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind of change that this row makes to its table."""
        self._row_kind = row_kind

    def set_field_names(self, field_names: list[str]) -> None:
        """Name the fields, in their order; rows may share one list of names, so leave it unchanged afterwards."""
        if not _known.issuperset(field_names):
            _learn(field_names)
        self._fields = field_names

    def get_fields_by_names(self, names: list[str]) -> list[Any]:
        """Return the values of some fields; all values in order when this row has no names.

        Raises:
            ValueError: A name is none of this row's.
        """
        if self._fields is None or names == self._fields:
            return self._values
        unknown = [name for name in names if name not in self._fields]
        if unknown:
            msg = f"No field {', '.join(unknown)}; the row has {', '.join(self._fields)}."
            raise ValueError(msg)
        return [self._values[self._fields.index(name)] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the fields by name.

        Args:
            recursive: Turn rows inside of this one, also in its lists and dicts, into dicts too.

        Raises:
            TypeError: The row has no names.

        Example:
            >>> Row(a=1, b=Row(c=2)).as_dict(recursive=True)
            {'a': 1, 'b': {'c': 2}}
        """
        if self._fields is None:
            msg = "A Row without field names cannot become a dict."
            raise TypeError(msg)
        values = map(_plain, self._values) if recursive else self._values
        return dict(zip(self._fields, values, strict=False))

    def __call__(self, *args: Any) -> Row:
        """Make a row whose names are this row's values.

        Raises:
            ValueError: More values than names.
        """
        names = self._values
        if len(args) > len(names):
            msg = f"{self!r} names {len(names)} fields, but got {len(args)} values: {args!r}."
            raise ValueError(msg)
        if names is not _last_names[0]:
            _learn(names)
            _last_names[0] = names
        row = bare_row(Row)
        row._fields, row._values, row._row_kind = names, list(args), self._row_kind
        return row

    def __getitem__(self, item: int | slice | str) -> Any:
        # Most rows are read by numbers, for which the check here is quicker than the call.
        return self._values[item if type(item) is int else self._position(item)]

    def __setitem__(self, key: int | slice | str, value: Any) -> None:
        if not isinstance(key, (int, slice)) and self._fields is None:
            raise KeyError(key)
        _last_names[0] = None  # it may be these values
        self._values[self._position(key)] = value

    def _position(self, item: int | slice | str) -> int | slice:
        if isinstance(item, (int, slice)):
            return item
        if self._fields is None:
            raise AttributeError(item)
        return self._fields.index(item)

    if TYPE_CHECKING:

        def __getattr__(self, item: str) -> Any: ...

    def __contains__(self, item: Any) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row) or self._row_kind != other._row_kind:
            return False
        if self._fields is None or other._fields is None:
            return self._fields is other._fields and self._values == other._values
        return (self._fields == other._fields and self._values == other._values) or self._by_name() == other._by_name()

    def __hash__(self) -> int:
        # Equality does not see the order of named fields, so the hash must not either.
        return hash(tuple(self._values) if self._fields is None else tuple(value for _, value in self._by_name()))

    def _by_name(self) -> list[tuple[str, Any]]:
        return sorted(zip(self._fields or (), self._values, strict=False), key=lambda pair: pair[0])

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{k}={v!r}' for k, v in zip(self._fields, self._values, strict=False))})"

    def __reduce__(self) -> tuple[Callable[..., Row], tuple[list[str] | None, tuple[Any, ...], RowKind]]:
        return make_row, (self._fields, tuple(self._values), self._row_kind)


#: Makes a row without its parts, which the caller sets.
bare_row: Callable[[type[Row]], Row] = object.__new__

#: Known names of fields. They are attributes of the class, because with a `__getattr__` Python would look up every
#: attribute of a row in a slow way.
_known: set[str] = set()
#: The names of which a call of a row has made a row last; to ask for each of them takes a fifth of that call.
_last_names: Final[list[list[Any] | None]] = [None]
#: With more names, rows get a `__getattr__`, because a program that makes up names would fill the class.
_MOST_NAMES = 10_000


def _attribute(name: str) -> property:
    """Make the attribute of all rows that have a field of that name; Python finds a property soonest."""

    def value_of(row: Any) -> Any:
        try:
            return row._values[row._fields.index(name)]
        except (AttributeError, ValueError):  # a row without this name
            raise AttributeError(name) from None

    return property(value_of)


def _field(row: Row, name: str) -> Any:
    fields = row._fields  # pyright: ignore[reportPrivateUsage]
    if fields is None or name not in fields:
        raise AttributeError(name)
    return row._values[fields.index(name)]  # pyright: ignore[reportPrivateUsage]


def _field_in_need(row: Row, name: str) -> Any:
    # Names with an underscore are left to Python's own protocols (copy, pickle): they ask half-made objects for them.
    if name.startswith("_"):
        raise AttributeError(name)
    return _field(row, name)


def _learn(names: Iterable[str]) -> None:
    """Make attributes for names, except names of slots and methods, and names that begin with an underscore."""
    for name in set(names) - _known:
        if len(_known) >= _MOST_NAMES:
            Row.__getattr__ = _field_in_need  # type: ignore[method-assign]
            return
        _known.add(name)
        if isinstance(name, str) and not name.startswith("_") and name not in vars(Row):  # pyright: ignore[reportUnnecessaryIsInstance]
            setattr(Row, name, _attribute(name))


def make_row(fields: list[str] | None, values: Sequence[Any], row_kind: RowKind) -> Row:
    """Build a row from its parts; pickles of rows name this function, so it keeps its name and place."""
    if fields is not None and not _known.issuperset(fields):
        _learn(fields)
    row = bare_row(Row)
    # No copy: rows of one origin share their names, and a pickled block of rows then holds them once.
    row._fields = fields  # pyright: ignore[reportPrivateUsage]
    row._values = list(values)  # pyright: ignore[reportPrivateUsage]
    row._row_kind = row_kind  # pyright: ignore[reportPrivateUsage]
    return row


def make_rows(fields: list[str], records: Iterable[Iterable[Any]]) -> list[Row]:
    """Build rows that are inserts, with the same names, of the values of each.

    Example:
        >>> make_rows(["a", "b"], [(1, 2), (3, 4)])
        [Row(a=1, b=2), Row(a=3, b=4)]
    """
    return rows_of_lists(fields, list(map(list, records)))


def rows_of_lists(fields: list[str] | None, records: Iterable[list[Any]]) -> list[Row]:
    """Build rows that are inserts, with the same names, of lists that become their own."""
    if fields is not None:
        _learn(fields)
    rows: list[Row] = []
    for values in records:
        row = bare_row(Row)
        row._fields, row._values, row._row_kind = fields, values, _INSERT  # pyright: ignore[reportPrivateUsage]
        rows.append(row)
    return rows


def lists_of_rows(records: list[Any]) -> tuple[list[str] | None, list[list[Any]]] | None:
    """Return the names and the values of rows, which stay theirs; None unless all are inserts with the same names.

    Example:
        >>> lists_of_rows(make_rows(["a", "b"], [(1, 2), (3, 4)]))
        (['a', 'b'], [[1, 2], [3, 4]])
        >>> lists_of_rows([Row(1), Row(a=1)]), lists_of_rows([(1,)])
        (None, None)
    """
    if set(map(type, records)) != {Row}:
        return None
    names: list[str] | None = records[0]._fields
    if names is not None and type(names) is not list:
        return None
    for row in records:
        if row._row_kind is not _INSERT or (row._fields is not names and row._fields != names):
            return None
    return names, [row._values for row in records]


def field_names(row: Row) -> list[str] | None:
    """Return the names of a row's fields in order, or None for a row without names."""
    return row._fields  # pyright: ignore[reportPrivateUsage] - a function, so that it cannot hide a field of that name


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value
