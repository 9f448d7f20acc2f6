"""What an operator's state is of, by which a start knows that another operator has its uid: its keys, its splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, ForwardRef, get_args, get_origin

from penstock._api.connectors.source import Source
from penstock._api.functions.held import HeldKey
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.typeinfo import TypeInformation

#: Types of keys that are equal across types: 1 is the key of 1.0 and of True. 0.1 as a float of 32 bits or as a Decimal
#: is another key.
_NUMBERS: Final = tuple(
    kind() for kind in (Types.BOOLEAN, Types.BYTE, Types.SHORT, Types.INT, Types.LONG, Types.BIG_INT, Types.DOUBLE)
)
_TEXTS: Final = (Types.STRING(), Types.CHAR())


def key_type(members: Mapping[str, object]) -> str:
    """Return the declared type of an operator's keys; "" without keys, or without a declaration.

    Args:
        members: Functions, selectors, sources and settings by name.
    """
    selectors = (members.get(name) for name in ("key_selector", "key_selector1"))
    return next((_name(selector.type_info) for selector in selectors if isinstance(selector, HeldKey)), "")


def split_class(members: Mapping[str, object]) -> str:
    """Return the name of the class of a source's splits; "" for other operators.

    It is the second parameter of ``Source[T, SplitT, CheckpointT]``; a source that does not say it is the class itself.

    Args:
        members: As for `key_type`.
    """
    source: object = members.get("source")
    kind: type = type(source)
    if not issubclass(kind, Source):
        return ""
    kinds = (
        _class_name(get_args(generic)[1])
        for base in kind.__mro__
        for generic in base.__dict__.get("__orig_bases__", ())
        if get_origin(generic) is Source
    )
    return next(filter(None, kinds), f"those of {kind.__qualname__}")


def _name(type_info: TypeInformation) -> str:
    """Return the name of a type as it counts for keys."""
    if type_info in _NUMBERS:
        return "number"
    if type_info in _TEXTS:
        return "text"
    fields: list[TypeInformation] | None = getattr(type_info, "get_field_types", list)()
    if not fields:
        return str(type_info)
    names = getattr(type_info, "get_field_names", list[str])()
    return f"{type(type_info).__name__}({', '.join((*names, *map(_name, fields)))})"


def _class_name(kind: Any) -> str:
    """Return the name of a class, which may be given as a text."""
    if isinstance(kind, ForwardRef):
        return kind.__forward_arg__.rpartition(".")[2]
    return kind.__qualname__ if isinstance(kind, type) else ""
