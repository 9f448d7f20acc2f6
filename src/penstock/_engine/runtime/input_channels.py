"""The channels into one subtask during one epoch: the rows read from them, and their status."""

from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock._engine.protocol.control import ReadingTime
from penstock._engine.protocol.row_sums import MODULUS, row_weight
from penstock._engine.protocol.rows import channel_number, split_channel
from penstock._engine.runtime.watermark_valve import WatermarkValve

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock._engine.protocol.control import ChannelStatus, ChannelUpdate, EdgeStatus, SubtaskDispatch


class InputChannels:
    """The channels into one subtask.

    Args:
        inputs: The input of the subtask's head for each channel.
        dispatch: The subtask's part of the epoch.
        known: The status of each edge's channels when the epoch began.
        ends: The senders that are expected to end with the epoch, by edge.
        flows: Whether the epoch is pipelined, so that the channels are read at the same time.
    """

    def __init__(
        self,
        inputs: dict[int, int],
        dispatch: SubtaskDispatch,
        known: Mapping[int, EdgeStatus],
        ends: Mapping[int, Collection[int]] = MappingProxyType({}),
        *,
        flows: bool = False,
    ) -> None:
        self._inputs = inputs
        self._ends = {channel_number(edge, sender) for edge, senders in ends.items() for sender in senders}
        statuses = _by_channel(inputs, known)
        ended = {channel for channel, status in statuses.items() if status.ended}
        #: Channels whose senders had finished before the subtask was created: they end in its first epoch.
        self.ending = sorted(ended) if dispatch.is_new else []
        if dispatch.is_new:
            statuses = {channel: status for channel, status in statuses.items() if channel not in ended}
        self.valve = WatermarkValve(inputs, statuses, dispatch.input_watermark, flows=flows)
        #: The sum of the tokens of the rows that were read, by edge.
        self._tokens = defaultdict[int, int](int)
        #: Whether each channel is idle, and for how long its sender could have read.
        self._times = dict[int, ReadingTime]()

    def __contains__(self, channel: int) -> bool:
        return channel in self._inputs

    def __getitem__(self, channel: int) -> int:
        return self._inputs[channel]

    def __len__(self) -> int:
        return len(self._inputs)

    def note_row(self, channel: int, token: int) -> None:
        """Note that a row of an attempt with this token was read."""
        self._tokens[split_channel(channel)[0]] += token

    def input_watermark_status(self, channel: int, update: ChannelUpdate, token: int, read_ms: float) -> int | None:
        """Apply a channel's control row; return the subtask's watermark if it rises."""
        self.note_row(channel, token)
        self._times[channel] = ReadingTime(update[1], read_ms)
        return self.valve.input_watermark_status(channel, update)

    def is_closed(self, channel: int) -> bool:
        """Tell whether a channel's control row was read, which comes behind its data."""
        return channel in self._times

    def close_silent(self) -> int | None:
        """Note that all rows were read; return the subtask's watermark when that rises."""
        return self.valve.close_silent(self._ends)

    def rows_read(self, target: int) -> dict[int, int]:
        """Return the sum over the rows that were read, by edge (see `row_sums`)."""
        weight = row_weight(target)
        return {edge: tokens * weight % MODULUS for edge, tokens in self._tokens.items()}

    def ended_inputs(self) -> set[int]:
        """Return the inputs whose channels have all ended."""
        return set(self._inputs.values()) - {self._inputs[channel] for channel in self.valve.open_channels()}

    def time_of_senders(self) -> ReadingTime | None:
        """Return the smallest reading time that senders reported; idle senders are left out."""
        return ReadingTime.of_all(map(self._times.get, self.valve.open_channels()))


def _by_channel(inputs: dict[int, int], known: Mapping[int, EdgeStatus]) -> dict[int, ChannelStatus]:
    """Return the status of each channel of the edges with a known status."""
    statuses = {edge: status.statuses() for edge, status in known.items()}
    places = {channel: split_channel(channel) for channel in inputs}
    return {channel: statuses[edge][sender] for channel, (edge, sender) in places.items() if edge in statuses}
