"""The watermark of a subtask over its channels."""

from __future__ import annotations

import pytest

from penstock._engine.protocol.control import ChannelStatus
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.runtime.watermark_valve import WatermarkValve

A, B, C = 1, 2, 3


def at(watermark: int) -> ChannelStatus:
    return ChannelStatus(watermark)


def idle(watermark: int) -> ChannelStatus:
    return ChannelStatus(watermark, idle=True)


ENDED = ChannelStatus(MAX_WATERMARK, ended=True)


def next_epoch(valve: WatermarkValve, statuses: dict[int, ChannelStatus]) -> WatermarkValve:
    """The valve of the next epoch, given what the senders have said last."""
    return WatermarkValve(list(statuses), statuses, valve.watermark)


@pytest.mark.behaviour(185)
def test_the_watermark_is_the_minimum_and_rises_with_the_last_channel() -> None:
    valve = WatermarkValve([A, B], {})
    assert valve.advance(A, 10) is None
    assert valve.advance(B, 5) == 5
    assert valve.advance(B, 20) == 10
    assert valve.watermark == 10


def test_a_watermark_that_does_not_rise_has_no_effect() -> None:
    valve = WatermarkValve([A], {})
    assert valve.advance(A, 10) == 10
    assert valve.advance(A, 10) is None
    assert valve.advance(A, 9) is None


def test_a_channel_that_has_not_spoken_holds_the_watermark_back() -> None:
    valve = WatermarkValve([A, B], {A: at(100)})
    assert valve.watermark == MIN_WATERMARK
    assert valve.advance(A, 200) is None


def test_an_idle_channel_holds_the_watermark_until_its_control_row_is_read() -> None:
    valve = WatermarkValve([A, B], {})
    assert valve.advance(A, 10) is None
    assert valve.close(A, at(10)) is None
    assert valve.close(B, idle(MIN_WATERMARK)) == 10


def test_a_channel_that_was_idle_before_holds_the_watermark_where_it_is_until_its_control_row_is_read() -> None:
    valve = WatermarkValve([A, B], {A: at(100), B: idle(5)}, 100)
    assert valve.advance(A, 150) is None
    assert valve.close(A, at(150)) is None
    assert valve.close(B, idle(5)) == 150


def test_in_a_pipelined_epoch_a_channel_that_was_idle_before_holds_nothing_until_it_has_caught_up() -> None:
    valve = WatermarkValve([A, B], {A: at(100), B: idle(5)}, 100, flows=True)
    assert valve.advance(A, 150) == 150
    assert valve.advance(B, 120) is None
    assert valve.advance(A, 200) == 200
    assert valve.advance(B, 210) is None
    assert valve.advance(A, 300) == 210
    assert valve.close(B, at(310)) == 300


def test_in_a_pipelined_epoch_channels_that_were_all_idle_follow_the_first_that_wakes() -> None:
    valve = WatermarkValve([A, B], {A: idle(100), B: idle(5)}, 100, flows=True)
    assert valve.advance(B, 150) == 150
    assert valve.close(A, at(160)) is None
    assert valve.advance(B, 170) == 160


def test_in_a_pipelined_epoch_a_channel_that_falls_idle_holds_nothing_until_it_wakes() -> None:
    valve = WatermarkValve([A, B], {A: at(100), B: at(100)}, 100, flows=True)
    assert valve.advance(A, 150) is None
    assert valve.note_idle(B, idle=True) == 150
    assert valve.note_idle(A, idle=True) is None
    assert valve.is_idle()
    assert valve.note_idle(B, idle=False) is None
    assert valve.advance(B, 140) is None
    assert not valve.is_idle()
    assert valve.advance(B, 160) == 160
    assert valve.close(A, idle(150)) is None
    assert valve.close_silent() is None
    assert not valve.is_idle()


def test_in_a_pipelined_epoch_no_watermark_of_an_idle_channel_counts_while_an_active_one_has_not_caught_up() -> None:
    valve = WatermarkValve([A, B], {A: idle(150), B: at(50)}, 100, flows=True)
    assert valve.advance(B, 60) is None
    assert valve.note_idle(A, idle=True) is None
    assert valve.advance(B, 120) == 120


def test_in_a_pipelined_epoch_a_channel_that_was_late_before_holds_nothing_until_it_has_caught_up() -> None:
    valve = WatermarkValve([A, B], {A: at(50), B: at(150)}, 150, flows=True)
    assert valve.advance(B, 200) == 200
    assert valve.note_idle(A, idle=False) is None
    assert valve.advance(B, 250) == 250
    assert valve.advance(A, 250) is None
    assert valve.advance(B, 300) is None
    assert valve.advance(A, 280) == 280


def test_in_a_pipelined_epoch_a_channel_that_wakes_with_the_watermark_of_the_subtask_counts() -> None:
    valve = WatermarkValve([A, B], {A: idle(50), B: at(100)}, 100, flows=True)
    assert valve.advance(A, 100) is None
    assert valve.advance(B, 200) is None
    assert valve.advance(A, 150) == 150


def test_in_a_pipelined_epoch_a_channel_that_wakes_ahead_of_a_late_one_raises_the_watermark() -> None:
    valve = WatermarkValve([A, B, C], {A: idle(200), B: at(100), C: idle(50)}, 100, flows=True)
    assert valve.advance(C, 60) is None
    assert valve.note_idle(B, idle=True) is None
    assert valve.advance(A, 210) == 210


def test_the_watermark_never_goes_back_when_an_idle_channel_wakes_behind_it() -> None:
    valve = WatermarkValve([A, B], {A: at(100), B: idle(5)}, 100)
    assert valve.advance(B, 50) is None
    assert valve.close(B, at(50)) is None
    assert valve.watermark == 100


def test_a_channel_that_comes_back_late_is_left_out_until_it_has_caught_up() -> None:
    valve = WatermarkValve([A, B], {A: at(100), B: idle(5)}, 100)
    valve.close(B, at(50))
    assert valve.advance(A, 200) == 200
    valve.close(A, at(200))
    valve = next_epoch(valve, {A: at(200), B: at(50)})
    assert valve.advance(B, 250) is None
    assert valve.close(B, at(250)) is None
    assert valve.advance(A, 300) == 250


def test_when_all_channels_are_idle_the_greatest_watermark_counts_whichever_is_read_first() -> None:
    for order in ((A, B), (B, A)):
        valve = WatermarkValve([A, B], {A: at(10), B: at(5)}, 5)
        for channel in order:
            valve.close(channel, idle({A: 10, B: 5}[channel]))
        assert valve.watermark == 10


@pytest.mark.behaviour(185)
def test_an_ended_channel_counts_only_once_all_have_ended() -> None:
    valve = WatermarkValve([A, B], {A: at(10), B: at(5)}, 5)
    assert valve.close(A, ENDED) is None
    assert valve.advance(B, 7) == 7
    assert valve.close(B, idle(7)) == 10
    valve = next_epoch(valve, {A: ENDED, B: idle(7)})
    assert valve.close(B, ENDED) == MAX_WATERMARK
    assert valve.has_ended()


@pytest.mark.parametrize("ended_first", [True, False])
def test_the_last_watermark_of_a_channel_does_not_overtake_one_that_is_only_idle(ended_first: bool) -> None:
    valve = WatermarkValve([A, B], {A: at(10), B: at(5)})
    if ended_first:
        valve.advance(A, MAX_WATERMARK)
        valve.close(A, ENDED)
    valve.close(B, idle(5))
    if not ended_first:
        valve.advance(A, MAX_WATERMARK)
        valve.close(A, ENDED)
    assert valve.watermark == 10


def test_an_ended_channel_sends_no_further_control_row() -> None:
    valve = WatermarkValve([A, B], {A: ENDED, B: at(5)}, 5)
    assert valve.open_channels() == {B}
    assert A in valve
    assert C not in valve


def test_channels_without_control_row_are_as_they_were() -> None:
    valve = WatermarkValve([A, B, C], {A: at(10), B: at(7), C: at(5)}, 5)
    assert valve.close(C, at(20)) == 7
    assert valve.close_silent() is None
    assert not valve.is_idle()
    assert WatermarkValve([A, B], {}).close_silent() is None


def test_a_channel_that_was_idle_and_has_no_control_row_is_idle() -> None:
    valve = WatermarkValve([A, B], {A: at(100), B: idle(5)}, 100)
    assert valve.close(A, idle(150)) is None
    assert valve.close_silent() == 150
    assert valve.is_idle()


def test_a_channel_without_control_row_has_caught_up_by_its_blocks_or_not_at_all() -> None:
    for said, risen in ((99, 150), (100, None), (120, 120)):
        valve = WatermarkValve([A, B], {A: at(100), B: at(50)}, 100)
        valve.close(A, at(150))
        assert valve.advance(B, said) == (120 if said == 120 else None)
        assert valve.close_silent() == (None if said == 120 else risen)


def test_a_subtask_is_idle_when_all_channels_that_have_not_ended_are() -> None:
    valve = WatermarkValve([A, B, C], {C: ENDED})
    valve.close(A, idle(3))
    assert not valve.is_idle()
    valve.close(B, idle(3))
    assert valve.is_idle()
    assert not WatermarkValve([A], {A: ENDED}).is_idle()


def test_the_watermarks_of_a_block_keep_their_positions() -> None:
    valve = WatermarkValve([A, B], {A: at(0), B: at(15)}, 0)
    assert valve.combine(A, [(0, 5), (3, 10), (7, 20), (9, 30)]) == [(0, 5), (3, 10), (7, 15)]


@pytest.mark.parametrize("statuses", [{A: at(5), B: at(7)}, {A: idle(5), B: at(7)}, {A: ENDED, B: idle(7)}])
def test_an_epoch_in_which_nothing_happens_leaves_everything_as_it_was(statuses: dict[int, ChannelStatus]) -> None:
    for is_told in (True, False):
        valve = WatermarkValve([A, B], statuses, 5 if statuses[A] == at(5) else 7)
        for channel in valve.open_channels() if is_told else ():
            assert valve.close(channel, statuses[channel]) is None
        assert valve.close_silent() is None


def test_a_silent_channel_that_is_expected_to_end_has_ended_once_all_rows_were_read() -> None:
    valve = WatermarkValve([A, B], {A: at(5), B: at(9)}, 5)
    assert valve.close_silent({A}) == 9
    assert valve.open_channels() == {B}
    assert next_epoch(valve, {A: ENDED, B: at(9)}).close_silent({B}) == MAX_WATERMARK


def test_a_channel_that_says_otherwise_does_not_end() -> None:
    valve = WatermarkValve([A, B], {A: at(5), B: at(9)}, 5)
    valve.input_watermark_status(A, (None, False, False))
    assert valve.close_silent({A, B}) is None
    assert valve.open_channels() == {A}


def test_a_watermark_says_that_a_channel_is_not_idle_any_more() -> None:
    statuses = {A: at(5), B: idle(5)}
    silent, speaking = WatermarkValve([A, B], statuses, 5), WatermarkValve([A, B], statuses, 5)
    for valve in (silent, speaking):
        valve.advance(A, 20)
    speaking.advance(B, 7)
    assert (silent.close_silent(), silent.watermark) == (20, 20)
    assert (speaking.close_silent(), speaking.watermark) == (None, 7)
