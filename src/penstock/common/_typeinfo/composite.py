"""The types made of other types: rows, tuples, lists and dicts; and the type of everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock.common._typeinfo.base import ComparedTypeInformation, TypeInformation
from penstock.common._typeinfo.basic import BasicType, BasicTypeInfo
from penstock.common.types import Row, RowKind, make_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class PickledBytesTypeInfo(TypeInformation):
    """The type of any Python object: what a stream has when no type is given."""

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class _ElementsTypeInfo(TypeInformation):
    """A type with elements of one type."""

    def __init__(self, element_type: TypeInformation) -> None:
        self.elem_type: TypeInformation = _checked(element_type, type(self).__name__)

    def _parts(self) -> tuple[Any, ...]:
        return (self.elem_type,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.elem_type}>"


class ListTypeInfo(ComparedTypeInformation, _ElementsTypeInfo):
    """The type of a list.

    Args:
        element_type: The type of its elements.
    """

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)


class ObjectArrayTypeInfo(_ElementsTypeInfo):
    """The type of a list that Java would hold as an array of objects.

    Args:
        element_type: The type of its elements.
    """

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)


class PrimitiveArrayTypeInfo(_ElementsTypeInfo):
    """The type of a list of numbers, truth values or characters, or of ``bytes``.

    Args:
        element_type: The type of its elements.

    Raises:
        TypeError: Java has no primitive of that type.
    """

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(_one_of(_PRIMITIVES, element_type, type(self).__name__))


class BasicArrayTypeInfo(_ElementsTypeInfo):
    """The type of a list of numbers, truth values, characters or texts, each of which may be None.

    Args:
        element_type: The type of its elements.

    Raises:
        TypeError: The elements are of another type.
    """

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(_one_of(_BOXED, element_type, type(self).__name__))


class MapTypeInfo(ComparedTypeInformation):
    """The type of a dict.

    Args:
        key_type_info: The type of its keys.
        value_type_info: The type of its values.
    """

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self.key_type: TypeInformation = _checked(key_type_info, "MapTypeInfo")
        self.value_type: TypeInformation = _checked(value_type_info, "MapTypeInfo")

    def _parts(self) -> tuple[Any, ...]:
        return (self.key_type, self.value_type)

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self.key_type}, {self.value_type}>"


class TupleTypeInfo(ComparedTypeInformation):
    """The type of a tuple.

    Args:
        field_types: The types of its fields.
    """

    def __init__(self, field_types: list[TypeInformation]) -> None:
        self._field_types = [_checked(field_type, "TupleTypeInfo") for field_type in field_types]

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self._field_types)

    def need_conversion(self) -> bool:
        """Tell that tuples have an internal form."""
        return True

    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        """Return the fields in internal form.

        Raises:
            ValueError: The value is no tuple, list or Row, or has another number of fields.
        """
        if obj is None:
            return None
        if not isinstance(obj, (list, tuple, Row)):
            raise ValueError(_mismatch(obj, self))  # noqa: TRY004 - PyFlink raises ValueError here
        return _to_internal_fields(self, self._field_types, cast("Iterable[Any]", obj))

    def from_internal_type(self, obj: Any) -> Any:
        """Return the tuple of some fields in internal form."""
        return None if obj is None else _from_internal_fields(self._field_types, obj)

    def _parts(self) -> tuple[Any, ...]:
        return tuple(self._field_types)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"


class RowTypeInfo(ComparedTypeInformation):
    """The type of a :class:`penstock.common.Row`.

    As in PyFlink, two row types are equal when their fields have the same types; the names do not count.

    Args:
        field_types: The types of the fields.
        field_names: Their names; ``f0``, ``f1`` and so on when left out.

    Raises:
        ValueError: There are more or fewer names than types, or a duplicate name.
    """

    def __init__(self, field_types: list[TypeInformation], field_names: list[str] | None = None) -> None:
        self._field_types = [_checked(field_type, "RowTypeInfo") for field_type in field_types]
        self._field_names = None if field_names is None else list(field_names)
        if self._field_names is not None:
            if len(self._field_names) != len(self._field_types):
                msg = f"{len(self._field_types)} field types, but {len(self._field_names)} names: {self._field_names}."
                raise ValueError(msg)
            if len(set(self._field_names)) != len(self._field_names):
                msg = f"A row cannot have two fields of one name: {self._field_names}."
                raise ValueError(msg)
        # One list for all rows of this type: a pickled block of rows then holds the names once.
        self._all_names = self._field_names or [f"f{index}" for index in range(len(self._field_types))]

    def get_field_names(self) -> list[str]:
        """Return the names of the fields; ``f0``, ``f1`` and so on when none were given."""
        return self._all_names

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field; -1 when the type was made without names.

        Raises:
            ValueError: The type has names, but not this one.
        """
        return -1 if self._field_names is None else self._field_names.index(field_name)

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self._field_types)

    def need_conversion(self) -> bool:
        """Tell that rows have an internal form."""
        return True

    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        """Return the number of the row's kind and the fields in internal form.

        Raises:
            ValueError: The value is no Row, dict, tuple, list or object with attributes, or its fields are others.
        """
        if obj is None:
            return None
        kind = obj.get_row_kind() if isinstance(obj, Row) else RowKind.INSERT
        return (kind.value, *_to_internal_fields(self, self._field_types, self.field_values(obj)))

    def field_values(self, obj: Any) -> Iterable[Any]:
        """Return the values of this type's fields: by name from what has names, else by position.

        A dict or an object without one of the names gives None for it.

        Raises:
            ValueError: The value is no Row, dict, tuple, list or object with attributes, or a Row with other names.
        """
        if isinstance(obj, Row):
            return obj.get_fields_by_names(self._all_names)
        if isinstance(obj, (tuple, list)):
            return cast("Sequence[Any]", obj)
        if isinstance(obj, dict):
            named = cast("Mapping[str, Any]", obj)
        elif hasattr(obj, "__dict__"):
            named = cast("Mapping[str, Any]", vars(obj))
        else:
            raise ValueError(_mismatch(obj, self))
        return [named.get(name) for name in self._all_names]

    def from_internal_type(self, obj: Any) -> Any:
        """Return the Row of a kind's number and some fields in internal form."""
        if obj is None:
            return None
        kind, *fields = obj
        return make_row(self._all_names, _from_internal_fields(self._field_types, fields), RowKind(kind))

    def _names(self) -> tuple[str, ...] | None:
        return None if self._field_names is None else tuple(self._field_names)

    def _parts(self) -> tuple[Any, ...]:
        return tuple(self._field_types)

    def __repr__(self) -> str:
        if self._field_names is None:
            return f"RowTypeInfo({', '.join(map(str, self._field_types))})"
        named = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field_type}' for name, field_type in named)})"


_PRIMITIVES = (
    BasicType.BOOLEAN,
    BasicType.BYTE,
    BasicType.SHORT,
    BasicType.INT,
    BasicType.LONG,
    BasicType.FLOAT,
    BasicType.DOUBLE,
    BasicType.CHAR,
)
_BOXED = (*_PRIMITIVES, BasicType.STRING)


def _checked(part: object, whole: str) -> TypeInformation:
    if not isinstance(part, TypeInformation):
        msg = f"{whole} is made of types, but {part!r} is none. Types are calls: Types.INT(), not Types.INT."
        raise TypeError(msg)
    return part


def _one_of(allowed: tuple[BasicType, ...], element_type: TypeInformation, whole: str) -> TypeInformation:
    if not (isinstance(element_type, BasicTypeInfo) and element_type.basic_type in allowed):
        names = ", ".join(basic.name for basic in allowed)
        msg = f"{whole} cannot hold {element_type!r}; it takes {names}. Use Types.OBJECT_ARRAY for other elements."
        raise TypeError(msg)
    return element_type


def _mismatch(obj: object, type_info: TypeInformation) -> str:
    return f"{obj!r} does not fit the type {type_info!r}."


def _to_internal_fields(
    whole: TypeInformation, field_types: list[TypeInformation], values: Iterable[Any]
) -> tuple[Any, ...]:
    fields = tuple(values)
    if len(fields) != len(field_types):
        msg = f"{fields!r} has {len(fields)} fields, but {whole!r} has {len(field_types)}."
        raise ValueError(msg)
    return tuple(part.to_internal_type(value) for part, value in zip(field_types, fields, strict=True))


def _from_internal_fields(field_types: list[TypeInformation], fields: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(part.from_internal_type(value) for part, value in zip(field_types, fields, strict=True))
