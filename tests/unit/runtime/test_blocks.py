"""Blocks: cut where a row would grow too large, joined again from fragments."""

from __future__ import annotations

import pickle
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from penstock._engine.operators.batch import RowBatch
from penstock._engine.protocol.rows import MAX_PAYLOAD_BYTES
from penstock._engine.runtime.blocks import cut, decode_batch, encode_batch, fragments
from penstock.common.types import Row, RowKind

MEGABYTE = b"x" * (1 << 20)


def test_a_batch_comes_back_as_it_was() -> None:
    batch = RowBatch([1, "a", None], [1, 2, 3], [(0, 5), (3, 7)])
    assert decode_batch(encode_batch(batch)) == batch


class Text(str):
    pass


@pytest.mark.parametrize(
    ("records", "shape", "is_packed"),
    [
        ([1, -(2**63), 2**64 - 1], int, True),
        ([1, 2**64], int, False),
        (["", "\u00e9", "a" * 300], str, True),
        (["a", "\ud800"], str, False),
        ([b"", b"\xff"], bytes, True),
        ([0.0, -0.0, 1e300, float("inf")], float, True),
        ([True, False], bool, True),
        ([None, None], type(None), True),
        (
            [("a", 1, 1.0, True, None, b"b"), ("b", 2, 2.0, False, None, b"")],
            (str, int, float, bool, type(None), bytes),
            True,
        ),
        ([("a", 1)], None, False),
        ([(1, complex(1, 2))], (int, complex), False),
        ([Decimal("1.50")], Decimal, False),
        ([date(2026, 1, 1)], date, False),
        ([Text("a")], Text, False),
        ([], int, True),
    ],
)
@pytest.mark.parametrize("stamped", [False, True])
def test_records_of_a_known_shape_come_back_of_the_same_types(
    records: list[Any], shape: Any, is_packed: bool, stamped: bool
) -> None:
    stamps = [1 - 2**63 + number for number in range(len(records))] if stamped else None
    batch = RowBatch(records, stamps, [(0, -(2**63)), (len(records), 2**63 - 1)], shape)
    payload = encode_batch(batch)
    back = decode_batch(payload)
    assert repr(back.records) == repr(records)
    assert [type(record) for record in back.records] == [type(record) for record in records]
    assert (back.timestamps, back.watermarks) == (batch.timestamps, batch.watermarks)
    assert back.shape == (shape if is_packed else None)


def named(*values: Any) -> Row:
    row = Row(*values)
    row.set_field_names([f"field_{place}" for place in range(len(values))])
    return row


@pytest.mark.parametrize(
    ("rows", "first_byte"),
    [
        ([Row(1, "a"), Row(None, 2.5), Row()], 3),
        ([named(1, "a", True, b"b"), named(-1, "\u00e9", False, b"")], 3),
        ([named(1), named(2**64)], 4),
        ([named("a"), named("\ud800")], 4),
        ([named(Decimal("1.50"), date(2026, 1, 1)), named([1, (2,)], {"a": Row(b=named(1))})], 4),
        ([named(Text("a"))], 4),
        ([Row(1, 2)(3, 4), Row(1, 2)(5, 6)], 3),  # names that are numbers
        ([Row((1, 2))(3), Row((1, 2))(4)], 4),
        ([named(1), Row(1)], 0),
        ([named(1), Row(other=1)], 0),
        ([named(1), (1,)], 0),
        ([Row(1), Row.of_kind(RowKind.DELETE, 1)], 0),
        ([Row.of_kind(RowKind.DELETE, 1), Row.of_kind(RowKind.DELETE, 2)], 0),
    ],
)
@pytest.mark.parametrize("stamped", [False, True])
def test_rows_come_back_with_names_kinds_and_the_types_of_their_values(
    rows: list[Any], first_byte: int, stamped: bool
) -> None:
    stamps = list(range(len(rows))) if stamped else None
    payload = encode_batch(RowBatch(rows, stamps, [(0, 5)]))
    assert payload[0] == first_byte
    back = decode_batch(payload)
    assert back.records == rows
    assert list(map(repr, back.records)) == list(map(repr, rows))
    assert [[type(value) for value in row] for row in back.records] == [[type(value) for value in row] for row in rows]
    assert (back.timestamps, list(back.watermarks)) == (stamps, [(0, 5)])


def test_rows_that_come_back_are_apart() -> None:
    row = named(1, [2])
    first, second = decode_batch(encode_batch(RowBatch([row, named(1, 2), row]))).records[:2]
    first[0] = 7
    assert (second[0], row[0]) == (1, 1)


def test_a_cut_block_keeps_its_shape() -> None:
    records = [("x" * (1 << 16), number) for number in range(200)]
    parts = [decode_batch(part) for part in cut(RowBatch(records, shape=(str, int)))]
    assert len(parts) > 2
    assert [record for part in parts for record in part.records] == records
    assert {part.shape for part in parts} == {(str, int)}


def test_classes_that_pickle_cannot_name_travel_by_value() -> None:
    class Local:
        def __init__(self, number: int) -> None:
            self.number = number

    assert decode_batch(encode_batch(RowBatch([Local(7)]))).records[0].number == 7


def test_a_small_batch_is_one_payload() -> None:
    assert len(list(cut(RowBatch([1] * 1000)))) == 1


def test_a_large_batch_is_cut_into_payloads_that_fit_with_all_records_and_marks_in_order() -> None:
    records = [bytes([number]) * (number << 14) for number in range(64)]
    stamps = list(range(64))
    marks = [(0, 0), *[(number, number * 10) for number in range(1, 64, 7)], (64, 999)]
    parts = list(cut(RowBatch(records, stamps, marks)))
    assert len(parts) > 4
    assert all(len(part) <= MAX_PAYLOAD_BYTES for part in parts)
    batches = [decode_batch(part) for part in parts]
    assert [record for batch in batches for record in batch.records] == records
    assert [stamp for batch in batches for stamp in batch.timestamps or []] == stamps
    found: list[tuple[int, int]] = []
    before = 0
    for batch in batches:
        found += [(before + position, mark) for position, mark in batch.watermarks]
        before += len(batch.records)
    assert found == marks


def test_a_record_of_100_megabytes_travels_as_fragments_of_4() -> None:
    [payload] = cut(RowBatch([MEGABYTE * 100]))
    parts = fragments(payload)
    assert len(parts) == 26
    assert max(map(len, parts)) == MAX_PAYLOAD_BYTES
    assert decode_batch(b"".join(parts)).records[0] == MEGABYTE * 100


def test_one_large_record_among_small_ones_is_a_block_of_its_own_or_with_few() -> None:
    records: list[Any] = [*range(1000), MEGABYTE * 9, *range(1000)]
    batches = [decode_batch(part) for part in cut(RowBatch(records))]
    assert [record for batch in batches for record in batch.records] == records
    [around] = [len(batch.records) for batch in batches if MEGABYTE * 9 in batch.records]
    assert around < 10


def test_cutting_does_not_pickle_a_batch_over_and_over() -> None:
    pickled: list[int] = []

    class Counted:
        def __reduce__(self) -> Any:
            pickled.append(1)
            return bytes, (1 << 16,)

    list(cut(RowBatch([Counted() for _ in range(1000)])))  # 64 MB
    assert len(pickled) <= 3 * 1000


def test_fragments_of_a_small_payload_are_that_payload() -> None:
    payload = pickle.dumps(1)
    assert fragments(payload) == [payload]
