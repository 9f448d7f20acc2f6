"""How a file source looks for new files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.common.time import millis_of

if TYPE_CHECKING:
    from penstock.common.time import Duration


@dataclass(frozen=True, slots=True)
class Monitoring:
    """How a source looks for new files.

    Args:
        interval_ms: The time between two looks.
        stable_for_ms: How long a file must not change, at least from one look to the next.
        by_rename: Whether files appear by rename only, and are complete then.
    """

    interval_ms: int
    stable_for_ms: int = 0
    by_rename: bool = False

    @staticmethod
    def of(discovery_interval: Duration, stable_for: Duration | None, by_rename: bool) -> Monitoring:
        """Return the settings of a builder.

        Raises:
            TypeError: A time is no Duration.
            ValueError: A time is not positive, or both settings are given.
        """
        interval_ms = millis_of("discovery_interval", discovery_interval)
        stable_for_ms = None if stable_for is None else millis_of("stable_for", stable_for)
        for name, time_ms in (("discovery_interval", interval_ms), ("stable_for", stable_for_ms)):
            if time_ms is not None and time_ms <= 0:
                msg = f"{name} must be at least 1 ms, not {time_ms} ms."
                raise ValueError(msg)
        if by_rename and stable_for is not None:
            msg = "Files that come by rename are complete when they are there: give stable_for or by_rename, not both."
            raise ValueError(msg)
        return Monitoring(interval_ms, stable_for_ms or 0, by_rename)
