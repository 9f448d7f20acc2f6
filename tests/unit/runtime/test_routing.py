"""Partitioners: each record to its receivers, exactly once, in order."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import cloudpickle
import numpy
import pytest

from penstock._api.functions.held import HeldKey
from penstock._engine.graph.job_graph import JobEdge, PartitionerKind
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.key_selection import KeySelection
from penstock._engine.protocol.key_groups import key_group, subtask_of_key_group
from penstock._engine.protocol.keys import normal_key
from penstock._engine.runtime import key_routes
from penstock._engine.runtime.key_routes import KeyRoutes
from penstock._engine.runtime.routing import HashRouter, OutputBuffer, make_router
from penstock.common import Types
from penstock.common.types import Row
from penstock.errors import KeyEncodingError, PartitionError

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.functions import RuntimeContext

RECORDS = list(range(1000))


def route(
    kind: PartitionerKind, records: list[Any], receivers: int = 3, *, sender: int = 0, runs: int = 1, **members: Any
) -> list[list[Any]]:
    """Route records in several runs; return what each receiver got."""
    outlets = [OutputBuffer() for _ in range(receivers)]
    for outlet in outlets:
        outlet.timestamps = []
    edge = JobEdge(0, 0, 0, None, 1, 0, kind, cloudpickle.dumps(members) if members else b"")
    router = make_router(edge, outlets, sender, receivers, 128)
    step = -(-len(records) // runs)
    for start in range(0, len(records), step):
        stamps = list(range(start, min(start + step, len(records))))
        router.route(RowBatch(records[start : start + step], stamps))
    for outlet in outlets:
        assert [records[stamp] for stamp in outlet.timestamps or []] == outlet.records
    return [outlet.records for outlet in outlets]


@pytest.mark.parametrize("runs", [1, 7])
@pytest.mark.parametrize("receivers", [1, 2, 5])
@pytest.mark.parametrize(
    ("kind", "members"),
    [
        (PartitionerKind.REBALANCE, {}),
        (PartitionerKind.RESCALE, {}),
        (PartitionerKind.SHUFFLE, {}),
        (PartitionerKind.HASH, {"key_selector": lambda record: record % 50}),
        (
            PartitionerKind.CUSTOM,
            {"partitioner": lambda key, count: key % count, "key_selector": lambda record: record},
        ),
    ],
)
@pytest.mark.behaviour(189)
def test_each_record_goes_to_one_receiver_in_order(
    kind: PartitionerKind, members: Any, receivers: int, runs: int
) -> None:
    received = route(kind, RECORDS, receivers, runs=runs, **members)
    assert sorted(record for records in received for record in records) == RECORDS
    assert all(records == sorted(records) for records in received)


def test_broadcast_gives_each_record_to_every_receiver() -> None:
    assert route(PartitionerKind.BROADCAST, RECORDS, 3, runs=4) == [RECORDS] * 3


def test_forward_has_one_receiver() -> None:
    assert route(PartitionerKind.FORWARD, RECORDS, 1) == [RECORDS]


@pytest.mark.parametrize("runs", [1, 3, 500])
def test_rebalance_is_even_whatever_the_blocks(runs: int) -> None:
    received = route(PartitionerKind.REBALANCE, RECORDS, 7, runs=runs)
    assert max(map(len, received)) - min(map(len, received)) <= 1


def test_senders_of_a_rebalance_do_not_all_begin_with_the_same_receiver() -> None:
    firsts = [route(PartitionerKind.REBALANCE, ["first"], 3, sender=sender).index(["first"]) for sender in range(3)]
    assert sorted(firsts) == [0, 1, 2]


def test_hash_sends_equal_keys_to_the_owner_of_their_key_group() -> None:
    received = route(PartitionerKind.HASH, RECORDS, 5, key_selector=lambda record: f"key-{record % 40}")
    assert all(received)
    for receiver, records in enumerate(received):
        for record in records:
            group = key_group(normal_key(f"key-{record % 40}"), 128)
            assert subtask_of_key_group(group, 5, 128) == receiver


@pytest.mark.parametrize(
    "keys",
    [
        [1, True, 1.0, Decimal(1)],
        [(1, "a"), (True, "a"), (1.0, "a"), Row(1, "a")],
        ["a", str.__new__(type("Text", (str,), {}), "a")],
        [Row(a=1, b=2), Row(b=2, a=1)],
    ],
)
def test_keys_that_are_equal_go_together(keys: list[Any]) -> None:
    received = route(PartitionerKind.HASH, keys, 100, key_selector=lambda record: record)
    assert [len(records) for records in received if records] == [len(keys)]


def test_hash_is_the_same_in_every_process_and_version() -> None:
    keys: list[Any] = ["a", "b", 1, 2, (1, "a"), 2.5, None, b"x"]
    received = route(PartitionerKind.HASH, keys, 4, key_selector=lambda record: record)
    assert received == [[2, (1, "a")], [], ["a", None, b"x"], ["b", 1, 2.5]]


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize(
    "keys",
    [
        ["a", "b", 1, "c", None, 2.5, ("a", 1), "d"],
        [1, 2, Decimal(1), True, 2],
        [("a", 1), ("a", 2), "a"],
        [Row(1), "a", Row(1)],
        ["a", "b", str.__new__(type("Text", (str,), {}), "a"), "a"],
    ],
)
def test_records_go_to_the_owners_of_their_keys_whatever_types_follow_one_another(
    keys: list[Any], stamped: bool
) -> None:
    outlets = [OutputBuffer() for _ in range(7)]
    for outlet in outlets:
        outlet.timestamps = [] if stamped else None
    router = make_router(
        JobEdge(0, 0, 0, None, 1, 0, PartitionerKind.HASH, cloudpickle.dumps({"key_selector": itself})),
        outlets,
        0,
        7,
        128,
    )
    for _ in range(2):
        router.route(RowBatch(keys, list(range(len(keys))) if stamped else None))
    for receiver, outlet in enumerate(outlets):
        mine = [
            n for n, key in enumerate(keys) if subtask_of_key_group(key_group(normal_key(key), 128), 7, 128) == receiver
        ]
        assert outlet.records == [keys[n] for n in mine] * 2
        assert outlet.timestamps == (mine * 2 if stamped else None)


def test_a_key_without_encoding_is_refused() -> None:
    with pytest.raises(KeyEncodingError, match="list"):
        route(PartitionerKind.HASH, [[1]], key_selector=lambda record: record)


def test_a_key_selector_that_lets_out_a_stop_iteration_loses_nothing_silently() -> None:
    with pytest.raises((StopIteration, RuntimeError)):
        route(PartitionerKind.HASH, [1, 2], key_selector=lambda record: next(iter(())))


@pytest.mark.parametrize("target", [3, -1, None, "0", [0], 0.5])
def test_a_custom_partitioner_must_name_a_receiver(target: Any) -> None:
    with pytest.raises(PartitionError) as raised:
        route(PartitionerKind.CUSTOM, [1], 3, partitioner=lambda key, count: target, key_selector=lambda record: record)
    assert raised.value.target == repr(target)


def test_a_custom_partitioner_may_be_an_object_and_return_any_whole_number() -> None:
    class Second:
        def partition(self, key: Any, num_partitions: int) -> Any:
            return True

    class Itself:
        def get_key(self, value: Any) -> Any:
            return value

    assert route(PartitionerKind.CUSTOM, [1, 2], 2, partitioner=Second(), key_selector=Itself()) == [[], [1, 2]]


def test_an_outlet_hands_out_what_waits_once() -> None:
    outlet = OutputBuffer()
    outlet.add(RowBatch([1]))
    outlet.add_watermark(5)
    outlet.add_watermark(6)
    assert outlet.take().watermarks == [(1, 5), (1, 6)]
    assert pickle.loads(pickle.dumps(outlet.take().records)) == []


class Folded(str):
    """Compares without regard to case."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str.lower(self) == str.lower(other)

    def __hash__(self) -> int:
        return hash(str.lower(self))


@dataclass(eq=False)
class Named:
    """The same, for a dataclass that may change."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


def itself(record: Any) -> Any:
    return record


@pytest.mark.parametrize("make", [Folded, Named, lambda text: (Folded(text), 1), lambda text: ((Folded(text),),)])
def test_keys_go_where_their_encoding_belongs_whatever_their_class_takes_for_equal(make: Any) -> None:
    routes = KeyRoutes(4, 128)
    keys = [make(text) for number in range(100) for text in (f"key{number}", f"KEY{number}")]
    own = [subtask_of_key_group(key_group(normal_key(key), 128), 4, 128) for key in keys]
    assert routes.of(keys, KeySelection(itself)) == own
    assert [routes.of([key], KeySelection(itself))[0] for key in keys] == own


def test_a_key_object_that_changes_goes_where_it_belongs_each_time() -> None:
    routes, key = KeyRoutes(4, 128), Named("")
    for number in range(50):
        key.name = str(number)
        assert routes.of([key], KeySelection(itself)) == [subtask_of_key_group(key_group(normal_key(key), 128), 4, 128)]


class Word(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (Types.LONG(), [1, numpy.int64(1), 2, numpy.int64(2), 3]),
        (Types.DOUBLE(), [1, 1.0, Decimal("1.0"), 2.5, numpy.float32(2.5)]),
        (Types.FLOAT(), [0.1, 0.1, 0.25, 0.1]),
        (Types.STRING(), ["a", "b", Word("a"), None]),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "a"), [1, "a"], Row(1, "a"), (2, "b")]),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), [Row(a=1), {"a": 1}, (1,), Row(2)]),
    ],
)
def test_a_key_goes_to_the_receiver_of_what_its_type_makes_of_it(key_type: TypeInformation, keys: list[Any]) -> None:
    selector = HeldKey(itself, key_type)
    selector.open(cast("RuntimeContext", SimpleNamespace(get_task_name=lambda: "sum")))
    expected = [subtask_of_key_group(key_group(normal_key(selector.get_key(key)), 128), 4, 128) for key in keys]
    outlets = [OutputBuffer() for _ in range(4)]
    router = HashRouter(outlets, KeyRoutes(4, 128), KeySelection(selector))
    for records in (keys, keys[::-1], *([key] for key in keys)):  # known before, or not
        router.route(RowBatch(records))
    found = {id(record): place for place, outlet in enumerate(outlets) for record in outlet.records}
    assert [found[id(key)] for key in keys] == expected
    assert KeySelection(selector).of(keys) == list(map(selector.get_key, keys))


# ---------------------------------------------------------------------------------------- more keys than are remembered


@pytest.mark.parametrize("runs", [1, 3, 50])
def test_keys_beyond_those_that_are_remembered_go_where_they_would_go(
    monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    keys = [f"key-{number % 80}" for number in range(400)]
    expected = route(PartitionerKind.HASH, keys, 5, key_selector=lambda record: record)
    monkeypatch.setattr(key_routes, "_ROUTES", 16)
    assert route(PartitionerKind.HASH, keys, 5, runs=runs, key_selector=lambda record: record) == expected


def test_ints_beyond_the_table_go_where_they_would_go(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = KeyRoutes(5, 128)
    numbers = numpy.array([7, 3, 22, 3, 14])
    assert routes.of_dense_ints(numpy.arange(3, 23)).tolist() == routes.of_ints(numpy.arange(3, 23)).tolist()
    assert routes.of_dense_ints(numbers).tolist() == routes.of_ints(numbers).tolist()
    monkeypatch.setattr(key_routes, "_DENSE", 19)
    assert routes.of_dense_ints(numbers) is None, "whoever asks computes them"
    assert routes.of_dense_ints(numbers[1:2]).tolist() == routes.of_ints(numbers[1:2]).tolist()
