"""What was recovered of a batch job whose driver was lost, as others see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RecoveryView:
    """The recovery of a batch job."""

    #: Finished subtasks that the events of earlier drivers name.
    recorded: int = 0
    #: By vertex: the subtasks that count as finished, and did not run in this driver.
    recovered: Mapping[int, int] = field(default_factory=dict[int, int])
    #: By vertex: finished subtasks that run again, because a result is lost.
    ran_again: Mapping[int, int] = field(default_factory=dict[int, int])
    #: What is wrong with the events of earlier drivers; "" where they are whole.
    damage: str = ""

    @property
    def recovered_subtasks(self) -> int:
        """The number of subtasks that did not run in this driver."""
        return sum(self.recovered.values())

    @property
    def repeated_subtasks(self) -> int:
        """The number of finished subtasks that run again."""
        return sum(self.ran_again.values())
