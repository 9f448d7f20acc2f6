"""What the writer refuses, and what of iterators and objects it may use twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from tests.kit.lost_answers import lose_first_answers
from tests.unit.savepoint_package.written import contents

from penstock.errors import (
    ConfigurationError,
    CorruptCheckpointError,
    KeyEncodingError,
    SavepointChangeError,
    UnknownStateError,
    UnpicklableStateError,
)
from penstock.savepoint import KeyedEntry, Savepoint, SavepointWriter, TimerEntry

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def test_a_write_whose_first_answer_was_lost_is_no_conflict_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_first_answers(monkeypatch, "_metadata")
    writer = SavepointWriter.new().set_keyed_state("op", "state", {1: 10})
    assert contents(writer.write(str(tmp_path / "s"))) == {1: 10}


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
