"""The watermark of a subtask: the minimum over its channels, none of which may be read ahead of the others.

A channel counts as idle or ended only once its control row of this epoch was read; until then it counts with its last
watermark. So no record is late because channels are read one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock._engine.protocol.control import ChannelStatus
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK


class Valve:
    """Follows the channels of one subtask through an epoch.

    Args:
        channels: The channels that it reads: number -> input index.
        known: How far each was at the end of the last epoch; one that is not named has not spoken yet.
    """

    def __init__(self, channels: Mapping[int, int], known: Mapping[int, ChannelStatus]) -> None:
        start = ChannelStatus()
        self._inputs = dict(channels)
        self._statuses = {channel: known.get(channel, start) for channel in channels}
        self._marks = {
            channel: MAX_WATERMARK if status.ended else status.watermark for channel, status in self._statuses.items()
        }
        self._idle: set[int] = set()
        self._closed = {channel for channel, status in self._statuses.items() if status.ended}
        self.watermark = min(self._marks.values(), default=MIN_WATERMARK)

    def __contains__(self, channel: int) -> bool:
        return channel in self._marks

    def advance(self, channel: int, watermark: int) -> int | None:
        """Take a channel's watermark; return the subtask's when that rises, else None."""
        before = self._marks[channel]
        if watermark <= before:
            return None
        self._marks[channel] = watermark
        self._idle.discard(channel)
        return self._rise() if before <= self.watermark else None

    def combine(self, channel: int, marks: list[tuple[int, int]] | tuple[()]) -> list[tuple[int, int]] | tuple[()]:
        """Turn a block's own watermarks into those that they mean for the subtask."""
        if not marks:
            return ()
        risen = [(position, self.advance(channel, watermark)) for position, watermark in marks]
        return [(position, watermark) for position, watermark in risen if watermark is not None]

    def close(self, channel: int, status: ChannelStatus) -> int | None:
        """Take a channel's control row; return the subtask's watermark when that rises, else None."""
        self._closed.add(channel)
        self._marks[channel] = MAX_WATERMARK if status.ended else max(self._marks[channel], status.watermark)
        if status.idle and not status.ended:
            self._idle.add(channel)
        else:
            self._idle.discard(channel)
        self._statuses[channel] = ChannelStatus(
            max(self._statuses[channel].watermark, status.watermark), status.idle, status.ended
        )
        return self._rise()

    def _rise(self) -> int | None:
        speaking = [mark for channel, mark in self._marks.items() if channel not in self._idle]
        risen = min(speaking, default=self.watermark)
        if risen <= self.watermark:
            return None
        self.watermark = risen
        return risen

    def missing(self) -> list[int]:
        """Return the channels whose control row has not come."""
        return [channel for channel in self._marks if channel not in self._closed]

    def ended_inputs(self) -> set[int]:
        """Return the inputs all of whose channels have ended."""
        inputs = set(self._inputs.values())
        return inputs - {self._inputs[channel] for channel, status in self._statuses.items() if not status.ended}

    def has_ended(self) -> bool:
        """Return whether all channels have ended."""
        return all(status.ended for status in self._statuses.values())

    def is_idle(self) -> bool:
        """Return whether all channels that have not ended are idle."""
        speaking = [channel for channel, status in self._statuses.items() if not status.ended]
        return bool(speaking) and all(channel in self._idle for channel in speaking)

    def statuses(self) -> dict[int, ChannelStatus]:
        """Return where each channel stands, for the next epoch."""
        return {
            channel: ChannelStatus(
                status.watermark if status.ended else self._marks[channel], status.idle, status.ended
            )
            for channel, status in self._statuses.items()
        }
