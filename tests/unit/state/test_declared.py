"""What a keyed state is declared to hold, and which declarations agree."""

from __future__ import annotations

import pytest

from penstock._engine.state.declared import agreed, declared
from penstock.common import TypeInformation, Types

OPEN = Types.PICKLED_BYTE_ARRAY()


@pytest.mark.parametrize(
    ("kind", "type_info", "text"),
    [
        ("value", Types.SHORT(), "value[int]"),
        ("value", Types.BIG_INT(), "value[int]"),
        ("value", Types.DOUBLE(), "value[float]"),
        ("value", Types.SQL_TIMESTAMP(), "value[datetime]"),
        ("value", Types.PRIMITIVE_ARRAY(Types.BYTE()), "value[bytes]"),
        ("value", Types.PRIMITIVE_ARRAY(Types.INT()), "value[list[int]]"),
        ("value", Types.LIST(Types.INT()), "value[list[int]]"),
        ("value", Types.TUPLE([Types.STRING(), Types.INT()]), "value[tuple[str, int]]"),
        ("value", Types.TUPLE([Types.STRING(), OPEN]), "value"),
        ("value", Types.ROW([Types.STRING()]), "value[Row]"),
        ("list", Types.LIST(Types.STRING()), "list[str]"),
        ("list", Types.LIST(OPEN), "list"),
        ("map", Types.MAP(Types.STRING(), Types.LONG()), "map[str, int]"),
        ("map", Types.MAP(Types.STRING(), OPEN), "map"),
        ("value", Types.MAP(Types.STRING(), Types.LONG()), "value[dict[str, int]]"),
        ("value", OPEN, "value"),
    ],
)
def test_type_is_what_python_makes_of_it(kind: str, type_info: TypeInformation, text: str) -> None:
    assert declared(kind, type_info) == text


@pytest.mark.parametrize(
    ("written", "asked", "both"),
    [
        ("", "value[int]", "value[int]"),
        ("value[int]", "", "value[int]"),
        ("value[int]", "value", "value[int]"),
        ("value", "value[int]", "value[int]"),
        ("value[int]", "value[int]", "value[int]"),
        ("value[int]", "value[str]", None),
        ("value[int]", "list[int]", None),
        ("value", "list", None),
    ],
)
def test_declarations_agree_unless_they_name_two_types(written: str, asked: str, both: str | None) -> None:
    assert agreed(written, asked) == both
