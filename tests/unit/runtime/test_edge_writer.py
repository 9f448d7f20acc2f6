"""The sending end of an edge: blocks, their order, timestamps, and the status of its channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.plan.graphs import graph

from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.operators.batch import RowBatch, watermark_only
from penstock._engine.plan import levels
from penstock._engine.plan.levels import build_plan
from penstock._engine.protocol.control import ChannelStatus
from penstock._engine.protocol.row_sums import MODULUS, row_weight
from penstock._engine.protocol.rows import MAX_PAYLOAD_BYTES, MAX_WATERMARK, PayloadKind, subtask_target
from penstock._engine.runtime.blocks import decode_batch
from penstock._engine.runtime.edge_writer import EdgeWriter
from penstock._engine.runtime.row_buffer import ExchangeRow, RowBuffer, rows_of

if TYPE_CHECKING:
    import pytest

TARGETS = [subtask_target(1, subtask) for subtask in range(2)]


def writer(receivers: int = 2, kind: PartitionerKind = PartitionerKind.REBALANCE) -> tuple[EdgeWriter, RowBuffer]:
    plan = build_plan(graph([1, receivers], [(0, 1, kind)]))
    edge, rows = EdgeWriter(plan, plan.graph.edges[0], 0), RowBuffer()
    edge.begin_epoch(rows, 7, {subtask_target(1, subtask): subtask for subtask in range(receivers)})
    return edge, rows


def sent(edge: EdgeWriter, rows: RowBuffer) -> list[ExchangeRow]:
    edge.flush()
    return list(rows_of([rows.drain()]))


def batches(rows: list[ExchangeRow], target: int) -> list[RowBatch]:
    return [decode_batch(row.payload) for row in rows if row.target == target]


def test_rows_of_a_channel_are_numbered_from_0_and_carry_the_attempts_token() -> None:
    edge, rows = writer()
    for number in range(4):
        edge.write(RowBatch([number, number + 100]))
        edge.flush()
    found = sent(edge, rows)
    for target in TARGETS:
        assert [row.seq for row in found if row.target == target] == [0, 1, 2, 3]
    assert {row.token for row in found} == {7}
    assert edge.rows_sent(closed=False) == sum(4 * row_weight(target) for target in TARGETS) % MODULUS
    assert edge.rows_sent(closed=True) == sum(5 * row_weight(target) for target in TARGETS) % MODULUS


def test_watermarks_go_to_all_receivers_between_the_records_where_they_stand() -> None:
    edge, rows = writer()
    edge.write(RowBatch([1, 2, 3, 4], [10, 20, 30, 40], [(0, 5), (2, 15), (4, 40)]))
    found = sent(edge, rows)
    assert batches(found, TARGETS[0]) == [RowBatch([1, 3], [10, 30], [(0, 5), (1, 15), (2, 40)])]
    assert batches(found, TARGETS[1]) == [RowBatch([2, 4], [20, 40], [(0, 5), (1, 15), (2, 40)])]
    assert edge.watermark == 40


def test_records_with_and_without_timestamps_do_not_share_a_block() -> None:
    edge, rows = writer(1)
    stamped, plain = RowBatch([1], [10]), RowBatch([2])
    for batch in (stamped, plain, plain, stamped, watermark_only(50), plain):
        edge.write(batch)
    found = batches(sent(edge, rows), TARGETS[0])
    assert [(batch.records, batch.timestamps) for batch in found if batch.records] == [
        ([1], [10]),
        ([2, 2], None),
        ([1], [10]),
        ([2], None),
    ]
    assert all(batch.timestamps is None or len(batch.timestamps) == len(batch.records) for batch in found)


def test_a_batch_of_watermarks_alone_needs_no_timestamps() -> None:
    edge, rows = writer()
    edge.write(RowBatch([], [], [(0, 5)]))
    edge.write(RowBatch([1, 2], [10, 20]))
    edge.write(RowBatch([], None, [(0, 30)]))
    assert batches(sent(edge, rows), TARGETS[0]) == [RowBatch([], None, [(0, 5)]), RowBatch([1], [10], [(1, 30)])]


def test_a_receiver_that_got_nothing_for_a_while_gets_right_timestamps_later() -> None:
    edge, rows = writer(2)
    edge.write(RowBatch([1], [10]))  # to the first receiver alone
    edge.write(RowBatch([2, 3]))  # unstamped, to the second and the first
    edge.write(RowBatch([4], [40]))
    found = sent(edge, rows)
    assert [(batch.records, batch.timestamps) for batch in batches(found, TARGETS[1])] == [([2], None), ([4], [40])]


def test_many_records_are_sent_before_the_epoch_ends() -> None:
    edge, rows = writer()
    for _ in range(5):
        edge.write(RowBatch(list(range(20_000))))
        assert len(list(rows_of([rows.drain()]))) == 2


def test_large_records_do_not_wait_for_thousands_of_others() -> None:
    edge, rows = writer(1)
    waiting: list[int] = []
    for _ in range(1500):
        edge.write(RowBatch([b"x" * 20_000]))
        waiting.append(len(edge._outlets[0].records))
    assert max(waiting[600:]) <= MAX_PAYLOAD_BYTES // 20_000 + 1
    assert sum(len(batch.records) for batch in batches(sent(edge, rows), TARGETS[0])) == 1500


def test_bytes_taken_has_the_records_that_wait() -> None:
    edge, rows = writer(2)
    edge.write(RowBatch([b"%d" % number * 1000 for number in range(10, 60)]))
    edge.write(RowBatch([b"%d" % number * 1000 for number in range(60, 99)]))
    assert edge.bytes_out < 55_000 * 2
    assert 89_000 * 2 <= edge.bytes_taken < 95_000 * 2
    sent(edge, rows)
    assert edge.bytes_taken == edge.bytes_out


def test_a_record_larger_than_a_row_is_sent_in_fragments_with_the_last_as_data() -> None:
    edge, rows = writer(1)
    edge.write(RowBatch([b"x" * (9 << 20)]))
    found = sent(edge, rows)
    assert [row.kind for row in found] == [PayloadKind.FRAGMENT, PayloadKind.FRAGMENT, PayloadKind.DATA]
    assert [row.seq for row in found] == [0, 1, 2]
    joined: Any = b"".join(row.payload for row in found)
    assert decode_batch(joined).records == [b"x" * (9 << 20)]


def test_a_new_epoch_starts_with_nothing_left_from_the_last_one() -> None:
    edge, rows = writer(1)
    edge.write(RowBatch([1], [10]))
    fresh = RowBuffer()
    edge.begin_epoch(fresh, 8, {TARGETS[0]: 0})
    edge.write(RowBatch([2]))
    [batch] = batches(sent(edge, fresh), TARGETS[0])
    assert (batch.records, batch.timestamps) == ([2], None)
    assert list(rows_of([rows.drain()])) == []
    assert (edge.records_out, edge.rows_sent(closed=False)) == (1, row_weight(TARGETS[0]))


def test_only_what_receivers_do_not_know_is_news() -> None:
    edge, rows = writer()
    assert not edge.has_update(ChannelStatus())
    assert edge.has_update(ChannelStatus(9))
    assert edge.has_update(ChannelStatus(idle=True))
    edge.write(watermark_only(9))
    assert not edge.has_update(ChannelStatus(9))
    edge.begin_epoch(rows, 8, dict.fromkeys(TARGETS, 0), ChannelStatus(9, idle=True))
    assert not edge.has_update(ChannelStatus(9, idle=True))
    assert edge.has_update(ChannelStatus(9))
    edge.write(watermark_only(MAX_WATERMARK))  # receivers take that with the status alone
    assert edge.has_update(ChannelStatus(MAX_WATERMARK, idle=True))


def test_an_ended_channel_is_not_idle() -> None:
    edge, _ = writer()
    edge.write(watermark_only(9))
    assert edge.status(idle=True, ended=False) == ChannelStatus(9, idle=True)
    assert edge.status(idle=True, ended=True) == ChannelStatus(9, ended=True)


def test_a_watermark_says_that_its_sender_is_not_idle_any_more() -> None:
    edge, rows = writer()
    edge.begin_epoch(rows, 8, dict.fromkeys(TARGETS, 0), ChannelStatus(9, idle=True))
    edge.write(watermark_only(12))
    assert not edge.has_update(ChannelStatus(12))
    assert edge.has_update(ChannelStatus(12, idle=True))


def test_an_end_that_receivers_expect_is_no_news_and_one_that_does_not_come_is() -> None:
    edge, rows = writer()
    edge.begin_epoch(rows, 8, dict.fromkeys(TARGETS, 0), ChannelStatus(9, ended=True))
    edge.write(watermark_only(MAX_WATERMARK))
    assert sent(edge, rows) == []
    assert not edge.has_update(edge.status(idle=False, ended=True))
    assert edge.update(ChannelStatus(9)) == (None, False, False)
    assert edge.has_update(ChannelStatus(9))


def test_receivers_of_a_wide_edge_learn_with_the_next_dispatch_that_a_sender_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(levels, "MAX_CLOSING_ROWS", 1)
    edge, rows = writer()
    assert not edge.has_update(ChannelStatus(idle=True))
    edge.begin_epoch(rows, 8, dict.fromkeys(TARGETS, 0), ChannelStatus(9, idle=True))
    assert edge.has_update(ChannelStatus(9))  # else receivers would not wait for it


def test_receivers_of_a_wide_edge_learn_of_a_watermark_without_records_with_the_next_dispatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(levels, "MAX_CLOSING_ROWS", 1)
    edge, rows = writer()
    edge.is_timed = True
    edge.write(watermark_only(5))
    assert sent(edge, rows) == []
    assert not edge.has_update(edge.status(idle=False, ended=False)), "its ack has the watermark"
    edge.begin_epoch(rows, 8, dict.fromkeys(TARGETS, 0), ChannelStatus(5, idle=True))
    edge.write(watermark_only(6))
    assert sent(edge, rows) != [], "else receivers would not wait for it"
