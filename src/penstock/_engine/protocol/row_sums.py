"""Sums that show the driver whether all rows of an edge were read, each from the accepted attempt.

A row has a weight, which depends on the subtask that it is for. A sender reports the sum of the weights of its rows, a
receiver the sum of weight times token. If each row was read once, by its receiver, from the attempt that answered, then
the senders' sums times their tokens are the receivers' sums together. Tokens are random numbers of 62 bits, so anything
else has that sum once in 2^60 times. So two numbers for each subtask and edge do what else takes one for each channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Sums are taken modulo this prime number, so that they fit into 64 bits.
MODULUS: Final = (1 << 61) - 1

_MASK: Final = (1 << 64) - 1


def row_weight(target: int) -> int:
    """Return the weight of a row for one subtask: a pseudo-random number, the same in every process (SplitMix64).

    Args:
        target: The subtask, see `rows.subtask_target`.
    """
    mixed = (target + 1) * 0x9E3779B97F4A7C15 & _MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return (mixed ^ mixed >> 31) % MODULUS


def are_read(sent: Iterable[tuple[int, int]], read: Iterable[int]) -> bool:
    """Return whether the rows that were read through an edge are the rows that were sent.

    Args:
        sent: The token of the accepted attempt and the sum over its sent rows, for each sender.
        read: The sum over the rows that it read, for each receiver.
    """
    return sum(token * rows for token, rows in sent) % MODULUS == sum(read) % MODULUS
