"""States of a savepoint as Python values, pandas and Arrow."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pytest
from tests.unit.savepoints.jobs import savepoint_of

from penstock.common.types import Row
from penstock.datastream.time_domain import TimeDomain
from penstock.errors import StateClassError, UnknownStateError, UnsupportedOperationError
from penstock.savepoint import KeyedEntry, ListItem, Savepoint, SavepointWriter

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.savepoint import StateRows

NUMBERS = 20_000


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> Savepoint:
    return Savepoint.open(savepoint_of(tmp_path_factory.mktemp("job"), numbers=NUMBERS))


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Point:
    x: int
    tags: tuple[str, ...] = ()


class Pair(NamedTuple):
    left: int
    right: str


def written(place: Path, entries: Any, **options: Any) -> StateRows[KeyedEntry]:
    """Return a state with these entries."""
    path = SavepointWriter.new(parallelism=3).set_keyed_state("op", "state", entries, **options).write(str(place / "s"))
    return Savepoint.open(path, classes=None).keyed_state("op", "state")


def by_key(rows: StateRows[KeyedEntry]) -> dict[Any, Any]:
    return {entry.key: entry.value for entry in rows}


# ------------------------------------------------------------------------------------------------------- state of a job


def test_value_state_has_the_keys_as_the_job_had_them(savepoint: Savepoint) -> None:
    totals = by_key(savepoint.keyed_state("totals", "total"))
    assert set(totals) == {("even", 0), ("odd", 1)}
    split = {split.subtask: split.split.next for split in savepoint.source_splits("numbers")}
    read = [*range(split[0]), *range(NUMBERS // 2, split[1])]
    assert totals == {
        ("even", 0): sum(number for number in read if number % 2 == 0),
        ("odd", 1): sum(number for number in read if number % 2 == 1),
    }


def test_windows_say_which_window_an_entry_is_of(savepoint: Savepoint) -> None:
    frame = savepoint.windows("windows").to_pandas()
    assert list(frame.columns) == ["key", "window_start", "window_end", "value"]
    assert sorted(frame["key"]) == [0, 1, 2]
    assert set(frame["window_end"]) == {10**9}


def test_timers_come_in_their_order_and_by_their_clock(savepoint: Savepoint) -> None:
    timers = list(savepoint.timers("totals"))
    assert len(timers) == 14
    assert {timer.key for timer in timers} == {("even", 0), ("odd", 1)}
    for key in (("even", 0), ("odd", 1)):
        assert [timer.timestamp for timer in timers if timer.key == key] == [10**12 + number for number in range(7)]
    assert list(savepoint.timers("totals", TimeDomain.PROCESSING_TIME)) == []


def test_lists_of_all_subtasks_are_one(savepoint: Savepoint) -> None:
    assert set(savepoint.list_state("waiting", "own")) == {ListItem(0, number) for number in range(5)}
    assert sorted(item.value for item in savepoint.list_state("waiting", "shared")) == [-4, -3, -2, -1, 0]


def test_what_is_not_there_is_answered_with_what_is(savepoint: Savepoint) -> None:
    for call, known in (
        (lambda: savepoint.keyed_state("totals", "sum"), "'total' (value[int])"),
        (lambda: savepoint.keyed_state("total", "sum"), "'totals'"),
        (lambda: savepoint.list_state("waiting", "shred"), "'shared' (union)"),
        (lambda: savepoint.broadcast_state("waiting", "shared"), "'own' (list)"),
        (lambda: savepoint.source_splits("totals"), "'numbers'"),
        (lambda: savepoint.timers("nobody"), "'windows'"),
    ):
        with pytest.raises(UnknownStateError) as caught:
            call()
        assert known in str(caught.value)


def test_class_that_cannot_be_imported_is_named_with_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = written(tmp_path, {1: Point(2)})
    monkeypatch.delattr(f"{__name__}.Point")
    with pytest.raises(StateClassError, match=r"'state'.*Point"):
        list(rows)


# --------------------------------------------------------------------------------------------------------- data frames


def test_arrow_gets_structs_for_what_has_parts_and_they_say_what_they_were(tmp_path: Path) -> None:
    value = {
        "point": Point(1, ("a", "b")),
        "pair": Pair(1, "x"),
        "row": Row(name="ada", age=36),
        "plain": Row(1, "y"),
        "colour": Colour.RED,
        "price": Decimal("1.50"),
        "day": date(2026, 1, 1),
        "id": UUID(int=7),
        "set": {3},
        "map": {1: 2},
        "nothing": None,
    }
    [cell] = written(tmp_path, {"k": value}).to_arrow().column("value").to_pylist()
    assert cell == value | {
        "point": {"_python": f"{__name__}.Point", "x": 1, "tags": {"_1": "a", "_2": "b"}},
        "pair": {"_python": f"{__name__}.Pair", "left": 1, "right": "x"},
        "row": {"_python": 'Row+I["name", "age"]', "name": "ada", "age": 36},
        "plain": {"_python": "Row+I[2]", "_1": 1, "_2": "y"},
        "colour": {"_python": f"{__name__}.Colour", "name": "RED"},
        "id": {"_python": "UUID", "text": str(UUID(int=7))},
        "set": {"_python": "set", "items": [3]},
        "map": {"_python": "dict", "items": [{"key": 1, "value": 2}]},
    }


def test_pandas_keeps_the_values_themselves(tmp_path: Path) -> None:
    frame = written(tmp_path, {(1, "a"): Point(1), (2, "b"): Point(2)}).to_pandas()
    assert dict(zip(frame["key"], frame["value"], strict=True)) == {(1, "a"): Point(1), (2, "b"): Point(2)}


def test_values_that_do_not_go_together_ask_for_a_schema(tmp_path: Path) -> None:
    rows = written(tmp_path, {"a": 1, "b": "one"})
    with pytest.raises(UnsupportedOperationError, match=r"column 'value' has values of int, str"):
        rows.to_arrow()
    assert rows.to_arrow(pa.schema([("key", pa.string())])).num_columns == 1
    with pytest.raises(UnsupportedOperationError, match="the columns are key, value"):
        rows.to_arrow(pa.schema([("keys", pa.string())]))


def test_batches_are_of_one_schema_and_of_limited_size(tmp_path: Path) -> None:
    batches = list(written(tmp_path, {number: number for number in range(1_000)}).to_batches(batch_rows=300))
    assert [batch.num_rows for batch in batches] == [300, 300, 300, 100]
    assert sorted(pa.Table.from_batches(batches).column("value").to_pylist()) == list(range(1_000))
    schema = pa.schema([("value", pa.float32()), ("key", pa.int16())])
    assert [batch.schema for batch in written(tmp_path / "2", {1: 2}).to_batches(schema)] == [schema]


def test_state_without_entries_is_no_error(tmp_path: Path) -> None:
    path = SavepointWriter.new().set_timers("op", [("k", 5)]).write(str(tmp_path / "s"))
    empty = Savepoint.open(path).timers("op", TimeDomain.PROCESSING_TIME)
    assert (empty.to_pandas().empty, empty.to_arrow().num_rows, list(empty.to_batches())) == (True, 0, [])


def test_rows_travel_to_other_processes(savepoint: Savepoint) -> None:
    rows = savepoint.keyed_state("totals", "total")
    assert list(pickle.loads(pickle.dumps(rows))) == list(rows)
