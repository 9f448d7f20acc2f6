"""A run whose driver is gone without having ended, as others see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LostView:
    """What is known of a run that nobody has seen end."""

    #: The last sign of its driver, in epoch milliseconds: its last chain entry, else its start.
    since_ms: int
    #: Where the driver was.
    host: str
    pid: int
    #: Whether its process is known to be gone; of a silent one on another host that is not known.
    is_gone: bool
    #: Whether another run of the job has begun since.
    was_resumed: bool = False
    #: The checkpoint that a start continues from; None without one that stayed.
    checkpoint: str | None = None
