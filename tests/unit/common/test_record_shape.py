from __future__ import annotations

from typing import Any

import pytest

from penstock.common.record_shape import Shaper, record_shaper
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row, RowKind, field_names

NAMED = Types.ROW_NAMED(["id", "name", "score"], [Types.INT(), Types.STRING(), Types.DOUBLE()])
PLAIN = Types.ROW([Types.INT(), Types.STRING()])


def _shaper(type_info: TypeInformation) -> Shaper:
    shaper = record_shaper(type_info)
    assert shaper is not None
    return shaper


@pytest.mark.parametrize(
    "type_info",
    [None, Types.PICKLED_BYTE_ARRAY(), Types.STRING(), Types.INT(), Types.MAP(Types.STRING(), Types.INT())],
)
def test_types_that_change_nothing_have_no_shaper(type_info: TypeInformation | None) -> None:
    assert record_shaper(type_info) is None


@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (NAMED, Row(1, "ada", 1.5), Row(id=1, name="ada", score=1.5)),
        (NAMED, Row(score=2, name=None, id=2), Row(id=2, name=None, score=2.0)),
        (NAMED, {"id": 3, "score": None}, Row(id=3, name=None, score=None)),
        (PLAIN, Row(1, "x"), Row(f0=1, f1="x")),
        (PLAIN, (1, "x"), Row(f0=1, f1="x")),
        (Types.TUPLE([Types.INT(), Types.STRING()]), [1, "x"], (1, "x")),
        (Types.TUPLE([Types.INT(), Types.STRING()]), Row(1, "x"), (1, "x")),
        (Types.TUPLE([PLAIN, Types.DOUBLE()]), ((1, "x"), 1), (Row(f0=1, f1="x"), 1.0)),
        (Types.LIST(Types.DOUBLE()), (1, 2), [1.0, 2.0]),
        (Types.LIST(Types.STRING()), ("a", None), ["a", None]),
        (Types.OBJECT_ARRAY(PLAIN), [(1, "x")], [Row(f0=1, f1="x")]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"raw", b"raw"),
        (Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE())), {"a": [1]}, {"a": [1.0]}),
        (Types.MAP(Types.DOUBLE(), Types.STRING()), {1: "a"}, {1.0: "a"}),
        (Types.DOUBLE(), 1, 1.0),
        (Types.FLOAT(), 0.1, 0.10000000149011612),
        (Types.BOOLEAN(), 1, True),
        (Types.DOUBLE(), None, None),
        (NAMED, None, None),
    ],
)
def test_records_take_the_declared_shape(type_info: TypeInformation, value: Any, expected: Any) -> None:
    shaped = _shaper(type_info)(value)
    assert repr(shaped) == repr(expected)
    assert shaped == expected


def test_a_row_of_the_right_names_is_handed_on_as_it_is() -> None:
    row = Row(f0=1, f1="x")
    assert _shaper(PLAIN)(row) is row


def test_rows_of_one_type_share_their_names() -> None:
    shape = _shaper(PLAIN)
    assert field_names(shape((1, "a"))) is field_names(shape((2, "b")))


def test_a_row_keeps_its_kind() -> None:
    assert _shaper(NAMED)(Row.of_kind(RowKind.DELETE, 1, "a", 1)).get_row_kind() is RowKind.DELETE


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (PLAIN, (1,)),
        (PLAIN, Row(1, "x", None)),
        (PLAIN, Row(a=1, b="x")),
        (PLAIN, 5),
        (Types.TUPLE([Types.INT()]), (1, 2)),
        (Types.TUPLE([Types.INT()]), {"a": 1}),
    ],
)
def test_a_record_of_another_shape_is_an_error_with_record_and_type(type_info: TypeInformation, value: Any) -> None:
    with pytest.raises(ValueError, match=r"field|fit"):
        _shaper(type_info)(value)


def test_text_declared_as_a_number_is_an_error_that_shows_the_record() -> None:
    with pytest.raises(TypeError, match=r"'1\.5' is a str") as caught:
        _shaper(NAMED)(Row(1, "ada", "1.5"))
    assert caught.value.__notes__ == [f"The record (1, 'ada', '1.5') was declared as {NAMED!r}."]


def test_a_chain_of_typed_maps_gives_what_pyflink_gives() -> None:
    rows = [Row(1, "ada", 1.5), Row(2, None, 2.0), Row(3, "cyd", None)]
    named, plain = _shaper(NAMED), _shaper(PLAIN)
    tupled = _shaper(Types.TUPLE([Types.INT(), Types.STRING(), Types.INT()]))
    out: list[str] = []
    for row in map(named, rows):
        greeted = named(Row(id=row.id + 1, name=(row["name"] or "?") + "!", score=row[2]))
        joined = plain(Row(greeted.id, f"{greeted.name}:{greeted.score}"))
        counted = tupled((joined[0], joined[1], len(joined)))
        out.append(repr(plain(Row(counted[0], counted[1] * counted[2]))))
    assert out == [
        "Row(f0=2, f1='ada!:1.5ada!:1.5')",
        "Row(f0=3, f1='?!:2.0?!:2.0')",
        "Row(f0=4, f1='cyd!:Nonecyd!:None')",
    ]
