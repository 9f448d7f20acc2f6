"""The base of the operators at the head of a vertex without inputs: sources, and what passes on what was committed."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock._engine.operators.base import Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engine.operators.base import Output


class EarlyEnd(Protocol):
    """Tells whether the driver lets the epoch end now."""

    def __call__(self, *, wants: bool) -> bool:
        """Tell it; `wants` says whether something waits for the end: what a reader has asked for, or a failure."""
        ...


def never(*, wants: bool) -> bool:
    """Let an epoch have its usual length."""
    del wants
    return False


@dataclass(slots=True)
class ReadLimits:
    """The read limits of one epoch: zero records or bytes mean no limit, and one poll always runs."""

    max_records: int
    max_bytes: int
    max_time_ms: int
    #: Whether reading lasts for all of the time, although there may be nothing to read for a while.
    flows: bool = False
    ends: EarlyEnd = never

    def reached(self, records: int, size: int, elapsed_ms: float) -> bool:
        """Return whether reading has to end."""
        return elapsed_ms >= self.max_time_ms or (0 < self.max_records <= records) or (0 < self.max_bytes < size)


class InputHead(Operator):
    """An operator that gets its input from no other operator."""

    def __init__(self) -> None:
        super().__init__()
        #: Whether an operator or edge after it takes columns.
        self.takes_batches = False
        self.ended = False
        #: Whether its last poll left more to read.
        self.more_available = False
        #: The time of this epoch that it has waited for input, in seconds.
        self.waited_s = 0.0

    @abstractmethod
    def read(self, limits: ReadLimits, size: Callable[[], int]) -> Iterator[Output]:
        """Yield batches until the limits are reached or no input is left; in a flow, an empty one behind each poll.

        Args:
            limits: The limits of the epoch.
            size: Returns the encoded bytes of all yielded records.
        """
