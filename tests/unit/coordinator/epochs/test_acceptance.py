"""Whether the acks of an epoch are of one and the same epoch."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.unit.coordinator.acks import ack
from tests.unit.plan.graphs import graph

from penstock._engine.coordinator.epochs.acks import void_reason
from penstock._engine.protocol.row_sums import MODULUS, row_weight
from penstock._engine.protocol.rows import subtask_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.protocol.control import SubtaskAck

EDGES = graph([2, 2], [(0, 1)]).edges
EXPECTED = {(vertex, subtask): None for vertex in (0, 1) for subtask in (0, 1)}
#: By sender: the token of the attempt that answers.
TOKENS = {sender: Random(sender).getrandbits(62) for sender in (0, 1)}
OTHER = Random(9).getrandbits(62)
#: By sender and receiver: rows.
ROWS = {(0, 0): 3, (0, 1): 1, (1, 0): 4, (1, 1): 0}
#: By receiver: the tokens of the rows that it reads.
READ = {
    receiver: [TOKENS[sender] for (sender, to), count in ROWS.items() if to == receiver for _ in range(count)]
    for receiver in (0, 1)
}


def acks(read: Mapping[int, list[int]] = READ) -> list[SubtaskAck]:
    """What all subtasks answer, given the tokens of the rows that each receiver has read."""
    weights = [row_weight(subtask_target(1, receiver)) for receiver in (0, 1)]
    senders = [
        ack(0, sender, token=token, rows_sent={0: sum(ROWS[sender, to] * weights[to] for to in (0, 1)) % MODULUS})
        for sender, token in TOKENS.items()
    ]
    readers = [
        ack(1, receiver, token=102, rows_read={0: sum(read[receiver]) * weights[receiver] % MODULUS})
        for receiver in (0, 1)
    ]
    return senders + readers


def test_epoch_in_which_all_read_what_was_answered_counts() -> None:
    assert void_reason(7, acks(), EXPECTED, EDGES) is None


def test_subtask_that_did_not_answer_makes_it_void() -> None:
    assert void_reason(7, acks()[:-1], EXPECTED, EDGES) == "subtask 1 of vertex 1 did not answer"


def test_subtask_that_answered_twice_makes_it_void() -> None:
    assert void_reason(7, [*acks(), ack(0, 0, token=999)], EXPECTED, EDGES) == "subtask 0 of vertex 0 answered twice"


def test_subtask_that_was_not_asked_makes_it_void() -> None:
    assert void_reason(7, [*acks(), ack(2, 0)], EXPECTED, EDGES) == "subtask 0 of vertex 2 answered without being asked"


def test_answer_for_another_checkpoint_makes_it_void() -> None:
    assert void_reason(8, acks(), EXPECTED, EDGES) == "subtask 0 of vertex 0 answered for checkpoint 7"


@pytest.mark.parametrize(
    "read",
    [
        {0: READ[0], 1: [OTHER]},
        {0: [OTHER, *READ[0][1:]], 1: READ[1]},
        {0: READ[0][1:], 1: READ[1]},
        {0: READ[0], 1: []},
        {0: [*READ[0], TOKENS[1]], 1: READ[1]},
        {0: READ[0], 1: [*READ[1], OTHER]},
        {0: READ[1], 1: READ[0]},
        {0: READ[0][1:], 1: [*READ[1], READ[0][0]]},
    ],
    ids=["other attempt", "other in part", "one lost", "all lost", "one twice", "of nobody", "swapped", "gone astray"],
)
def test_rows_that_are_not_those_of_the_attempts_that_answered_make_it_void(read: dict[int, list[int]]) -> None:
    assert void_reason(7, acks(read), EXPECTED, EDGES) == (
        "vertex 1 read other rows of vertex 0 than those of the attempts that answered"
    )


def test_sender_that_finished_before_need_not_be_read() -> None:
    expected = dict.fromkeys(subtask for subtask in EXPECTED if subtask != (0, 1))
    read = {to: [token for token in tokens if token == TOKENS[0]] for to, tokens in READ.items()}
    rest = [one for one in acks(read) if (one.vertex, one.subtask) != (0, 1)]
    assert void_reason(7, rest, expected, EDGES) is None
    assert void_reason(7, [*rest[1:], replace(rest[0], token=OTHER)], expected, EDGES) is not None
