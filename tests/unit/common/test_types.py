from __future__ import annotations

import copy
import pickle

import pytest

from penstock.common import types
from penstock.common.types import Row, RowKind, make_rows


def test_named_row_keeps_the_order_of_its_arguments() -> None:
    row = Row(b=1, a=2)
    assert repr(row) == "Row(b=1, a=2)"
    assert list(row) == [1, 2]
    assert row.as_dict() == {"b": 1, "a": 2}


def test_row_without_names_prints_in_angle_brackets() -> None:
    assert repr(Row(1, "x", None)) == "<Row(1, 'x', None)>"


def test_fields_are_read_by_name_position_and_slice() -> None:
    row = Row(id=1, name="ada", score=1.5)
    assert (row.id, row["name"], row[2], row[-1], row[:2]) == (1, "ada", 1.5, 1.5, [1, "ada"])
    assert len(row) == 3


def test_a_field_may_be_called_like_a_list_of_names() -> None:
    assert Row(field_names=1).field_names == 1


def test_unknown_names_raise_what_pyflink_raises() -> None:
    named, nameless = Row(a=1), Row(1)
    with pytest.raises(ValueError, match="b"):
        named["b"]
    with pytest.raises(AttributeError):
        _ = named.b
    with pytest.raises(AttributeError):
        nameless["a"]
    with pytest.raises(KeyError):
        nameless["a"] = 2
    with pytest.raises(AttributeError):
        named.b = 2


def test_fields_are_set_by_name_and_position() -> None:
    row = Row(a=1, b=2)
    row["a"], row[1] = 10, 20
    assert row == Row(a=10, b=20)


def test_positional_and_named_values_do_not_mix() -> None:
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)


def test_row_of_names_makes_rows() -> None:
    person = Row("name", "age")
    assert person("ada", 36) == Row(name="ada", age=36)
    with pytest.raises(ValueError, match="2 fields, but got 3 values"):
        person("ada", 36, True)


def test_row_of_names_that_change_makes_rows_with_the_new_ones() -> None:
    names = Row("changes", "stays")
    names(1, 2)
    names[0] = "changed"
    row = names(3, 4)
    assert (row.changed, row.stays) == (3, 4)
    assert not hasattr(row, "changes")


def test_membership_asks_names_where_there_are_names_and_values_else() -> None:
    assert "a" in Row(a=1)
    assert 1 not in Row(a=1)
    assert 1 in Row(1)


def test_rows_are_equal_with_equal_kind_and_equal_values_by_name() -> None:
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert Row(1, 2) == Row(1, 2)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(1)
    assert Row(1) != (1,)
    assert Row(1) != Row.of_kind(RowKind.DELETE, 1)


def test_equal_rows_have_equal_hashes() -> None:
    assert len({Row(a=1, b=2), Row(b=2, a=1)}) == 1
    assert hash(Row(1, 2)) == hash(Row(1, 2))


def test_row_kinds_print_their_sign() -> None:
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]
    row = Row.of_kind(RowKind.UPDATE_AFTER, a=1)
    assert row.get_row_kind() is RowKind.UPDATE_AFTER


@pytest.mark.parametrize("row", [Row(1, None), Row(a=1, b=Row(c=2)), Row.of_kind(RowKind.DELETE, a=1), Row()])
def test_rows_survive_pickling_and_copying(row: Row) -> None:
    for twin in (pickle.loads(pickle.dumps(row)), copy.deepcopy(row), copy.copy(row)):
        assert twin == row
        assert repr(twin) == repr(row)
        assert twin.get_row_kind() is row.get_row_kind()


def test_pickled_rows_of_one_origin_share_their_names() -> None:
    person = Row("quite_a_long_name", "another_long_name")
    pickled = pickle.dumps([person(index, index) for index in range(100)])
    assert pickled.count(b"quite_a_long_name") == 1
    assert pickled.count(b"make_row") == 1


def test_as_dict_goes_into_rows_lists_and_dicts_only_when_asked() -> None:
    row = Row(a=Row(b=1), c=[Row(d=2)], e={"f": Row(g=3)})
    assert row.as_dict(recursive=True) == {"a": {"b": 1}, "c": [{"d": 2}], "e": {"f": {"g": 3}}}
    assert row.as_dict()["a"] == Row(b=1)
    with pytest.raises(TypeError):
        Row(1).as_dict()


def test_fields_by_names_follow_the_names_asked_for() -> None:
    row = Row(a=1, b=2)
    assert row.get_fields_by_names(["b", "a"]) == [2, 1]
    assert Row(1, 2).get_fields_by_names(["x", "y"]) == [1, 2]
    with pytest.raises(ValueError, match="No field c; the row has a, b"):
        row.get_fields_by_names(["a", "c"])


def test_names_can_be_given_later() -> None:
    row = Row(1, 2)
    row.set_field_names(["a", "b"])
    assert row == Row(a=1, b=2)


def test_parts_are_where_programs_for_pyflink_look() -> None:
    assert vars(Row(a=1))["_fields"] == ["a"]
    assert Row(1).__dict__.get("_fields") is None


def test_rows_have_their_fields_however_many_names_a_program_makes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(types, "_MOST_NAMES", 2)
    monkeypatch.setattr(types, "_known", set())
    with monkeypatch.context() as undone:
        undone.setattr(Row, "__getattr__", None, raising=False)  # so that it is taken away again
        del Row.__getattr__
        rows = [Row(**{f"made_up_{number}": number, "_hidden": 1}) for number in range(6)]
        rows += make_rows(["made_up_6"], [(6,)])
        for number, row in enumerate(rows):
            for same in (row, copy.copy(row), pickle.loads(pickle.dumps(row))):
                assert getattr(same, f"made_up_{number}") == same[f"made_up_{number}"] == number
                assert not hasattr(same, f"made_up_{(number + 1) % 7}")
                assert not hasattr(same, "_hidden")
                assert same == row
