"""Whether the acks of an epoch are accepted.

Spark may run a task twice, and the second run need not give the same records. Each attempt stamps its rows with a token
of its own and reports the tokens that it read, so the acks tell whether all of them saw one and the same epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from penstock._engine.protocol.control import SubtaskAck

#: A subtask: position of its vertex, and its index.
Subtask: TypeAlias = tuple[int, int]

#: By channel number: the subtask that sends.
Inputs: TypeAlias = Mapping[int, Subtask]


def void_reason(
    checkpoint_id: int,
    acks: Iterable[SubtaskAck],
    expected: Mapping[Subtask, Inputs],
) -> str | None:
    """Say why an epoch is void, None when it counts.

    Args:
        checkpoint_id: The checkpoint that the epoch was to complete.
        acks: What the tasks answered.
        expected: The subtasks of the dispatch, each with its channels.
    """
    tokens: dict[Subtask, int] = {}
    answered: dict[Subtask, SubtaskAck] = {}
    for ack in acks:
        subtask = (ack.vertex, ack.subtask)
        if subtask not in expected:
            return f"{_name(subtask)} answered without being asked"
        if subtask in answered:
            return f"{_name(subtask)} answered twice"
        if ack.checkpoint_id != checkpoint_id:
            return f"{_name(subtask)} answered for checkpoint {ack.checkpoint_id}"
        answered[subtask], tokens[subtask] = ack, ack.token
    missing = [subtask for subtask in expected if subtask not in answered]
    if missing:
        return f"{_name(missing[0])} did not answer" + (f", nor did {len(missing) - 1} others" if missing[1:] else "")
    return next(filter(None, (_misread(ack, expected[subtask], tokens) for subtask, ack in answered.items())), None)


def _misread(ack: SubtaskAck, inputs: Inputs, tokens: Mapping[Subtask, int]) -> str | None:
    """Say which channel a subtask did not read from the attempt that counts; senders that ended before are left out."""
    for channel, sender in inputs.items():
        token = tokens.get(sender)
        if token is not None and ack.reads.get(channel) != token:
            reader = _name((ack.vertex, ack.subtask))
            return f"{reader} read another attempt of {_name(sender)} than the one that answered"
    return None


def _name(subtask: Subtask) -> str:
    return f"subtask {subtask[1]} of vertex {subtask[0]}"
