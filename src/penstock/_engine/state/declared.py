"""The declared type of a keyed state, as the text that checkpoints store with it: ``value[int]``.

Types are compared as the Python types that are stored: every width of an integer is an ``int``, and the fields of a row
may change. Where a part of a type is left open, the whole type is open, and nothing is compared.
"""

from __future__ import annotations

from typing import Final

from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

_BASIC: Final = {
    BasicType.STRING: "str",
    BasicType.CHAR: "str",
    BasicType.BOOLEAN: "bool",
    BasicType.BYTE: "int",
    BasicType.SHORT: "int",
    BasicType.INT: "int",
    BasicType.LONG: "int",
    BasicType.BIG_INT: "int",
    BasicType.FLOAT: "float",
    BasicType.DOUBLE: "float",
    BasicType.BIG_DEC: "Decimal",
    BasicType.INSTANT: "Instant",
}


_OTHERS: Final[dict[type[TypeInformation], str]] = {
    RowTypeInfo: "Row",
    DateTypeInfo: "date",
    TimeTypeInfo: "time",
    TimestampTypeInfo: "datetime",
}


def declared(kind: str, type_info: TypeInformation) -> str:
    """Return a kind of state with the type that its descriptor names.

    Args:
        kind: The kind of state, such as ``value``.
        type_info: The type of the values, lists or maps.

    Example:
        >>> from penstock.common import Types
        >>> (
        ...     declared("value", Types.LONG()),
        ...     declared("list", Types.LIST(Types.STRING())),
        ...     declared("value", Types.ROW([])),
        ... )
        ('value[int]', 'list[str]', 'value[Row]')
        >>> declared("value", Types.PICKLED_BYTE_ARRAY())
        'value'
    """
    match type_info:
        case ListTypeInfo() if kind == "list":
            held = _text(type_info.elem_type)
        case MapTypeInfo() if kind == "map":
            held = _texts(type_info.key_type, type_info.value_type)
        case _:
            held = _text(type_info)
    return f"{kind}[{held}]" if held else kind


def bare(kind: str) -> str:
    """Return a kind without its type."""
    return kind.partition("[")[0]


def agreed(written: str, asked: str) -> str | None:
    """Return the kind that fits both the stored and the requested declaration of a state; None where they conflict."""
    if written == asked or not asked:
        return written
    if not written:
        return asked
    if bare(written) != bare(asked):
        return None
    typed = [kind for kind in (written, asked) if kind != bare(kind)]
    return typed[0] if len(typed) == 1 else None


def _text(type_info: TypeInformation) -> str:
    """Return the name of the Python type; empty where the type is left open."""
    match type_info:
        case BasicTypeInfo():
            return _BASIC[type_info.basic_type]
        case PrimitiveArrayTypeInfo() if type_info.elem_type == BasicTypeInfo.BYTE_TYPE_INFO():
            return "bytes"
        case ListTypeInfo() | ObjectArrayTypeInfo() | BasicArrayTypeInfo() | PrimitiveArrayTypeInfo():
            name, held = "list", _text(type_info.elem_type)
        case MapTypeInfo():
            name, held = "dict", _texts(type_info.key_type, type_info.value_type)
        case TupleTypeInfo():
            name, held = "tuple", _texts(*type_info.get_field_types())
        case _:
            return _OTHERS.get(type(type_info), "")
    return held and f"{name}[{held}]"


def _texts(*types: TypeInformation) -> str:
    texts = [_text(one) for one in types]
    return ", ".join(texts) if all(texts) else ""
