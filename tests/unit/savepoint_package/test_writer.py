"""Savepoints from nothing and from others, and jobs that start from them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.savepoint_package.written import NUMBERS, contents, last_totals, started
from tests.unit.savepoints import jobs
from tests.unit.savepoints.jobs import environment, run

from penstock._engine.savepoints import writing
from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.time_domain import TimeDomain
from penstock.errors import (
    DeclaredTypeError,
    RestoreError,
    UnclaimedStateError,
    UnknownStateError,
)
from penstock.savepoint import ABSENT, KeyedEntry, Savepoint, SavepointWriter, TimerEntry

if TYPE_CHECKING:
    from pathlib import Path

# -------------------------------------------------------------------------------------------------------- from nothing


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_job_starts_with_bootstrapped_state_at_any_parallelism(tmp_path: Path, parallelism: int) -> None:
    writer = SavepointWriter.new(parallelism=parallelism)
    writer.set_keyed_state("totals", "total", {("even", 0): 10**9, ("odd", 1): 2 * 10**9})
    writer.set_timers("totals", [(("even", 0), 10), (("odd", 1), 11)])
    # Overdue, and one of a key without state.
    writer.set_timers("totals", [(("even", 0), 5), (("none", 2), -3)], TimeDomain.PROCESSING_TIME)
    writer.set_list_state("waiting", "own", [101, 102, 103]).set_union_list_state("waiting", "shared", [201, 202])
    seen = started(writer.write(str(tmp_path / "s")), tmp_path)

    last = last_totals(seen)
    assert last == {
        ("even", 0): 10**9 + sum(range(0, NUMBERS, 2)),
        ("odd", 1): 2 * 10**9 + sum(range(1, NUMBERS, 2)),
    }
    fired = [item for item in seen if item[0] == "timer"]
    assert {("timer", ("even", 0), 10), ("timer", ("odd", 1), 11)} <= set(fired)
    assert sorted(item[1:] for item in fired if item[2] in (5, -3)) == [(("even", 0), 5), (("none", 2), -3)]
    first = [item for item in seen if item[0] == "lists"][:2]
    assert sorted(own for item in first for own in item[1]) == [101, 102, 103]
    assert all(item[2] == [201, 202] for item in first)


def test_broadcast_state_is_with_every_subtask(tmp_path: Path) -> None:
    path = SavepointWriter.new().set_broadcast_state("limits", "limits", {1: 10, 2: 20}).write(str(tmp_path / "s"))
    assert [(entry.key, entry.value) for entry in Savepoint.open(path).broadcast_state("limits", "limits")] == [
        (1, 10),
        (2, 20),
    ]
    env = environment(2, recover=path)
    never = WatermarkStrategy.no_watermarks()
    numbers = env.from_source(NumberSequenceSource(0, 9), never, "numbers").key_by(lambda value: value)
    limits = env.from_source(NumberSequenceSource(5, 5), never, "limits").broadcast(jobs.LIMITS)
    numbers.connect(limits).process(jobs.Limits()).uid("limits").print()
    run(env, tmp_path)
    assert len(jobs.SEEN) == 10
    assert all(item[1].items() >= {1: 10, 2: 20}.items() for item in jobs.SEEN)


def test_windows_can_be_bootstrapped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries = [KeyedEntry(number, 10**12, (0, 10**9)) for number in range(3)]
    writer = SavepointWriter.new().set_keyed_state("windows", "window-contents", entries, kind="window-reduce")
    started(writer.write(str(tmp_path / "s")), tmp_path)
    printed = [int(line.rpartition("> ")[2]) for line in capsys.readouterr().out.splitlines()]
    assert sorted(number for number in printed if number > 10**11) == sorted(
        10**12 + sum(range(remainder, NUMBERS, 3)) for remainder in range(3)
    )


def test_max_parallelism_that_differs_is_named_at_the_start(tmp_path: Path) -> None:
    path = SavepointWriter.new(max_parallelism=64).set_keyed_state("totals", "total", {1: 1}).write(str(tmp_path / "s"))
    with pytest.raises(RestoreError, match=r"128.*64"):
        started(path, tmp_path, max_parallelism="128")


@pytest.mark.parametrize(
    "frame",
    [
        lambda table: table,
        lambda table: table.to_reader(),
        lambda table: table.to_batches()[0],
        lambda table: iter(table.to_batches()),
        lambda table: table.to_pandas(),
    ],
    ids=["table", "reader", "batch", "batches", "pandas"],
)
def test_entries_come_from_any_data_frame(tmp_path: Path, frame: Any) -> None:
    table = pa.table({"name": ["a", "b"], "year": [1, 2], "sum": [1.5, 2.5]})
    writer = SavepointWriter.new().set_keyed_state("op", "state", frame(table), key=["name", "year"], value="sum")
    writer.set_keyed_state("op", "rows", frame(table), key="name", value=lambda row: row)
    path = writer.write(str(tmp_path / "s"))
    assert contents(path) == {("a", 1): 1.5, ("b", 2): 2.5}
    assert contents(path, name="rows")["a"] == {"name": "a", "year": 1, "sum": 1.5}


def test_what_was_read_as_a_data_frame_can_be_written_again(existing: str, tmp_path: Path) -> None:
    found = Savepoint.open(existing)
    writer = SavepointWriter.new()
    writer.set_keyed_state("totals", "total", found.keyed_state("totals", "total").to_arrow())
    writer.set_keyed_state("windows", "window-contents", found.windows("windows").to_pandas(), kind="window-reduce")
    path = writer.write(str(tmp_path / "s"))
    assert contents(path, "totals", "total") == contents(existing, "totals", "total")
    assert set(Savepoint.open(path).windows("windows")) == set(found.windows("windows"))


@pytest.mark.parametrize("settle", [1, 2, 1 << 17])
def test_last_entry_of_a_key_counts_and_none_or_absent_removes_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settle: int
) -> None:
    monkeypatch.setattr(writing, "_SETTLE_ENTRIES", settle)
    pairs = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("a", 2), (1, "int"), (True, "bool"), ("b", None), ("c", ABSENT)]
    pairs += [("d", None), ("d", 3), ("e", None)]
    writer = SavepointWriter.new(parallelism=2).set_keyed_state("op", "state", pairs)
    assert contents(writer.write(str(tmp_path / "s"))) == {"a": 2, 1: "bool", "d": 3}


@pytest.mark.parametrize("kind", ["value", "list", "window-elements"])
@pytest.mark.parametrize("nothing", [None, ABSENT])
def test_key_is_removed_by_none_where_none_is_no_value(tmp_path: Path, kind: str, nothing: Any) -> None:
    entries = [KeyedEntry("a", [1], (0, 10)), KeyedEntry("b", [2], (0, 10)), KeyedEntry("b", nothing, (0, 10))]
    writer = SavepointWriter.new().set_keyed_state("op", "state", entries, kind=kind)
    assert contents(writer.write(str(tmp_path / "1"))) == {"a": [1]}
    writer.transform_keyed_state("op", "state", lambda *_: nothing)
    with pytest.raises(UnknownStateError):
        contents(writer.write(str(tmp_path / "2")))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("reduce", "value"), ("window-contents", "window-reduce"), ("window-contents", "window-aggregate")],
)
def test_none_of_a_reduce_or_an_accumulator_is_a_value_that_any_rewrite_keeps(
    tmp_path: Path, name: str, kind: str
) -> None:
    window = () if name == "reduce" else (0, 10)
    entries = [KeyedEntry("a", None, window), KeyedEntry("b", 1, window), KeyedEntry("c", 1, window)]
    entries += [KeyedEntry("b", None, window), KeyedEntry("c", ABSENT, window)]
    first = SavepointWriter.new().set_keyed_state("op", name, entries, kind=kind).write(str(tmp_path / "1"))
    assert contents(first, name=name) == {"a": None, "b": None}
    another = SavepointWriter.from_existing(first).set_keyed_state("op", "other", {"q": 1})
    assert contents(another.write(str(tmp_path / "2")), name=name) == {"a": None, "b": None}
    same = SavepointWriter.from_existing(first).transform_keyed_state("op", name, lambda _, value: value)
    assert contents(same.write(str(tmp_path / "3")), name=name) == {"a": None, "b": None}
    fewer = SavepointWriter.from_existing(first)
    fewer.transform_keyed_state("op", name, lambda key, value: ABSENT if key == "a" else value)
    assert contents(fewer.write(str(tmp_path / "4")), name=name) == {"b": None}


def test_transformation_sees_no_key_that_was_removed_before_it(tmp_path: Path) -> None:
    seen: list[Any] = []
    writer = SavepointWriter.new().set_keyed_state("op", "state", [("a", 1), ("b", None), ("c", ABSENT)])
    writer.transform_keyed_state("op", "state", lambda key, value: seen.append((key, value)))
    writer.transform_keyed_state("op", "state", lambda key, value: seen.append((key, value)))
    writer.write(str(tmp_path / "s"))
    assert seen == [("a", 1)]


def test_more_entries_than_memory_takes_go_through_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_SETTLE_ENTRIES", 500)
    monkeypatch.setattr(writing, "MEMORY_BYTES", 100_000)
    entries = [((number % 5_000, "x"), number) for number in range(20_000)]
    writer = SavepointWriter.new(parallelism=2).set_keyed_state("op", "state", iter(entries))
    writer.set_timers("op", ((number, number) for number in range(3_000)))
    path = writer.write(str(tmp_path / "s"))
    assert contents(path) == dict(entries)
    assert sorted((timer.key, timer.timestamp) for timer in Savepoint.open(path).timers("op")) == [
        (number, number) for number in range(3_000)
    ]


# ------------------------------------------------------------------------------------------------------- from another


def test_untouched_copy_goes_on_as_the_savepoint_itself(existing: str, tmp_path: Path) -> None:
    copy = SavepointWriter.from_existing(existing).write(str(tmp_path / "copy"))
    assert Savepoint.open(copy).verify().damaged == ()
    assert Savepoint.open(copy).operators == Savepoint.open(existing).operators
    assert last_totals(started(copy, tmp_path / "a")) == last_totals(started(existing, tmp_path / "b"))


def kind_of(path: str, uid: str = "totals") -> str:
    return Savepoint.open(path).operator(uid).keyed_states[-1].kind


def test_transformed_values_of_another_type_leave_the_state_without_one(existing: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing(existing)
    path = writer.transform_keyed_state("totals", "total", lambda _, value: str(value)).write(str(tmp_path / "s"))
    assert kind_of(path) == "value"


def test_transformed_values_are_held_to_a_type_that_is_given(existing: str, tmp_path: Path) -> None:
    def changed(function: Any, place: str) -> str:
        writer = SavepointWriter.from_existing(existing)
        writer.transform_keyed_state("totals", "total", function, type_info=Types.DOUBLE())
        return writer.write(str(tmp_path / place))

    path = changed(lambda _, value: value, "good")
    assert kind_of(path) == "value[float]"
    assert {type(value) for value in contents(path, "totals", "total").values()} == {float}
    with pytest.raises(
        DeclaredTypeError, match=r"State 'total' of 'totals' is declared as Double, and '\d+' is no num"
    ):
        changed(lambda _, value: str(value), "bad")


def test_a_new_state_keeps_the_type_that_it_is_given(tmp_path: Path) -> None:
    def new(value: Any, place: str) -> str:
        writer = SavepointWriter.new().set_keyed_state("op", "state", {"a": value}, type_info=Types.INT())
        return writer.write(str(tmp_path / place))

    path = new(np.int64(1), "good")
    assert kind_of(path, "op") == "value[int]"
    assert repr(contents(path)) == "{'a': 1}"
    with pytest.raises(DeclaredTypeError, match="'state' of 'op' is declared as Integer, and 'text' is no integer"):
        new("text", "bad")


def test_the_keys_of_a_map_are_held_to_the_type_that_it_is_given(tmp_path: Path) -> None:
    def new(map_key: Any, kind: Any, place: str) -> str:
        writer = SavepointWriter.new().set_keyed_state(
            "op", "state", {"a": {map_key: "x"}}, kind="map", type_info=Types.MAP(kind, Types.STRING())
        )
        return writer.write(str(tmp_path / place))

    assert list(contents(new(1, Types.INT(), "good")).values()) == ["x"]
    for key, kind, reason in (
        ("1", Types.INT(), "'1' is no integer"),
        (True, Types.INT(), "True is no integer"),
        (0.1, Types.FLOAT(), "0.1 would become another key, 0.10000000149011612"),
    ):
        with pytest.raises(DeclaredTypeError, match=f"A key of state 'state' of 'op' .*{reason}"):
            new(key, kind, "bad")


@pytest.mark.parametrize("parallelism", [2, 3])
def test_transformed_values_are_what_the_job_goes_on_with(existing: str, tmp_path: Path, parallelism: int) -> None:
    writer = SavepointWriter.from_existing(existing)
    writer.transform_keyed_state("totals", "total", lambda key, value: value + 10**9 if key[0] == "even" else None)
    writer.transform_keyed_state("totals", "total", lambda _, value: value + 10**9)
    path = writer.write(str(tmp_path / "s"))
    before = contents(existing, "totals", "total")
    assert contents(path, "totals", "total") == {("even", 0): before["even", 0] + 2 * 10**9}
    kinds = [Savepoint.open(place).operator("totals").keyed_states[-1].kind for place in (existing, path)]
    assert kinds == ["value[int]", "value[int]"]
    assert Counter(Savepoint.open(path).timers("totals")) == Counter(Savepoint.open(existing).timers("totals"))
    seen = started(path, tmp_path, parallelism)
    last = last_totals(seen)
    assert last["even", 0] == sum(range(0, NUMBERS, 2)) + 2 * 10**9
    assert last["odd", 1] == sum(range(1, NUMBERS, 2)) - before["odd", 1]


def test_error_in_a_transformation_says_where_and_leaves_nothing(existing: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing(existing)
    writer.transform_keyed_state("totals", "total", lambda key, _: 1 // (key[1] - 1))
    with pytest.raises(ZeroDivisionError) as caught:
        writer.write(str(tmp_path / "s"))
    assert caught.value.__notes__ == ["while state 'total' of key ('odd', 1) was transformed"]
    assert list(tmp_path.rglob("*")) in ([], [tmp_path / "s"])


def test_dropped_operator_starts_afresh_and_others_go_on(existing: str, tmp_path: Path) -> None:
    path = SavepointWriter.from_existing(existing).drop_operator("totals").write(str(tmp_path / "s"))
    assert "totals" not in {operator.uid for operator in Savepoint.open(path).operators}
    seen = started(path, tmp_path)
    last = last_totals(seen)
    before = contents(existing, "totals", "total")
    assert last["even", 0] == sum(range(0, NUMBERS, 2)) - before["even", 0]


def test_changed_uid_takes_the_state_along(existing: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing(existing).change_uid("totals", "other")
    path = writer.transform_keyed_state("other", "total", lambda _, value: -value).write(str(tmp_path / "s"))
    before = contents(existing, "totals", "total")
    assert contents(path, "other", "total") == {key: -value for key, value in before.items()}
    with pytest.raises(UnclaimedStateError, match="'other'"):
        started(path, tmp_path)


def test_dropped_and_replaced_states(existing: str, tmp_path: Path) -> None:
    writer = SavepointWriter.from_existing(existing)
    writer.drop_state("totals", "total").drop_state("waiting", "own")
    writer.set_union_list_state("waiting", "shared", [7]).set_timers("totals", [TimerEntry(("even", 0), 99)])
    writer.set_timers("totals", [(("odd", 1), 5)], TimeDomain.PROCESSING_TIME)
    writer.set_keyed_state("totals", "extra", {"k": 1}).transform_keyed_state("totals", "extra", lambda _, v: v + 1)
    found = Savepoint.open(writer.write(str(tmp_path / "s")))
    assert {state.name for state in found.operator("totals").keyed_states} == {
        *("event-time", "processing-time", "extra"),
    }
    assert [item.value for item in found.list_state("waiting", "shared")] == [7]
    assert [state.name for state in found.operator("waiting").operator_states] == ["shared"]
    assert list(found.timers("totals")) == [TimerEntry(("even", 0), 99)]
    assert contents(found.path, "totals", "extra") == {"k": 2}
    assert list(found.source_splits("numbers")) == list(Savepoint.open(existing).source_splits("numbers"))


def test_operator_state_that_is_set_to_what_it_was_is_there_again(tmp_path: Path) -> None:
    first = SavepointWriter.new().set_list_state("op", "list", [1, 2]).write(str(tmp_path / "1"))
    writer = SavepointWriter.from_existing(first).set_list_state("op", "list", [1, 2])
    found = Savepoint.open(writer.write(str(tmp_path / "2")))
    assert found.verify().damaged == ()
    assert [item.value for item in found.list_state("op", "list")] == [1, 2]
