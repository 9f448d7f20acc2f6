"""The rows that travel between the levels of one epoch: kinds and addresses.

Spark knows a row by two columns: the slot of the next level that it is for, and the row. `runtime.row_buffer` writes
and reads them, and `spark.epoch` declares them to Spark; nothing here looks into a payload.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

#: The `target` of rows for the driver: acks, failures, log lines.
DRIVER: Final = -1

#: The size limit of a payload; a larger record is sent as fragments.
MAX_PAYLOAD_BYTES: Final = 4 << 20

MIN_WATERMARK: Final = -(1 << 63)
MAX_WATERMARK: Final = (1 << 63) - 1
#: The timestamp of a record that has none, as Flink's ``Long.MIN_VALUE``.
NO_TIMESTAMP: Final = -(1 << 63)


class PayloadKind(IntEnum):
    """The kind of a row's payload."""

    #: One block: a batch in the encoding that its first byte names, see `runtime.blocks`.
    DATA = 0
    #: A part of a block that is too large for one row; the last part comes as DATA.
    FRAGMENT = 1
    #: The status of the channels between a sending and a receiving slot, see `control.ChannelClosing`.
    CLOSING = 2
    #: A subtask's acknowledgement for the driver, see `control.SubtaskAck`.
    ACK = 3
    #: An error in a user's function for the driver, see `control.TaskFailure`.
    FAILURE = 4
    #: Log lines of user functions, for the driver, see `control.LogLine`.
    LOG = 5
    #: Nothing: a pipelined epoch sends it behind rows, which Spark keeps until another row comes, and to idle slots.
    TICK = 6
    #: Whether a channel is idle, one byte: a pipelined epoch tells it when it changes, others at their end.
    IDLE = 7


def subtask_target(vertex: int, subtask: int) -> int:
    """Return the `target` of rows for one subtask."""
    return vertex << 16 | subtask


def target_subtask(target: int) -> tuple[int, int]:
    """Return the vertex and subtask that `subtask_target` named."""
    return divmod(target, 1 << 16)


def slot_target(level: int, slot: int) -> int:
    """Return the `target` of a row for all subtasks of a slot of some level."""
    return -2 - (level << 16 | slot)


def slot_of_target(target: int) -> tuple[int, int]:
    """Return the level and slot that `slot_target` named."""
    return divmod(-2 - target, 1 << 16)


def channel_number(edge: int, sender: int) -> int:
    """Return the number of the channels from one subtask through one edge; `target` distinguishes the receivers."""
    return edge << 16 | sender


def split_channel(channel: int) -> tuple[int, int]:
    """Return the edge and the sender that `channel_number` named."""
    return divmod(channel, 1 << 16)
