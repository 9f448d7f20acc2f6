"""Batches of columns: their blocks, the edges that they go through, and the operators that want rows of them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import cloudpickle
import pyarrow as pa
import pytest
from tests.unit.plan.graphs import graph

from penstock._api.functions.field_key import FieldKey
from penstock._engine.graph.job_graph import JobEdge, PartitionerKind
from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columns import ColumnBatch, joined, time_column
from penstock._engine.plan.levels import build_plan
from penstock._engine.protocol.rows import MAX_PAYLOAD_BYTES, subtask_target
from penstock._engine.runtime.blocks import cut, decode_batch, encode_batch
from penstock._engine.runtime.edge_writer import EdgeWriter
from penstock._engine.runtime.routing import OutputBuffer, make_router
from penstock._engine.runtime.row_buffer import RowBuffer, rows_of
from penstock.common.columns import RecordLayout, int64_column
from penstock.common.types import Row
from penstock.errors import BatchColumnsError, DamagedBlockError, TimestampError

if TYPE_CHECKING:
    from collections.abc import Callable

NESTED = pa.struct([("x", pa.list_(pa.int32())), ("y", pa.string())])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("word", pa.string()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us")),
        ("tags", pa.map_(pa.string(), pa.int64())),
        ("inner", NESTED),
    ]
)


def record(number: int) -> dict[str, Any]:
    """Return a record with each kind of field, some of them null."""
    if number % 5 == 4:
        return dict.fromkeys(SCHEMA.names) | {"id": number}
    return {
        "id": number,
        "word": f"w{number % 3}",
        "kind": "even" if number % 2 == 0 else "odd",
        "price": Decimal(number).scaleb(-2),
        "at": datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=number),  # noqa: DTZ001 - Arrow has it so
        "tags": {"a": number},
        "inner": {"x": [number, None], "y": None},
    }


RECORDS = [record(number) for number in range(200)]


def columns(records: list[dict[str, Any]], stamps: list[int] | None = None, **more: Any) -> ColumnBatch:
    """Return records as columns."""
    batch = pa.RecordBatch.from_pylist(records, SCHEMA)
    return ColumnBatch(batch, timestamps=None if stamps is None else int64_column(stamps), **more)


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("count", [0, 1, 200])
def test_columns_come_back_as_they_were(count: int, stamped: bool) -> None:
    stamps = list(range(-5, count - 5)) if stamped else None
    batch = columns(RECORDS[:count], stamps, watermarks=[(0, -7), (count, 9)])
    back = decode_batch(encode_batch(batch))
    assert isinstance(back, ColumnBatch)
    assert back.columns.equals(batch.columns, check_metadata=True)
    assert back.rows() == RowBatch(RECORDS[:count], stamps, [(0, -7), (count, 9)])


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (RecordLayout.DICTS, {"a": 1, "b": None}),
        (RecordLayout.ROWS, Row(a=1, b=None)),
        (RecordLayout.TUPLES, (1, None)),
    ],
)
def test_what_a_record_is_comes_with_the_columns(layout: RecordLayout, expected: Any) -> None:
    batch = ColumnBatch(pa.RecordBatch.from_pydict({"a": [1], "b": pa.array([None], pa.string())}), layout)
    assert decode_batch(encode_batch(batch)).rows().records == [expected]


@pytest.mark.parametrize(
    "batch",
    [RowBatch([{"a": 1}] * 50), RowBatch(["a"] * 50, shape=str), columns(RECORDS)],
    ids=["pickled", "packed", "columns"],
)
def test_a_block_that_was_changed_or_cut_is_an_error_that_names_its_encoding(batch: Any) -> None:
    payload = encode_batch(batch)
    for damaged in (payload[: len(payload) // 2], b"\xf0" + payload[1:], payload[:1]):
        with pytest.raises(DamagedBlockError, match=r"rows|columns as Arrow IPC|unknown encoding"):
            decode_batch(damaged)


def test_an_ipc_stream_with_a_damaged_schema_is_that_error_too() -> None:
    payload = bytearray(encode_batch(columns(RECORDS)))
    payload[30:60] = bytes(30)
    with pytest.raises(DamagedBlockError, match="Arrow IPC"):
        decode_batch(bytes(payload))


def test_columns_that_are_too_large_for_a_row_are_cut_with_their_watermarks() -> None:
    batch = columns([record(0) | {"word": "x" * (1 << 20)}] * 9, list(range(9)), watermarks=[(4, 1), (9, 2)])
    parts = list(cut(batch))
    assert len(parts) > 1
    assert max(map(len, parts)) <= MAX_PAYLOAD_BYTES
    back = [decode_batch(part) for part in parts]
    assert sum(map(len, back)) == 9
    assert [mark for part in back for _, mark in part.watermarks] == [1, 2]


def test_records_are_made_once_and_copied_for_those_that_may_change_them() -> None:
    batch = columns(RECORDS)
    apart = batch.copy_if_shared(object_reuse=False)
    assert batch.rows().records is batch.rows().records
    assert apart.rows() == batch.rows()
    apart.rows().records[0]["inner"]["x"].append(1)
    assert batch.rows().records == RECORDS
    assert batch.copy_if_shared(object_reuse=True) is batch


PARTS: dict[str, Callable[[Any], Any]] = {
    "all": lambda batch: batch,
    "a run": lambda batch: batch.run(2, 5),
    "a slice": lambda batch: batch.slice(2, 5),
    "a run of nothing": lambda batch: batch.run(3, 3),
    "each third": lambda batch: batch.every(1, 3),
    "each of more than there are": lambda batch: batch.every(6, 9),
    "some": lambda batch: batch.take([6, 0, 0]),
    "none": lambda batch: batch.take([]),
}


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_columns_have_the_records_of_the_same_parts_of_rows(part: str, stamped: bool) -> None:
    stamps, marks = list(range(7)) if stamped else None, [(0, -7), (3, 2), (7, 9)]
    of_rows = PARTS[part](RowBatch(RECORDS[:7], stamps, marks))
    of_columns = PARTS[part](columns(RECORDS[:7], stamps, watermarks=marks))
    assert of_columns.rows() == of_rows
    assert of_columns.stamps() == of_rows.stamps()


@pytest.mark.parametrize("stamps", [[1, 2, 3], pa.array([1, 2, 3]), pa.array([1, 2, 3], pa.timestamp("ms"))])
def test_times_of_a_batch_are_milliseconds(stamps: Any) -> None:
    assert time_column(stamps, 3).equals(int64_column([1, 2, 3]))


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize(("unit", "scale"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_points_in_time_are_of_the_millisecond_that_they_are_in_on_both_sides_of_the_epoch(
    unit: str, scale: int, zone: str | None
) -> None:
    most = 2**63 - 1 if scale >= 1000 else (2**63 - 1) // 1000
    numbers = [-most, -1_999_999_999, -1_000_000, -1_000, -999, -1, 0, 1, 999, 1_000, 1_999_999_999, most]
    found = time_column(pa.array(numbers, pa.timestamp(unit, zone)), len(numbers))
    assert found.equals(int64_column([number * 1000 // scale for number in numbers]))


@pytest.mark.parametrize(
    ("stamps", "error"),
    [
        ([1], BatchColumnsError),
        (pa.array([0, 2**62], pa.timestamp("s")), TimestampError),
        (pa.array([1, None]), TimestampError),
        (pa.array(["a", "b"]), TimestampError),
        (pa.array([1, 2**64 - 1], pa.uint64()), TimestampError),
        ([1, 1.5], TimestampError),
    ],
)
def test_what_is_no_time_is_an_error(stamps: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        time_column(stamps, 2)


# --------------------------------------------------------------------------------------------------------------- edges


def routed(kind: PartitionerKind, batches: list[Any], receivers: int, **members: Any) -> list[list[Any]]:
    """Return what each receiver gets, of columns or of rows."""
    outlets = [OutputBuffer() for _ in range(receivers)]
    edge = JobEdge(0, 0, 0, None, 1, 0, kind, cloudpickle.dumps(members) if members else b"")
    router = make_router(edge, outlets, 1, receivers, 128)
    for batch in batches:
        assert isinstance(batch, RowBatch) or router.takes(batch)
        router.route(batch)
    return [outlet.take().rows().records for outlet in outlets]


@pytest.mark.parametrize("receivers", [1, 3, 7])
@pytest.mark.parametrize(
    ("kind", "members"),
    [
        (PartitionerKind.REBALANCE, {}),
        (PartitionerKind.BROADCAST, {}),
        *((PartitionerKind.HASH, {"key_selector": FieldKey(name)}) for name in ("id", "word", "kind", "price", "at")),
    ],
)
def test_columns_go_where_their_rows_would_go(kind: PartitionerKind, members: Any, receivers: int) -> None:
    cuts = [(0, 7), (7, 8), (8, 200)]
    as_columns = routed(kind, [columns(RECORDS[a:b]) for a, b in cuts], receivers, **members)
    assert as_columns == routed(kind, [RowBatch(RECORDS[a:b]) for a, b in cuts], receivers, **members)


@pytest.mark.parametrize("receivers", [1, 3])
def test_columns_that_chance_sends_all_arrive(receivers: int) -> None:
    found = routed(PartitionerKind.SHUFFLE, [columns(RECORDS)], receivers)
    assert sorted(one["id"] for part in found for one in part) == list(range(200))


@pytest.mark.parametrize("select", [FieldKey("inner"), FieldKey("nowhere"), lambda record: record["id"]])
def test_columns_go_as_rows_where_the_key_is_no_column(select: Any) -> None:
    edge = JobEdge(0, 0, 0, None, 1, 0, PartitionerKind.HASH, cloudpickle.dumps({"key_selector": select}))
    router = make_router(edge, [OutputBuffer()], 0, 1, 128)
    assert not router.takes(columns(RECORDS))


def sent(*batches: Any) -> tuple[EdgeWriter, list[Any]]:
    """Return an edge to one receiver that has sent batches, and what arrives."""
    plan = build_plan(graph([1, 1], [(0, 1, PartitionerKind.REBALANCE)]))
    edge, rows = EdgeWriter(plan, plan.graph.edges[0], 0), RowBuffer()
    edge.begin_epoch(rows, 7, {subtask_target(1, 0): 0})
    for batch in batches:
        edge.write(batch)
    edge.flush()
    return edge, [decode_batch(row.payload) for row in rows_of([rows.drain()])]


def test_small_batches_of_one_form_share_a_block_with_their_watermarks() -> None:
    parts = [columns(RECORDS[at : at + 50], watermarks=[(20, at)]) for at in range(0, 200, 50)]
    edge, [found] = sent(*parts, RowBatch([], None, [(0, 999)]))
    assert found.rows() == RowBatch(RECORDS, None, [(20, 0), (70, 50), (120, 100), (170, 150), (200, 999)])
    assert (edge.records_out, edge.watermark) == (200, 999)
    assert edge.bytes_taken == edge.bytes_out > 0


def test_batches_of_other_forms_stay_in_order() -> None:
    other = ColumnBatch(pa.RecordBatch.from_pydict({"id": [1000]}))
    parts: list[Any] = [
        columns(RECORDS[:2]),
        RowBatch([3]),
        columns(RECORDS[:2]),
        columns(RECORDS[:2], [7, 8]),
        other,
        RowBatch([4], [1]),
    ]
    _, found = sent(*parts)
    assert [(batch.rows().records, batch.rows().timestamps) for batch in found] == [
        (part.rows().records, part.rows().timestamps) for part in parts
    ]
    assert [type(batch) for batch in found] == [type(part) for part in parts]


def test_large_batches_are_sent_before_more_of_them_come() -> None:
    batch = columns(RECORDS * 50)
    _, found = sent(*[batch] * 4)
    assert 1 < len(found) <= 4
    assert sum(map(len, found)) == 4 * len(batch)


def test_a_batch_that_watermarks_would_cut_to_pieces_goes_as_rows() -> None:
    marks = [(place, place) for place in range(100)]
    _, [found] = sent(columns(RECORDS, watermarks=marks))
    assert isinstance(found, RowBatch)
    assert found == RowBatch(RECORDS, None, marks)


@pytest.mark.parametrize("make", [lambda part: part, lambda part: part.slice(1, 3)])
def test_dictionaries_of_several_batches_become_one(make: Callable[[ColumnBatch], ColumnBatch]) -> None:
    parts = [make(columns(RECORDS[at : at + 3])) for at in range(6)]
    whole = joined(parts, [(2, 1)])
    assert whole.rows() == RowBatch([one for part in parts for one in part.rows().records], None, [(2, 1)])
