"""The valve against a closed form: the watermark at an epoch's end does not depend on the order of reading."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from penstock._engine.protocol.control import ChannelStatus
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock._engine.runtime.watermark_valve import WatermarkValve

if TYPE_CHECKING:
    from random import Random


@dataclass
class Sender:
    """One channel's other end, with what it really said."""

    watermark: int = MIN_WATERMARK
    ended: bool = False
    idle: bool = False
    #: Of the running epoch: watermarks that rise.
    said: list[int] = field(default_factory=list)

    @property
    def status(self) -> ChannelStatus:
        return ChannelStatus(MAX_WATERMARK if self.ended else self.watermark, self.idle, self.ended)


@dataclass(frozen=True)
class Turn:
    """What one sender does in one epoch."""

    steps: tuple[int, ...]
    status: str


turns = st.builds(
    Turn,
    steps=st.lists(st.integers(0, 20), max_size=3).map(tuple),
    status=st.sampled_from(["active", "active", "active", "idle", "ended"]),
)


def expected_at_the_end(start: int, senders: list[Sender], fresh: set[int]) -> int:
    """Return the watermark of a subtask that has read all control rows of an epoch."""
    going_on = [sender for sender in senders if not sender.ended]
    if not going_on:
        return MAX_WATERMARK
    in_step = [sender.watermark for sender in going_on if not sender.idle and sender.watermark >= start]
    return max(start, min(in_step) if in_step else max(senders[channel].watermark for channel in fresh))


def read_epoch(
    valve: WatermarkValve, senders: list[Sender], known: dict[int, ChannelStatus], fresh: set[int], random: Random
) -> list[int]:
    """Read what the senders said, channels mixed in any order; return the subtask's watermarks.

    A sender may leave out its control row where that would say what is known from before, and from its watermarks.
    """
    risen: list[int] = []
    left = {channel: list(sender.said) for channel, sender in enumerate(senders) if channel in fresh}
    while left:
        channel = random.choice(list(left))
        if left[channel]:
            mark = valve.advance(channel, left[channel].pop(0))
        else:
            del left[channel]
            sender = senders[channel]
            before = known.get(channel, ChannelStatus())
            is_silent = (sender.idle, sender.ended) == (before.idle, before.ended) and random.random() < 0.7
            mark = None if is_silent else valve.close(channel, sender.status)
        if mark is not None:
            risen.append(mark)
    mark = valve.close_silent()
    return risen if mark is None else [*risen, mark]


@given(
    epochs=st.integers(1, 4).flatmap(
        lambda channels: st.lists(st.lists(turns, min_size=channels, max_size=channels), min_size=1, max_size=6)
    ),
    random=st.randoms(use_true_random=False),
)
def test_the_watermark_at_the_end_of_an_epoch_is_the_same_in_any_order_and_never_goes_back(
    epochs: list[list[Turn]], random: Random
) -> None:
    senders = [Sender() for _ in epochs[0]]
    known: dict[int, ChannelStatus] = {}
    watermark = MIN_WATERMARK
    for epoch in epochs:
        fresh = {channel for channel, sender in enumerate(senders) if not sender.ended}
        for channel in fresh:
            sender, turn = senders[channel], epoch[channel]
            sender.said = []
            for step in turn.steps:
                sender.watermark = max(sender.watermark, 0) + step
                sender.said.append(sender.watermark)
            sender.idle, sender.ended = turn.status == "idle", turn.status == "ended"
            if sender.ended:
                sender.said.append(MAX_WATERMARK)
        valve = WatermarkValve(range(len(senders)), known, watermark)
        assert valve.open_channels() == fresh
        risen = read_epoch(valve, senders, known, fresh, random)
        assert risen == sorted(set(risen))
        assert all(mark > watermark for mark in risen)
        watermark = expected_at_the_end(watermark, senders, fresh)
        assert valve.watermark == watermark
        assert valve.has_ended() == all(sender.ended for sender in senders)
        known = {channel: sender.status for channel, sender in enumerate(senders)}
