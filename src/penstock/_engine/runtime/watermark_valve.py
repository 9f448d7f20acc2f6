"""The watermark of a subtask: the minimum over its channels.

A channel counts as idle or ended only once its control row of this epoch was read. If all rows were read without one,
the channel is as expected. Until then it holds the watermark, so no record is late because channels are read one after
the other; in a pipelined epoch they are not, so there a channel that was idle before holds nothing. As in Flink's
StatusWatermarkValve, a channel that resumes with a watermark smaller than the subtask's is left out until it has caught
up, and when all channels are idle, their greatest watermark counts. An ended channel is left out while others are open:
Flink would use its MAX_WATERMARK when the others are idle, and their later records would be late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.protocol.control import UNKNOWN, ChannelStatus
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from penstock._engine.protocol.control import ChannelUpdate


class WatermarkValve:
    """Combines the watermarks of one subtask's channels during an epoch.

    Args:
        channels: The channels that the subtask reads.
        known: The status of each channel at the end of the last epoch; a missing channel has sent nothing yet.
        watermark: The subtask's watermark at the end of the last epoch.
        flows: Whether the channels are read at the same time, and their status is of a running job.
    """

    def __init__(
        self,
        channels: Iterable[int],
        known: Mapping[int, ChannelStatus],
        watermark: int = MIN_WATERMARK,
        *,
        flows: bool = False,
    ) -> None:
        statuses = {channel: known.get(channel, UNKNOWN) for channel in channels}
        self._ended = {channel for channel, status in statuses.items() if status.ended}
        #: For channels that had not ended when the epoch began: the last watermark, and the watermark that counts.
        self._said = {channel: status.watermark for channel, status in statuses.items() if not status.ended}
        self._marks = {channel: max(said, watermark) for channel, said in self._said.items()}
        self._were_idle = {channel for channel in self._said if statuses[channel].idle}
        self._flows = flows
        #: The idle channels, and the channels that count; by the control rows of this epoch, if it does not flow.
        self._idle = set(self._were_idle) if flows else set[int]()
        late = {channel for channel, said in self._said.items() if flows and said < watermark}
        self._counting = set(self._marks) - self._idle - late
        self._unread = set(self._marks)
        #: The subtask's watermark.
        self.watermark = watermark

    def __contains__(self, channel: int) -> bool:
        return channel in self._marks or channel in self._ended

    def advance(self, channel: int, watermark: int) -> int | None:
        """Apply the watermark of a channel, which is active then; return the subtask's if that rises, else None."""
        before = self._marks[channel]
        # The last watermark counts with the control row: only then is it known which of the other channels are idle.
        if watermark == MAX_WATERMARK:
            return None
        self._said[channel] = watermark
        self._wake(channel)
        if watermark >= self.watermark:  # one that was idle or late may not have counted
            self._counting.add(channel)
        if watermark <= before:
            return None
        self._marks[channel] = watermark
        return self._rise() if before <= self.watermark or self._flows else None

    def note_idle(self, channel: int, *, idle: bool) -> int | None:
        """Note within a pipelined epoch whether a channel is idle; return the subtask's watermark if it rises."""
        if channel not in self._marks:  # it has ended
            return None
        if idle:
            self._were_idle.add(channel)
            self._idle.add(channel)
            self._counting.discard(channel)
        else:
            self._wake(channel)
            if self._said[channel] >= self.watermark:
                self._counting.add(channel)
        return self._rise()

    def _wake(self, channel: int) -> None:
        self._were_idle.discard(channel)
        self._idle.discard(channel)

    def combine(self, channel: int, marks: list[tuple[int, int]] | tuple[()]) -> list[tuple[int, int]] | tuple[()]:
        """Combine a block's watermarks with those of the other channels into the subtask's."""
        if not marks:
            return ()
        risen = [(position, self.advance(channel, watermark)) for position, watermark in marks]
        return [(position, watermark) for position, watermark in risen if watermark is not None]

    def input_watermark_status(self, channel: int, update: ChannelUpdate) -> int | None:
        """Apply a channel's control row; return the subtask's watermark if it rises, else None."""
        watermark, idle, ended = update
        return self.close(channel, ChannelStatus(self._said[channel] if watermark is None else watermark, idle, ended))

    def close(self, channel: int, status: ChannelStatus) -> int | None:
        """Apply a channel's status at the end of the epoch; return the subtask's watermark if it rises."""
        self._unread.discard(channel)
        if status.ended:
            self._ended.add(channel)
        else:
            self._marks[channel] = max(self._marks[channel], status.watermark)
            if status.idle:
                self._idle.add(channel)
            else:
                self._idle.discard(channel)
        if status.ended or status.idle or status.watermark < self.watermark:
            self._counting.discard(channel)
        else:
            self._counting.add(channel)
        return self._rise()

    def close_silent(self, ends: AbstractSet[int] = frozenset()) -> int | None:
        """Note that all control rows were read: channels without one are as expected; returns as `close` does.

        Args:
            ends: The channels that are expected to end; the others are expected to be unchanged.
        """
        silent, self._unread = self._unread, set[int]()
        ended = silent & ends
        self._ended |= ended
        self._counting -= ended
        silent -= ended
        idle = silent & self._were_idle
        self._idle |= idle
        self._counting -= idle
        self._counting -= {channel for channel in silent if self._said[channel] < self.watermark}
        return self._rise()

    def _rise(self) -> int | None:
        """Raise the watermark to the smallest one of the channels that count; return it if it rises."""
        if self._counting:
            risen = min(map(self._marks.__getitem__, self._counting))
        elif self._ended and self.has_ended():
            risen = MAX_WATERMARK
        elif self._flows and not self.is_idle():  # an active channel has not caught up
            return None
        else:
            risen = max(self._marks.values(), default=MIN_WATERMARK)
        if risen <= self.watermark:
            return None
        self.watermark = risen
        return risen

    def open_channels(self) -> set[int]:
        """Return the channels that have not ended."""
        return self._marks.keys() - self._ended

    def has_ended(self) -> bool:
        """Return whether all channels have ended."""
        return self._ended >= self._marks.keys()

    def is_idle(self) -> bool:
        """Return whether all channels that have not ended are idle."""
        still_open = self.open_channels()
        return bool(still_open) and self._idle >= still_open
