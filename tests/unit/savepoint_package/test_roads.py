"""Whatever is read from a savepoint and written again, by every road, is what it was: jobs go on from it alike."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.kit.cells import cells
from tests.unit.savepoint_package import roads
from tests.unit.savepoint_package.roads import KEYS, ROADS, Colour, Pair, Point
from tests.unit.savepoints.jobs import environment, run

from penstock._engine.protocol.keys import normal_key
from penstock._engine.state.files.trust import ALL_CLASSES
from penstock.common import Row, Types
from penstock.common.types import RowKind
from penstock.datastream.time_domain import TimeDomain
from penstock.errors import SavepointChangeError, UnsupportedOperationError
from penstock.savepoint import KeyedEntry, ListItem, Savepoint, SavepointWriter
from penstock.savepoint._plain import plain, restored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KINDS = [
    *("value", "list", "map", "reducing", "aggregating"),
    *("event-timers", "reduce", "window-reduce", "window-aggregate", "window-elements"),
    *("operator-list", "union-list", "broadcast"),
]
STATES = [
    *("values/first", "values/total", "values/some", "values/places", "values/last", "values/sums"),
    *("EVENT_TIME", "PROCESSING_TIME", "reduced/reduce"),
    *("windowed/window-contents", "aggregate/window-contents", "elements/window-contents", "elements/window-fired"),
    *("own", "shared", "limits"),
]


class UserId(str):
    """A text with a class of its own."""

    __slots__ = ()


class Seconds(int):
    def __new__(cls, minutes: int, *, of: int = 60) -> Seconds:
        return super().__new__(cls, minutes * of)

    def __getnewargs_ex__(self) -> tuple[tuple[int], dict[str, int]]:
        return (int(self),), {"of": 1}


class Metres(float): ...


class Token(bytes): ...


class Words(list[Any]): ...


@dataclass
class Noted:
    number: int

    @cached_property
    def doubled(self) -> int:
        return 2 * self.number


class Story:
    """A job that was stopped, and what comes of it when it goes on."""

    def __init__(self, place: Path) -> None:
        self._place = place
        env = environment(2, checkpoints=str(place / "checkpoints"))
        roads.program(env)
        path = run(env, place, stop_in=1)[1]
        assert path is not None
        self.path = path
        self._seen: dict[str, dict[tuple[str, str], list[str]]] = {}
        self._stored: dict[str, dict[tuple[str, str], list[str]]] = {}

    @cached_property
    def original(self) -> dict[tuple[str, str], list[str]]:
        """What functions see when the job goes on from its own savepoint."""
        return self._goes_on(self.path, "original")

    @cached_property
    def held(self) -> dict[tuple[str, str], list[str]]:
        """What the job's own savepoint holds."""
        return roads.stored(self.path)

    def rewritten(self, road: str) -> str:
        target = self._place / "rewritten" / road
        return str(target) if target.exists() else roads.rewritten(self.path, str(target), ROADS[road])

    def stored(self, road: str) -> dict[tuple[str, str], list[str]]:
        if road not in self._stored:
            self._stored[road] = roads.stored(self.rewritten(road))
        return self._stored[road]

    def seen(self, road: str) -> dict[tuple[str, str], list[str]]:
        if road not in self._seen:
            self._seen[road] = self._goes_on(self.rewritten(road), road)
        return self._seen[road]

    def _goes_on(self, path: str, name: str) -> dict[tuple[str, str], list[str]]:
        # With more subtasks than before: watermarks start fresh, so windows that have fired must know it.
        env = environment(3, recover=path, checkpoints=str(self._place / "after" / name))
        roads.program(env)
        run(env, self._place)
        return roads.observed()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("story"))


def test_the_job_was_stopped_amid_its_records_with_every_kind_of_state(story: Story) -> None:
    [split] = [split.split for split in Savepoint.open(story.path, classes=None).source_splits("numbers")]
    assert len(KEYS) < roads.WINDOW < split.next < roads.NUMBERS
    assert {(state, name) for state, name in story.held} == {(state, name) for state in STATES for name in KEYS}
    assert set(story.original) == {(kind, name) for kind in KINDS for name in KEYS}


@cells("key", list(KEYS))
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("road", ROADS)
def test_what_was_read_and_written_again_is_what_it_was(story: Story, road: str, state: str, key: str) -> None:
    assert story.stored(road).get((state, key)) == story.held[state, key]


@cells("key", list(KEYS))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("road", ROADS)
def test_job_goes_on_from_what_was_written_again_as_from_its_own_savepoint(
    story: Story, road: str, kind: str, key: str
) -> None:
    assert story.seen(road).get((kind, key)) == story.original[kind, key]


@cells("key", list(KEYS))
def test_key_is_the_same_behind_a_pandas_frame_made_of_arrow(tmp_path: Path, key: str) -> None:
    first = SavepointWriter.new(classes=None).set_keyed_state("op", "state", {KEYS[key]: 1}).write(str(tmp_path / "1"))
    frame = Savepoint.open(first, classes=None).keyed_state("op", "state").to_arrow().to_pandas()
    writer = SavepointWriter.new(classes=None).set_keyed_state("op", "state", frame)
    [entry] = Savepoint.open(writer.write(str(tmp_path / "2")), classes=None).keyed_state("op", "state")
    assert normal_key(entry.key) == normal_key(KEYS[key])


@pytest.mark.parametrize(
    "values",
    [
        [{"a": 1}, {"b": 2}, {}],
        [{"a": 1}, {"a": 1, "b": None}],
        [(1, 2), (1, 2, 3), ()],
        [{"a": [{"b": 1}]}, {"a": [{"c": 1}]}],
        [{"_1": 1, "_2": 2}],
        [{"_python": "UUID"}],
        [{("a", 1): {2: 3}}, {}],
        [Counter("ab"), OrderedDict(b=1, a=2)],
        [{1, 2}, set()],
        [[[1], [2]], []],
        [float("inf"), 1.5, -0.0],
        [float("nan"), 1.5],
        [1, 2.5, True, 1 << 70, float("nan")],
        [[1, 2.5], [0.5]],
        [(1, "a"), (1.5, "b")],
        [{"a": np.array([1.5])}],
        [Row(a=1), Row(b=2), Row(1, 2), Row.of_kind(RowKind.DELETE, a=1)],
        [Pair(1, "a"), Point(2, ("b",), "note")],
        [np.array([[1.5, 2], [3, 4]])],
        [UserId("x"), UserId("y")],
        [Seconds(3)],
        [Seconds(1 << 70)],
        [Metres(1.5)],
        [Token(b"x"), bytearray(b"x")],
        [Words(["a", "b"]), Words()],
        [{"buffer": bytearray(b"x"), "user": UserId("x")}],
        [Decimal("1.0"), Decimal("1.00"), Decimal("1E+3"), Decimal("NaN")],
        [(Decimal(1), 2), (Decimal("1.50"), 2)],
        [{"a": {"_1": 1}}],
        [[{"_python": None}]],
    ],
    ids=str,
)
@pytest.mark.parametrize("road", ["arrow", "pandas"])
def test_values_of_one_column_come_back_each_as_it_was(tmp_path: Path, values: list[Any], road: str) -> None:
    first = (
        SavepointWriter.new(classes=None)
        .set_keyed_state("op", "state", dict(enumerate(values)))
        .write(str(tmp_path / "1"))
    )
    rows = Savepoint.open(first, classes=None).keyed_state("op", "state")
    frame = rows.to_pandas() if road == "pandas" else rows.to_arrow()
    writer = SavepointWriter.new(classes=None).set_keyed_state("op", "state", frame)
    found = list(Savepoint.open(writer.write(str(tmp_path / "2")), classes=None).keyed_state("op", "state"))
    assert {entry.key: repr(entry.value) for entry in found} == dict(enumerate(map(repr, values)))
    assert {entry.key: type(entry.value) for entry in found} == dict(enumerate(map(type, values)))


#: Values whose column Arrow and pandas change when they make a frame of it, with the type that says what they were.
CHANGED = {
    "lists": ([[1, 2], [3]], Types.LIST(Types.LONG()), "arrays of NumPy's"),
    "lists in dicts": ([{"a": ["x"]}, {"a": []}], Types.MAP(Types.STRING(), Types.LIST(Types.STRING())), "arrays"),
    "ints": ([1, None, 3], Types.LONG(), "where one is missing"),
    "floats": ([1.5, float("nan")], Types.DOUBLE(), "where one is missing"),
}


@pytest.mark.parametrize("way", ["untyped", "typed here", "typed there", "function"])
@pytest.mark.parametrize("case", CHANGED)
def test_what_arrow_changes_on_its_way_to_pandas_is_taken_back_by_its_type_or_refused(
    tmp_path: Path, case: str, way: str
) -> None:
    values, type_info, reason = CHANGED[case]
    entries = dict(enumerate(values))
    typed = type_info if way == "typed there" else None
    # A reduce, of which None is a value.
    writer = SavepointWriter.new(classes=None).set_keyed_state(
        "op", "state", entries, kind="window-aggregate", type_info=typed
    )
    first = writer.write(str(tmp_path / "1"))
    frame = Savepoint.open(first, classes=None).keyed_state("op", "state").to_arrow().to_pandas()
    again = SavepointWriter.from_existing(first, classes=None)
    if way == "function":
        again.set_keyed_state("op", "state", frame, value=lambda row: values[row["key"]])
    else:
        again.set_keyed_state("op", "state", frame, type_info=type_info if way == "typed here" else None)
    if way == "untyped":
        with pytest.raises(UnsupportedOperationError, match=f"column 'value': .*{reason}"):
            again.write(str(tmp_path / "2"))
        return
    found = Savepoint.open(again.write(str(tmp_path / "2")), classes=None).keyed_state("op", "state")
    assert {entry.key: repr(entry.value) for entry in found} == dict(enumerate(map(repr, values)))


def test_elements_of_a_list_state_are_a_list_behind_pandas_too(tmp_path: Path) -> None:
    writer = SavepointWriter.new(classes=None).set_keyed_state("op", "state", {1: ["a", "b"], 2: []}, kind="list")
    first = writer.write(str(tmp_path / "1"))
    frame = Savepoint.open(first, classes=None).keyed_state("op", "state").to_arrow().to_pandas()
    again = (
        SavepointWriter.from_existing(first, classes=None)
        .set_keyed_state("op", "state", frame)
        .write(str(tmp_path / "2"))
    )
    assert {entry.key: entry.value for entry in Savepoint.open(again, classes=None).keyed_state("op", "state")} == {
        1: ["a", "b"],
        2: [],
    }


def test_key_that_may_have_been_none_is_refused_behind_pandas(tmp_path: Path) -> None:
    first = (
        SavepointWriter.new(classes=None).set_keyed_state("op", "state", {1: "a", None: "b"}).write(str(tmp_path / "1"))
    )
    frame = Savepoint.open(first, classes=None).keyed_state("op", "state").to_arrow().to_pandas()
    writer = SavepointWriter.new(classes=None).set_keyed_state("op", "state", frame)
    with pytest.raises(UnsupportedOperationError, match=r"column 'key': .*where one is missing"):
        writer.write(str(tmp_path / "2"))


def test_object_with_more_than_its_fields_is_refused_by_arrow_and_whole_in_pandas(tmp_path: Path) -> None:
    value = Noted(1)
    value.note = "kept"  # type: ignore[attr-defined]
    assert value.doubled == 2
    first = SavepointWriter.new(classes=None).set_keyed_state("op", "state", {1: value}).write(str(tmp_path / "1"))
    rows = Savepoint.open(first, classes=None).keyed_state("op", "state")
    with pytest.raises(UnsupportedOperationError, match=r"Noted has note beside .*to_pandas"):
        rows.to_arrow()
    writer = SavepointWriter.new(classes=None).set_keyed_state("op", "state", rows.to_pandas())
    [entry] = Savepoint.open(writer.write(str(tmp_path / "2")), classes=None).keyed_state("op", "state")
    assert entry.value.note == "kept"


@pytest.mark.parametrize("values", [[1, None], [1, 2.5], [True, 1], [1 << 60, 0.5], [datetime(2026, 1, 1)] * 2])  # noqa: DTZ001
def test_pandas_changes_no_value(tmp_path: Path, values: list[Any]) -> None:
    entries = [KeyedEntry(number, value, (0, 10)) for number, value in enumerate(values)]
    writer = SavepointWriter.new(classes=None).set_keyed_state("op", "window-contents", entries, kind="window-reduce")
    first = writer.write(str(tmp_path / "1"))
    frame = Savepoint.open(first, classes=None).windows("op").to_pandas()
    writer = SavepointWriter.new(classes=None).set_keyed_state("op", "window-contents", frame, kind="window-reduce")
    found = {
        entry.key: entry.value
        for entry in Savepoint.open(writer.write(str(tmp_path / "2")), classes=None).windows("op")
    }
    assert [repr(found[number]) for number in range(len(values))] == list(map(repr, values))


def test_missing_values_of_a_pandas_frame_of_ones_own_are_none_and_its_moments_are_pythons(tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": ["a", "b"], "value": pd.array([1, None], dtype="Int64")})
    frame["at"] = pd.to_datetime(["2026-01-02", None])
    writer = SavepointWriter.new(classes=None).set_keyed_state("op", "number", frame)
    writer.set_keyed_state("op", "moment", frame, value="at")
    found = Savepoint.open(writer.write(str(tmp_path / "s")), classes=None)
    assert [(entry.key, repr(entry.value)) for entry in found.keyed_state("op", "number")] == [("a", "1")]
    moments = [(entry.key, repr(entry.value)) for entry in found.keyed_state("op", "moment")]
    assert moments == [("a", "datetime.datetime(2026, 1, 2, 0, 0)")]


@pytest.mark.parametrize(
    ("column", "words"),
    [(pa.array([{"a": 1, "b": "x"}]), "structs"), (pa.array([[1, 2]]), "lists")],
    ids=["struct", "list"],
)
def test_key_that_does_not_say_what_it_was_is_refused_unless_a_function_says_it(
    tmp_path: Path, column: pa.Array, words: str
) -> None:
    table = pa.table({"key": column, "value": [1]})
    with pytest.raises(UnsupportedOperationError, match=f"column 'key' has {words}.*key="):
        SavepointWriter.new(classes=None).set_keyed_state("op", "state", table).write(str(tmp_path / "1"))
    writer = SavepointWriter.new(classes=None).set_keyed_state("op", "state", table, key=lambda row: str(row["key"]))
    assert [
        e.key for e in Savepoint.open(writer.write(str(tmp_path / "2")), classes=None).keyed_state("op", "state")
    ] == [str(column.to_pylist()[0])]


def test_class_of_a_key_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = SavepointWriter.new(classes=None).set_keyed_state("op", "state", {Colour.RED: 1}).write(str(tmp_path / "1"))
    table = Savepoint.open(first, classes=None).keyed_state("op", "state").to_arrow()
    monkeypatch.delattr(roads, "Colour")
    with pytest.raises(UnsupportedOperationError, match=r"was a .*roads\.Colour, and cannot be one here"):
        SavepointWriter.new(classes=None).set_keyed_state("op", "state", table).write(str(tmp_path / "2"))


def test_dict_whose_class_needs_more_than_its_items_is_no_other_dict(tmp_path: Path) -> None:
    value = defaultdict(int, a=1)
    first = SavepointWriter.new(classes=None).set_keyed_state("op", "state", {1: value}).write(str(tmp_path / "1"))
    table = Savepoint.open(first, classes=None).keyed_state("op", "state").to_arrow()
    with pytest.raises(UnsupportedOperationError, match=r"was a collections\.defaultdict"):
        SavepointWriter.new(classes=None).set_keyed_state("op", "state", table).write(str(tmp_path / "2"))


@pytest.fixture(params=["UTC", "America/New_York"])
def _local_zone(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_local_zone")
def test_moment_that_spark_gives_in_local_time_is_the_moment_that_it_was() -> None:
    moment = datetime(2026, 7, 2, 3, 4, 5, 6, timezone(timedelta(hours=2)))
    struct = plain(moment)
    local = struct | {"at": datetime.fromtimestamp(moment.timestamp())}  # noqa: DTZ006 - as Spark does
    assert (repr(restored(struct, ALL_CLASSES)), repr(restored(local, ALL_CLASSES))) == (repr(moment), repr(moment))


def test_key_that_a_given_schema_would_change_is_refused_and_a_value_is_not(tmp_path: Path) -> None:
    first = SavepointWriter.new(classes=None).set_keyed_state("op", "state", {0.1: 0.1}).write(str(tmp_path / "1"))
    rows = Savepoint.open(first, classes=None).keyed_state("op", "state")
    assert rows.to_arrow(pa.schema([("key", pa.float64()), ("value", pa.float32())])).num_rows == 1
    with pytest.raises(UnsupportedOperationError, match=r"column 'key'.*would come back as others"):
        rows.to_arrow(pa.schema([("key", pa.float32())]))


def test_values_that_do_not_fit_the_schema_guessed_from_others_lose_nothing_in_silence(tmp_path: Path) -> None:
    entries = {number: {"a": number} if number else {"a": 0, "b": 1} for number in range(4)}
    first = SavepointWriter.new(classes=None).set_keyed_state("op", "state", entries).write(str(tmp_path / "1"))
    rows = Savepoint.open(first, classes=None).keyed_state("op", "state")
    with pytest.raises(UnsupportedOperationError, match="would come back as others"):
        list(rows.to_batches(batch_rows=1))
    assert rows.to_arrow().num_rows == 4


def test_timers_of_the_other_clock_are_refused(story: Story, tmp_path: Path) -> None:
    timers = Savepoint.open(story.path, classes=None).timers("values", TimeDomain.PROCESSING_TIME)
    with pytest.raises(SavepointChangeError, match=r"other clock.*PROCESSING_TIME"):
        SavepointWriter.new(classes=None).set_timers("values", timers).write(str(tmp_path / "s"))


def test_list_items_go_to_the_subtask_that_had_them_and_never_to_one_that_has_finished(tmp_path: Path) -> None:
    def items(path: str) -> list[tuple[int, Any]]:
        return [(item.subtask, item.value) for item in Savepoint.open(path, classes=None).list_state("op", "list")]

    given = [ListItem(2, "a"), ListItem(0, "b"), ListItem(2, "c"), "d", "e"]
    writer = SavepointWriter.new(parallelism=3, classes=None).set_list_state("op", "list", given)
    first = writer.write(str(tmp_path / "1"))
    assert items(first) == [(0, "b"), (0, "d"), (1, "e"), (2, "a"), (2, "c")]
    writer = SavepointWriter.from_existing(first, classes=None)
    draft = writer._draft.operators["op"]
    subtasks = draft.metadata.subtasks
    draft.metadata = replace(draft.metadata, subtasks=(*subtasks[:2], replace(subtasks[2], finished=True)))
    writer.set_list_state("op", "list", given)
    assert items(writer.write(str(tmp_path / "2"))) == [(0, "a"), (0, "b"), (0, "d"), (1, "c"), (1, "e")]
