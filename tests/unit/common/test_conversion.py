"""What declared types make of values: the same, equal ones of the type's class, or an error."""

from __future__ import annotations

import datetime
import enum
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.cells import cells
from tests.unit.common.typed_values import ODD, SINGLE, same, types, values

from penstock.common.conversion import Conversion, conversion
from penstock.common.time import Instant
from penstock.common.typeinfo import LocalTimeTypeInfo, MapTypeInfo, RowTypeInfo, Types
from penstock.common.types import Row, RowKind, field_names
from penstock.errors import DeclaredTypeError

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

NAMED = Types.ROW_NAMED(["id", "name", "score"], [Types.INT(), Types.STRING(), Types.DOUBLE()])
PLAIN = Types.ROW([Types.INT(), Types.STRING()])
PAIR = Types.TUPLE([Types.INT(), Types.STRING()])
NUMBERS = [
    *(Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT(), Types.FLOAT(), Types.DOUBLE()),
    *(Types.BOOLEAN(), Types.BIG_DEC()),
]
SINGLES = list(SINGLE)
ZONE = datetime.timezone(datetime.timedelta(hours=2))
NOON = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)  # noqa: DTZ001 - timestamps have no zone
DAY = datetime.date(2024, 2, 29)
TIME = datetime.time(12, 30, 15, 123456)
DATE_TIME = LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME)


class Number(enum.IntEnum):
    ONE = 1


class Kind(enum.Enum):
    ONE = 1


class Text(enum.StrEnum):
    A = "a"


@dataclass
class Score:
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Slotted:
    id: int
    name: str
    score: float


class Plain:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Tidy:
    """Fields that are properties, and one of the class."""

    score = 1.5

    def __init__(self) -> None:
        self._id, self._name = 1, "ada"

    @property
    def id(self) -> int:
        return self._id

    @property
    def name(self) -> str:
        return self._name


class Keyed(Plain):
    def keys(self) -> Any:
        return self.__dict__.keys()

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]


class Unshown:
    def __repr__(self) -> str:
        raise RuntimeError


Same = namedtuple("Same", "score id name")
Other = namedtuple("Other", "a b c")


def held(type_info: TypeInformation) -> Conversion:
    found = conversion(type_info, "The output of 'Map'")
    assert found is not None
    return found


SAME: list[tuple[TypeInformation, Any]] = [
    (Types.BYTE(), -128),
    (Types.SHORT(), 32767),
    (Types.INT(), -(2**31)),
    (Types.INT(), 2**31 - 1),
    (Types.LONG(), -(2**63)),
    (Types.LONG(), 2**63 - 1),
    (Types.BIG_INT(), 10**40),
    (Types.DOUBLE(), 1e300),
    (Types.BOOLEAN(), False),
    (Types.STRING(), "naïve ☃"),
    (Types.CHAR(), "x"),
    (Types.BIG_DEC(), Decimal("1.10")),
    (Types.INSTANT(), Instant(1, 2)),
    (Types.SQL_DATE(), DAY),
    (Types.SQL_TIME(), TIME),
    (Types.SQL_TIMESTAMP(), NOON),
    (DATE_TIME, NOON),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"raw"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2]),
    (Types.BASIC_ARRAY(Types.INT()), [1, None]),
    (Types.OBJECT_ARRAY(PAIR), [(1, "x"), None]),
    (Types.LIST(Types.STRING()), ["a", None]),
    (Types.LIST(Types.PICKLED_BYTE_ARRAY()), [object]),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1, "b": None}),
    (PAIR, (1, None)),
    (PAIR, (None, "x")),
    (Types.TUPLE([]), ()),
    (Types.TUPLE([PAIR, Types.LIST(Types.INT())]), ((1, "x"), [1])),
    (NAMED, Row(id=1, name="ada", score=1.5)),
    (PLAIN, Row(f0=1, f1=None)),
    (Types.ROW([PLAIN]), Row(f0=Row(f0=1, f1="x"))),
]


@cells("type_info, value", SAME)
def test_a_value_of_the_type_stays_the_same_object(type_info: TypeInformation, value: Any) -> None:
    assert held(type_info).value(value) is value
    block = [value, None, value]
    kept = held(type_info).block(block)
    assert kept == block
    assert all(kept[place] is value for place in (0, 2))


CONVERTED: list[tuple[TypeInformation, Any, Any]] = [
    (Types.INT(), np.int64(7), 7),
    (Types.BYTE(), np.uint8(7), 7),
    (Types.LONG(), Number.ONE, 1),
    (Types.DOUBLE(), 1, 1.0),
    (Types.DOUBLE(), np.float32(0.5), 0.5),
    (Types.DOUBLE(), np.float64(0.1), 0.1),
    (Types.DOUBLE(), np.int64(3), 3.0),
    (Types.DOUBLE(), Decimal("1.5"), 1.5),
    (Types.DOUBLE(), 2**53, 2.0**53),
    (Types.FLOAT(), 0.1, 0.10000000149011612),
    (Types.FLOAT(), 1, 1.0),
    (Types.FLOAT(), float("inf"), float("inf")),
    (Types.FLOAT(), float("-inf"), float("-inf")),
    (Types.BOOLEAN(), np.bool_(False), False),
    (Types.STRING(), np.str_("a"), "a"),
    (Types.STRING(), Text.A, "a"),
    (Types.BIG_DEC(), 5, Decimal(5)),
    (Types.SQL_TIMESTAMP(), NOON.replace(tzinfo=ZONE), NOON - datetime.timedelta(hours=2)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
    (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), np.array([1.0, 2.0]), [1.0, 2.0]),
    (Types.LIST(Types.DOUBLE()), (1, 2), [1.0, 2.0]),
    (Types.OBJECT_ARRAY(PLAIN), [(1, "x")], [Row(f0=1, f1="x")]),
    (Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE())), {"a": [1]}, {"a": [1.0]}),
    (Types.MAP(Types.DOUBLE(), Types.STRING()), {1: "a"}, {1.0: "a"}),
    (Types.MAP(Types.STRING(), Types.INT()), OrderedDict(a=1), {"a": 1}),
    (PAIR, [1, "x"], (1, "x")),
    (PAIR, Row(1, "x"), (1, "x")),
    (Types.TUPLE([PLAIN, Types.DOUBLE()]), ((1, "x"), 1), (Row(f0=1, f1="x"), 1.0)),
    (NAMED, Row(1, "ada", 1.5), Row(id=1, name="ada", score=1.5)),
    (NAMED, Row(1, "ada", 1), Row(id=1, name="ada", score=1.0)),
    (NAMED, Row(score=2, name=None, id=2), Row(id=2, name=None, score=2.0)),
    (NAMED, {"id": 3, "score": None}, Row(id=3, name=None, score=None)),
    (NAMED, Score(1, "ada"), Row(id=1, name="ada", score=None)),
    (NAMED, Slotted(1, "ada", 2), Row(id=1, name="ada", score=2.0)),
    (NAMED, Plain(id=1, _cache={}), Row(id=1, name=None, score=None)),
    (Types.ROW_NAMED(["keys"], [Types.INT()]), Plain(keys=1), Row(keys=1)),
    (NAMED, Tidy(), Row(id=1, name="ada", score=1.5)),
    (Types.ROW_NAMED(["_id"], [Types.INT()]), Plain(_id=1), Row(_id=1)),
    (NAMED, pd.Series({"name": "ada", "id": 1, "score": 2.0}), Row(id=1, name="ada", score=2.0)),
    (NAMED, UserDict(name="ada", id=1), Row(id=1, name="ada", score=None)),
    (NAMED, Keyed(name="ada", id=1), Row(id=1, name="ada", score=None)),
    (NAMED, Same(2.0, 1, "ada"), Row(id=1, name="ada", score=2.0)),
    (NAMED, Other(1, "ada", 2.0), Row(id=1, name="ada", score=2.0)),
    (PLAIN, (1, "x"), Row(f0=1, f1="x")),
    (PLAIN, [1, "x"], Row(f0=1, f1="x")),
    (NAMED, Row(f0=1, f1="ada", f2=2), Row(id=1, name="ada", score=2.0)),
]


@cells("type_info, value, expected", CONVERTED)
def test_what_pyflink_converts_is_converted(type_info: TypeInformation, value: Any, expected: Any) -> None:
    for converted in (held(type_info).value(value), held(type_info).block([expected, None, value])[2]):
        assert repr(converted) == repr(expected)
        assert converted == expected
        assert type(converted) is type(expected)


MISFITS: list[tuple[TypeInformation, Any, str]] = [
    (Types.INT(), "5", "'5' is no integer"),
    (Types.INT(), 2**31, "2147483648 is not between -2147483648 and 2147483647"),
    (Types.INT(), -(2**31) - 1, "is not between"),
    (Types.INT(), np.int64(2**31), "is not between"),
    (Types.INT(), True, "True is no integer"),
    (Types.BYTE(), 128, "128 is not between -128 and 127"),
    (Types.SHORT(), -32769, "is not between"),
    (Types.LONG(), 2**63, "is not between"),
    (Types.LONG(), 1.0, "1.0 is no integer"),
    (Types.BIG_INT(), Decimal(1), "is no integer"),
    (Types.BIG_INT(), np.bool_(True), "is no integer"),
    (Types.DOUBLE(), "1.5", "'1.5' is no number"),
    (Types.DOUBLE(), True, "True is no number"),
    (Types.DOUBLE(), 1 + 2j, "is no number"),
    (Types.DOUBLE(), 10**400, "has more digits than a float of 64 bits holds"),
    (Types.DOUBLE(), 2**53 + 1, "has more digits than a float of 64 bits holds"),
    *((kind, Decimal("sNaN"), "is a signaling NaN") for kind in (Types.DOUBLE(), Types.FLOAT())),
    *((kind, "\ud800", "'\\ud800' is n") for kind in NUMBERS),
    (Types.DOUBLE(), Decimal("0.1"), "has more digits than a float of 64 bits holds"),
    (Types.FLOAT(), 1e300, "is beyond the floats of 32 bits"),
    (Types.FLOAT(), 2**24 + 1, "has more digits than a float of 32 bits holds"),
    (Types.BOOLEAN(), "yes", "is neither True nor False"),
    (Types.BOOLEAN(), 1, "is neither True nor False"),
    (Types.STRING(), 5, "5 is no str"),
    (Types.STRING(), b"raw", "is no str"),
    (Types.CHAR(), "xy", "has 2 characters in place of one"),
    (Types.BIG_DEC(), "text", "is no Decimal"),
    (Types.BIG_DEC(), 1.5, "is no Decimal"),
    (Types.BIG_DEC(), True, "is no Decimal"),
    (Types.BIG_DEC(), Decimal("NaN"), "is no finite number"),
    (Types.INSTANT(), 5, "is no Instant"),
    (Types.SQL_DATE(), "2024-02-29", "is no date"),
    (Types.SQL_DATE(), NOON, "is no date"),
    (Types.SQL_DATE(), datetime.datetime.combine(DAY, datetime.time.min), "is no date"),
    (Types.SQL_TIME(), 5, "is no time of day"),
    (Types.SQL_TIME(), NOON, "is no time of day"),
    (Types.SQL_TIME(), datetime.time(3, tzinfo=ZONE), "is a time of day in a zone other than UTC"),
    (Types.SQL_TIMESTAMP(), DAY, "is no datetime"),
    (Types.SQL_TIMESTAMP(), pd.Timestamp(1, unit="ns"), "has nanoseconds"),
    (Types.SQL_TIMESTAMP(), datetime.datetime.min.replace(tzinfo=ZONE), "has no year in UTC"),
    (DATE_TIME, NOON.replace(tzinfo=ZONE), "has a zone, and a local time has none"),
    (Types.SQL_DATE(), pd.NaT, "NaT is no date"),
    (Types.SQL_TIME(), pd.NaT, "NaT is no time of day"),
    (Types.SQL_TIMESTAMP(), pd.NaT, "NaT is no datetime"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "raw", "has no bytes"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [114, 97], "has no bytes"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, None], "at [1]: None has no place here"),
    (Types.LIST(Types.STRING()), "abc", "is no array"),
    (Types.LIST(Types.STRING()), {"a": 1}, "is no array"),
    (Types.LIST(Types.INT()), {1, 2}, "is no array"),
    (Types.LIST(Types.INT()), b"ab", "is no array"),
    (Types.LIST(Types.STRING()), pd.DataFrame({"a": [1]}), "is no array"),
    (Types.MAP(Types.LIST(Types.INT()), Types.INT()), {(1,): 1}, "has keys that become lists or dicts"),
    (Types.LIST(Types.INT()), [1, "a"], "at [1]: 'a' is no integer"),
    (Types.MAP(Types.STRING(), Types.INT()), [("a", 1)], "is no dict"),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": "b"}, "at ['a']: 'b' is no integer"),
    (Types.MAP(Types.STRING(), Types.INT()), {None: 1}, "at key None: None has no place here"),
    (Types.MAP(Types.FLOAT(), Types.INT()), {0.1: 1, 0.1 + 1e-12: 2}, "has two keys that are one in the type"),
    (PAIR, (1,), "has 1 fields in place of 2"),
    (PAIR, (1, "x", 2), "has 3 fields in place of 2"),
    (PAIR, {"a": 1}, "is no array"),
    (PAIR, ("x", 1), "at [0]: 'x' is no integer"),
    (PLAIN, (1,), "it has 1 fields, and the type has 2"),
    *((Types.ROW([PAIR]), Row(short), "in place of 2") for short in ((), (1,), (1, "x", 2))),
    (PLAIN, Row(1, "x", None), "it has 3 fields, and the type has 2"),
    (PLAIN, 5, "5 is no row"),
    *(
        (kind, odd, "is no row")
        for kind in (PLAIN, NAMED)
        for odd in (Number.ONE, Kind.ONE, pd.Timedelta(1), Plain(_x=1))
    ),
    (NAMED, pd.DataFrame({"id": [1]}), "at .id:"),
    (PLAIN, pd.Index([1, 2, 3]), "it has 3 fields, and the type has 2"),
    (NAMED, {"id": 1, None: ["more"]}, "it has a field None, and the type has id, name, score"),
    (PLAIN, len, "is no row"),
    (PLAIN, [True, "x"], "at .f0: True is no integer"),
    (NAMED, Row(1, "ada", "1.5"), "at .score: '1.5' is no number"),
    (NAMED, Row(id=1, name="ada", score=1.5, extra=2), "it has 4 fields, and the type has 3"),
    (NAMED, Row(id=1, nmae="ada", score=1.5), "it has the fields id, nmae, score, and the type has id, name, score"),
    (NAMED, Row(id=1, name="ada"), "it has 2 fields, and the type has 3"),
    (NAMED, {"id": 1, "nmae": "ada"}, "it has a field 'nmae', and the type has id, name, score"),
    (NAMED, Plain(id=1, other=2), "it has a field 'other'"),
    (Types.ROW_NAMED(["rows"], [Types.LIST(NAMED)]), Row([Row(1, "a", 1.0), Row(1, 2, 1.0)]), "at .rows[1].name:"),
]


@cells("type_info, value, reason", MISFITS)
def test_a_value_that_does_not_fit_is_an_error_with_value_type_and_place(
    type_info: TypeInformation, value: Any, reason: str
) -> None:
    for hold in (held(type_info).value, lambda bad: held(type_info).block([None, bad, None])):
        with pytest.raises(DeclaredTypeError) as refused:
            hold(value)
        text = str(refused.value)
        assert text.startswith(f"The output of 'Map' is declared as {type_info!r}, and ")
        assert reason in text
        assert refused.value.value[:20] in text


@pytest.mark.parametrize("type_info", [NAMED, PAIR, Types.LIST(PAIR), Types.MAP(PAIR, PAIR), *NUMBERS])
def test_a_value_without_a_repr_is_refused_as_any_other(type_info: TypeInformation) -> None:
    for value in (Unshown(), [Unshown()], {Unshown(): 1}, {1: Unshown()}):
        with pytest.raises(DeclaredTypeError, match="Unshown"):
            held(type_info).block([value])


@pytest.mark.parametrize("type_info", [None, Types.PICKLED_BYTE_ARRAY()])
def test_without_a_type_there_is_no_conversion(type_info: TypeInformation | None) -> None:
    assert conversion(type_info, "") is None


def test_a_row_keeps_its_kind_and_rows_of_one_type_share_their_names() -> None:
    rows = held(PLAIN).block([Row.of_kind(RowKind.DELETE, 1, "a"), Row(2, "b"), (3, "c")])
    assert rows[0].get_row_kind() is RowKind.DELETE
    assert field_names(rows[0]) is field_names(rows[1]) is field_names(rows[2])
    assert [row.f1 for row in rows] == ["a", "b", "c"]
    alone = held(PLAIN).value(Row.of_kind(RowKind.DELETE, 1, "a"))
    assert (repr(alone), alone.get_row_kind()) == (repr(rows[0]), RowKind.DELETE)


def test_the_row_that_a_function_returned_keeps_its_names() -> None:
    row = Row(1, "x")
    assert repr(held(PLAIN).block([row])) == "[Row(f0=1, f1='x')]"
    kept = held(PLAIN).value(row)
    row[1] = "y"
    assert repr(kept) == "Row(f0=1, f1='x')"
    assert repr(row) == "<Row(1, 'y')>"


def test_row_types_that_differ_in_names_alone_are_told_apart() -> None:
    one, two = (Types.ROW_NAMED([name], [Types.INT()]) for name in ("one", "two"))
    assert one == two
    assert [repr(held(kind).value(Row(1))) for kind in (one, two)] == ["Row(one=1)", "Row(two=1)"]


def test_not_a_number_passes_as_a_float_of_32_bits() -> None:
    pair = Types.TUPLE([Types.FLOAT(), Types.FLOAT()])
    (value,) = held(pair).block([(float("nan"), 0.1)])
    assert repr(value) == "(nan, 0.10000000149011612)"
    assert repr(held(Types.FLOAT()).block([float("nan")])) == "[nan]"


def test_a_chain_of_typed_maps_gives_what_pyflink_gives() -> None:
    rows = [Row(1, "ada", 1.5), Row(2, None, 2.0), Row(3, "cyd", None)]
    named, plain = held(NAMED).value, held(PLAIN).value
    tupled = held(Types.TUPLE([Types.INT(), Types.STRING(), Types.INT()])).value
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


def as_typed(field: Any, kind: TypeInformation) -> Any:
    """Return the value that a type has for one that it takes: nothing cut, rounded, dropped or put in order."""
    if field is None:
        return None
    if isinstance(kind, RowTypeInfo):
        names, by_name = kind.get_field_names(), isinstance(field, Row) and field_names(field) == kind.get_field_names()
        if isinstance(field, dict) or by_name:
            field = [field.get(name) if isinstance(field, dict) else field[name] for name in names]
        return [as_typed(one, of) for one, of in zip(field, kind.get_field_types(), strict=True)]
    if isinstance(kind, MapTypeInfo):
        return [(as_typed(key, kind.key_type), as_typed(one, kind.value_type)) for key, one in field.items()]
    if hasattr(kind, "elem_type") and not isinstance(field, (bytes, bytearray)):
        return [as_typed(one, kind.elem_type) for one in field]
    if kind == Types.FLOAT():
        return repr(float(np.float32(float(field))))
    if kind == Types.SQL_TIMESTAMP() and field.tzinfo is not None:
        field = field.astimezone(datetime.UTC)
    has_zone = isinstance(field, (datetime.time, datetime.datetime))
    return field.replace(tzinfo=None) if has_zone else repr(field) if field != field else field  # noqa: PLR0124 - NaN


@given(types().flatmap(lambda kind: st.tuples(st.just(kind), st.sampled_from(ODD) | values(kind))), st.data())
def test_whatever_a_type_takes_comes_back_equal_alone_and_in_a_block(
    typed: tuple[RowTypeInfo, Any], data: st.DataObject
) -> None:
    """A row of the type, one field of which is any value at all, with the names of the type or without any."""
    kind, value = typed
    names, odd = kind.get_field_names(), data.draw(st.sampled_from(ODD))
    spoilt = dict.fromkeys(names) | ({data.draw(st.sampled_from(names)): odd} if names else {})
    for given_value in (value, spoilt, Row(*spoilt.values())):
        try:
            alone = held(kind).value(given_value)
        except DeclaredTypeError:
            with pytest.raises(DeclaredTypeError):
                held(kind).block([None, given_value])
            continue
        assert as_typed(alone, kind) == as_typed(given_value, kind)
        assert same(held(kind).block([None, given_value])[1], alone)


@given(st.lists(st.sampled_from(SINGLES), min_size=1, max_size=3), st.data())
def test_a_block_whose_shape_is_known_is_converted_as_any_other(
    kinds: list[TypeInformation], data: st.DataObject
) -> None:
    """Tuples of values of the types, or of other values of the same classes."""
    fields = [SINGLE[kind] | st.sampled_from(ODD) for kind in kinds]
    record = data.draw(st.tuples(*fields))
    for kind, value, shape in (
        (Types.TUPLE(kinds), record, tuple(map(type, record))),
        (kinds[0], record[0], type(record[0])),
    ):
        conversion_of = held(kind)
        try:
            (expected,) = conversion_of.block([value])
        except DeclaredTypeError:
            with pytest.raises(DeclaredTypeError):
                conversion_of.block([value], shape=shape)
            continue
        (found,) = conversion_of.block([value], shape=shape)
        assert same(found, expected)


def test_more_declared_types_than_are_remembered_make_what_they_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.common.conversion._MOST_KEPT", 2)
    fields = [f"field{number}" for number in range(6)]
    for name in fields * 2:
        one = conversion(Types.ROW_NAMED([name], [Types.LONG()]), "here")
        assert one is not None
        assert one.block([{name: 1}, Row(2)]) == [Row(**{name: 1}), Row(**{name: 2})]
        with pytest.raises(DeclaredTypeError, match=name):
            one.block([{name: "text"}])


def test_a_name_that_reads_as_two_fields_is_one() -> None:
    two = conversion(Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()]), "here")
    one = conversion(Types.ROW_NAMED(["a: Long, b"], [Types.LONG()]), "here")
    assert two is not None
    assert one is not None
    assert two.block([(1, 2)]) == [Row(a=1, b=2)]
    assert one.block([(1,)])[0].as_dict() == {"a: Long, b": 1}
