"""TypeInformation, the root of all types of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Hashable


class TypeInformation:
    """The type of a record or of a part of one.

    Subclasses are made by :class:`Types`. Two types are equal when they have the same class and the same parts.

    Source: ``pyflink.common.TypeInformation``.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> Types.ROW_NAMED(["id", "tags"], [Types.LONG(), Types.LIST(Types.STRING())])
        RowTypeInfo(id: Long, tags: ListTypeInfo<String>)
        >>> Types.TUPLE([Types.INT()]) == Types.TUPLE([Types.INT()])
        True
    """

    def need_conversion(self) -> bool:
        """Tell whether values of this type have an internal form of their own."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Return the internal form of a value; this also checks the value's shape.

        Raises:
            ValueError: The value does not have the shape of this type.
        """
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Return the Python value of an internal form."""
        return obj

    def get_java_type_info(self) -> NoReturn:
        """Refuse: this type has no Java counterpart.

        Raises:
            UnsupportedOperationError: Always.
        """
        operation = "get_java_type_info()"
        raise UnsupportedOperationError(operation, "records are Python objects here, so types have no JVM counterpart")

    def _parts(self) -> tuple[Any, ...]:
        """Return what, beside the class, makes two types equal."""
        return ()

    def _names(self) -> tuple[str, ...] | None:
        """Return the names of the parts, which do not make types unequal; None where they have none."""
        return None

    def __eq__(self, o: object) -> bool:
        return type(self) is type(o) and self._parts() == cast("TypeInformation", o)._parts()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._parts()))

    def __repr__(self) -> str:
        return type(self).__name__


class ComparedTypeInformation(TypeInformation):
    """A type whose comparison PyFlink declares with a parameter of another name."""

    def __eq__(self, other: object) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()


def identity(type_info: TypeInformation) -> tuple[Hashable, ...]:
    """Return what tells a type from all that give other values: rows with other names are equal, and have another one.

    Args:
        type_info: The type.

    Example:
        >>> from penstock.common.typeinfo import Types
        >>> one, other = (Types.ROW_NAMED([name], [Types.INT()]) for name in ("id", "count"))
        >>> one == other, identity(one) == identity(other)
        (True, False)
    """
    parts = (identity(part) if isinstance(part, TypeInformation) else part for part in type_info._parts())
    return type(type_info), type_info._names(), *parts
