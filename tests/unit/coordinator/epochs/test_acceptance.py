from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.coordinator.acks import ack

from penstock._engine.coordinator.epochs.acceptance import void_reason

if TYPE_CHECKING:
    from penstock._engine.protocol.control import SubtaskAck

#: Two senders, and two receivers that read both through channels 10 and 11.
EXPECTED = {(0, 0): {}, (0, 1): {}, (1, 0): {10: (0, 0), 11: (0, 1)}, (1, 1): {10: (0, 0), 11: (0, 1)}}
READS = {10: 100, 11: 101}


def acks() -> list[SubtaskAck]:
    return [
        ack(0, 0, token=100),
        ack(0, 1, token=101),
        ack(1, 0, token=102, reads=READS),
        ack(1, 1, token=103, reads=READS),
    ]


def test_epoch_in_which_all_read_what_was_answered_counts() -> None:
    assert void_reason(7, acks(), EXPECTED) is None


def test_subtask_that_did_not_answer_makes_it_void() -> None:
    assert void_reason(7, acks()[:-1], EXPECTED) == "subtask 1 of vertex 1 did not answer"


def test_subtask_that_answered_twice_makes_it_void() -> None:
    assert void_reason(7, [*acks(), ack(0, 0, token=999)], EXPECTED) == "subtask 0 of vertex 0 answered twice"


def test_subtask_that_was_not_asked_makes_it_void() -> None:
    assert void_reason(7, [*acks(), ack(2, 0)], EXPECTED) == "subtask 0 of vertex 2 answered without being asked"


def test_answer_for_another_checkpoint_makes_it_void() -> None:
    assert void_reason(8, acks(), EXPECTED) == "subtask 0 of vertex 0 answered for checkpoint 7"


def test_two_receivers_that_read_different_attempts_make_it_void() -> None:
    torn = [*acks()[:-1], ack(1, 1, token=103, reads={10: 100, 11: 555})]
    assert void_reason(7, torn, EXPECTED) == (
        "subtask 1 of vertex 1 read another attempt of subtask 1 of vertex 0 than the one that answered"
    )


def test_channel_that_was_not_read_makes_it_void() -> None:
    assert void_reason(7, [*acks()[:-1], ack(1, 1, token=103, reads={10: 100})], EXPECTED) is not None


def test_sender_that_finished_before_need_not_be_read() -> None:
    expected = {subtask: inputs for subtask, inputs in EXPECTED.items() if subtask != (0, 1)}
    rest = [ack(0, 0, token=100), *(ack(1, index, token=102 + index, reads={10: 100}) for index in range(2))]
    assert void_reason(7, rest, expected) is None
