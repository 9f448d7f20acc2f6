"""Savepoints from nothing and from others, and jobs that start from them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from tests.unit.savepoints import jobs
from tests.unit.savepoints.jobs import environment, run, savepoint_of, totals

from penstock._engine.savepoints import writing
from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.time_domain import TimeDomain
from penstock.errors import (
    ConfigurationError,
    CorruptCheckpointError,
    DeclaredTypeError,
    KeyEncodingError,
    RestoreError,
    SavepointChangeError,
    UnclaimedStateError,
    UnknownStateError,
    UnpicklableStateError,
)
from penstock.savepoint import ABSENT, KeyedEntry, Savepoint, SavepointWriter, TimerEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = 20_000


def contents(path: str, uid: str = "op", name: str = "state") -> dict[Any, Any]:
    return {entry.key: entry.value for entry in Savepoint.open(path).keyed_state(uid, name)}


def started(path: str, place: Path, parallelism: int = 2, **settings: str) -> list[Any]:
    """Start the job of `totals` over all its numbers from a savepoint; return what its functions saw."""
    env = environment(parallelism, recover=path, checkpoints=str(place / "after"), **settings)
    totals(env, NUMBERS)
    run(env, place)
    return list(jobs.SEEN)


def last_totals(seen: list[Any]) -> dict[Any, Any]:
    return dict(item for item in seen if len(item) == 2)


@pytest.fixture(scope="module")
def existing(tmp_path_factory: pytest.TempPathFactory) -> str:
    return savepoint_of(tmp_path_factory.mktemp("existing"), numbers=NUMBERS, inline="0 b")


# -------------------------------------------------------------------------------------------------------- from nothing


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_job_starts_with_bootstrapped_state_at_any_parallelism(tmp_path: Path, parallelism: int) -> None:
    writer = SavepointWriter.new(parallelism=parallelism)
    writer.set_keyed_state("totals", "total", {("even", 0): 10**9, ("odd", 1): 2 * 10**9})
    writer.set_timers("totals", [(("even", 0), 10), (("odd", 1), 11)])
    writer.set_list_state("waiting", "own", [101, 102, 103]).set_union_list_state("waiting", "shared", [201, 202])
    seen = started(writer.write(str(tmp_path / "s")), tmp_path)

    last = last_totals(seen)
    assert last == {
        ("even", 0): 10**9 + sum(range(0, NUMBERS, 2)),
        ("odd", 1): 2 * 10**9 + sum(range(1, NUMBERS, 2)),
    }
    fired = [item for item in seen if item[0] == "timer"]
    assert {("timer", ("even", 0), 10), ("timer", ("odd", 1), 11)} <= set(fired)
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
    with pytest.raises(DeclaredTypeError, match=r"State 'total' of 'totals' is declared as Double, and '\d+' does not"):
        changed(lambda _, value: str(value), "bad")


def test_a_new_state_keeps_the_type_that_it_is_given(tmp_path: Path) -> None:
    def new(value: Any, place: str) -> str:
        writer = SavepointWriter.new().set_keyed_state("op", "state", {"a": value}, type_info=Types.INT())
        return writer.write(str(tmp_path / place))

    path = new(True, "good")
    assert kind_of(path, "op") == "value[int]"
    assert repr(contents(path)) == "{'a': 1}"
    with pytest.raises(DeclaredTypeError, match="'state' of 'op' is declared as Integer, and 'text' does not"):
        new("text", "bad")


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


# ------------------------------------------------------------------------------------------------------------ refusals


def test_what_is_not_there_cannot_be_changed(existing: str) -> None:
    writer = SavepointWriter.from_existing(existing)
    for call, known in (
        (lambda: writer.transform_keyed_state("totals", "sum", max), "'total'"),
        (lambda: writer.transform_keyed_state("total", "sum", max), "'totals'"),
        (lambda: writer.drop_state("waiting", "total"), "'own', 'shared'"),
        (lambda: writer.drop_state("waiting", "own").drop_state("waiting", "own"), "'shared'"),
        (lambda: writer.drop_operator("nobody"), "'numbers'"),
        (lambda: writer.change_uid("nobody", "somebody"), "'numbers'"),
    ):
        with pytest.raises(UnknownStateError) as caught:
            call()
        assert known in str(caught.value)
    with pytest.raises(SavepointChangeError, match="'windows' already"):
        writer.change_uid("totals", "windows")


def test_directory_with_something_in_it_is_refused(existing: str, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    for path in (existing, str(tmp_path)):
        with pytest.raises(SavepointChangeError, match="files already"):
            SavepointWriter.new().set_keyed_state("op", "state", {1: 1}).write(path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_failed_write_leaves_no_files(tmp_path: Path) -> None:
    def entries() -> Iterator[tuple[Any, Any]]:
        yield "a", 1
        yield ["b"], 2

    writer = SavepointWriter.new().set_list_state("first", "items", [1])
    with pytest.raises(KeyEncodingError):
        writer.set_keyed_state("second", "state", entries()).write(str(tmp_path / "s"))
    with pytest.raises(UnpicklableStateError, match="'state'"):
        SavepointWriter.new().set_keyed_state("op", "state", {1: (x for x in "")}).write(str(tmp_path / "s"))
    assert list(tmp_path.rglob("*-*")) == []


def everything(path: str) -> Any:
    found = Savepoint.open(path)
    return (
        contents(path),
        sorted((timer.key, timer.timestamp) for timer in found.timers("op")),
        [item.value for item in found.list_state("op", "list")],
        [(entry.key, entry.value) for entry in found.broadcast_state("op", "map")],
    )


def filled(writer: SavepointWriter, entries: Any) -> SavepointWriter:
    writer.set_keyed_state("op", "state", entries).transform_keyed_state("op", "state", lambda _, value: value * 2)
    writer.set_timers("op", [("a", 5), ("b", 6)]).set_list_state("op", "list", iter([1, 2]))
    return writer.set_broadcast_state("op", "map", iter([("x", 1)]))


@pytest.mark.parametrize(
    "entries",
    [
        {"a": 1, "b": 2},
        [("a", 1), ("b", 2)],
        [KeyedEntry("a", 1), KeyedEntry("b", 2)],
        pa.table({"key": ["a", "b"], "value": [1, 2]}),
        pa.table({"key": ["a", "b"], "value": [1, 2]}).to_batches(),
        pd.DataFrame({"key": ["a", "b"], "value": [1, 2]}),
    ],
    ids=["dict", "pairs", "entries", "table", "batches", "pandas"],
)
def test_writing_twice_writes_the_same(tmp_path: Path, entries: Any) -> None:
    writer = filled(SavepointWriter.new(), entries)
    first, second = (writer.write(str(tmp_path / name)) for name in "12")
    assert everything(first) == everything(second)
    assert everything(second) == ({"a": 2, "b": 4}, [("a", 5), ("b", 6)], [1, 2], [("x", 1)])


class OneCursor:
    """An iterable that has one iterator, as cursors of databases have."""

    def __init__(self, items: list[Any]) -> None:
        self._cursor = iter(items)

    def __iter__(self) -> Any:
        return self._cursor


class Drained(OneCursor):
    """The same, but each time in a generator that does not tell."""

    def __iter__(self) -> Any:
        return (item for item in self._cursor)


@pytest.mark.parametrize(
    "given",
    [
        iter,
        lambda items: (item for item in items),
        lambda items: pa.table({"key": [key for key, _ in items], "value": [1, 2]}).to_reader(),
        OneCursor,
        Drained,
    ],
    ids=["iterator", "generator", "reader", "cursor", "drained"],
)
def test_iterator_that_a_write_has_read_is_refused_by_the_next_until_the_state_is_set_again(
    tmp_path: Path, given: Any
) -> None:
    pairs = [("a", 1), ("b", 2)]
    writer = filled(SavepointWriter.new(), given(pairs))
    first = writer.write(str(tmp_path / "1"))
    with pytest.raises(SavepointChangeError, match=r"state 'state' of operator 'op'.*an earlier write has read"):
        writer.write(str(tmp_path / "2"))
    assert list(tmp_path.glob("2/*")) == []
    assert everything(filled(writer, given(pairs)).write(str(tmp_path / "2"))) == everything(first)


def test_timers_from_an_iterator_are_refused_by_the_second_write(tmp_path: Path) -> None:
    writer = SavepointWriter.new().set_timers("op", iter([("a", 5)]))
    writer.write(str(tmp_path / "1"))
    with pytest.raises(SavepointChangeError, match="event-time timers of operator 'op'"):
        writer.write(str(tmp_path / "2"))


def test_write_that_is_refused_before_it_begins_has_read_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    writer = SavepointWriter.new().set_keyed_state("op", "state", iter([("a", 1)])).set_timers("op", iter([("a", 5)]))
    with pytest.raises(SavepointChangeError, match="files already"):
        writer.write(str(tmp_path))
    assert contents(writer.write(str(tmp_path / "s"))) == {"a": 1}


@pytest.mark.parametrize("of_a_job", [False, True], ids=["new", "existing"])
def test_write_after_an_error_writes_everything(existing: str, tmp_path: Path, of_a_job: bool) -> None:
    writer = SavepointWriter.from_existing(existing) if of_a_job else SavepointWriter.new()
    uid, name = ("totals", "total") if of_a_job else ("op", "state")
    if not of_a_job:
        writer.set_keyed_state(uid, name, {("even", 0): 4, ("odd", 1): 5})
    errors = [ZeroDivisionError()]

    def once(key: Any, value: int) -> int:
        if key == ("odd", 1) and errors:
            raise errors.pop()
        return value + 1

    writer.set_timers(uid, [(("even", 0), 9)]).transform_keyed_state(uid, name, once)
    place = str(tmp_path / "s")
    with pytest.raises(ZeroDivisionError):
        writer.write(place)
    assert list(tmp_path.rglob("*-*")) == []
    before = contents(existing, "totals", "total") if of_a_job else {("even", 0): 4, ("odd", 1): 5}
    assert contents(writer.write(place), uid, name) == {key: value + 1 for key, value in before.items()}
    assert list(Savepoint.open(place).timers(uid)) == [TimerEntry(("even", 0), 9)]


def test_missing_file_of_the_first_savepoint_is_named(tmp_path: Path) -> None:
    first = SavepointWriter.new().set_keyed_state("op", "state", {1: 1}).write(str(tmp_path / "first"))
    next(Path(first).glob("op-*")).rename(tmp_path / "moved")
    with pytest.raises(CorruptCheckpointError, match="op-0-1"):
        SavepointWriter.from_existing(first)


def test_arguments_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="129"):
        SavepointWriter.new(parallelism=129)
    with pytest.raises(TypeError, match="pairs of key and value"):
        SavepointWriter.new().set_keyed_state("op", "state", ["abc"]).write(str(tmp_path / "s"))


def test_numbers_of_pandas_are_pythons_own(tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": [1, 2], "value": [1, 2]})
    path = SavepointWriter.new().set_keyed_state("op", "state", frame).write(str(tmp_path / "s"))
    assert {type(value) for pair in contents(path).items() for value in pair} == {int}


def test_iterator_that_a_failed_write_has_begun_is_refused_and_its_rest_not_written(tmp_path: Path) -> None:
    writer = SavepointWriter.new().set_keyed_state("op", "state", iter([(["no key"], 1), ("b", 2)]))
    with pytest.raises(KeyEncodingError):
        writer.write(str(tmp_path / "s"))
    with pytest.raises(SavepointChangeError, match="an earlier write has read"):
        writer.write(str(tmp_path / "s"))


def test_function_that_changes_what_it_gets_changes_nothing_that_is_written_once_more(tmp_path: Path) -> None:
    def longer(_: str, value: list[int]) -> list[int]:
        value.append(2)
        return value

    writer = SavepointWriter.new().set_keyed_state("op", "numbers", {"a": [1]})
    writer.transform_keyed_state("op", "numbers", longer)
    written = [Savepoint.open(writer.write(str(tmp_path / place))) for place in ("first", "second")]
    assert [[entry.value for entry in one.keyed_state("op", "numbers")] for one in written] == [[[1, 2]]] * 2


def test_one_object_that_is_given_again_and_again_is_another_value_each_time(tmp_path: Path) -> None:
    row: dict[str, int] = {}

    def reused(number: int) -> dict[str, int]:
        row["number"] = number
        return row

    writer = SavepointWriter.new().set_keyed_state("op", "given", ((number, reused(number)) for number in range(3)))
    writer.set_keyed_state("op", "made", {0: 0, 1: 1, 2: 2})
    writer.transform_keyed_state("op", "made", lambda key, _: reused(key))
    writer.set_list_state("op", "list", (reused(number) for number in range(3)))
    writer.set_broadcast_state("op", "map", ((number, reused(number)) for number in range(3)))
    found = Savepoint.open(writer.write(str(tmp_path / "s")))
    wanted = {number: {"number": number} for number in range(3)}
    for name in ("given", "made"):
        assert {entry.key: entry.value for entry in found.keyed_state("op", name)} == wanted
    assert [item.value for item in found.list_state("op", "list")] == list(wanted.values())
    assert {entry.key: entry.value for entry in found.broadcast_state("op", "map")} == wanted
