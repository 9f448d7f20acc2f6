"""Decides whether the acks of an epoch are accepted.

Spark may run a task twice, and the second attempt need not produce the same records. Each attempt stamps its rows with
its own token and reports the tokens that it read, so the acks show whether all subtasks read the same attempts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from penstock._engine.protocol.control import SubtaskAck

#: A subtask: position of its vertex, and its index.
Subtask: TypeAlias = tuple[int, int]

#: By channel number: the sending subtask.
Inputs: TypeAlias = Mapping[int, Subtask]


def void_reason(
    checkpoint_id: int,
    acks: Iterable[SubtaskAck],
    expected: Mapping[Subtask, Inputs],
) -> str | None:
    """Say why an epoch is void; return None if it counts.

    Args:
        checkpoint_id: The checkpoint of the epoch.
        acks: The answers of the tasks.
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
    """Name a channel that a subtask read from a void attempt; senders that ended earlier do not count."""
    for channel, sender in inputs.items():
        token = tokens.get(sender)
        if token is not None and ack.reads.get(channel) != token:
            reader = _name((ack.vertex, ack.subtask))
            return f"{reader} read another attempt of {_name(sender)} than the one that answered"
    return None


def _name(subtask: Subtask) -> str:
    return f"subtask {subtask[1]} of vertex {subtask[0]}"
