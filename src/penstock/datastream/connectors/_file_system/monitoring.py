"""How a file source looks for new files."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.time import Duration


@dataclass(frozen=True, slots=True)
class Monitoring:
    """How a source looks for new files.

    Args:
        interval_ms: The time between two looks.
        stable_for_ms: How long a file has to stay the same, at least from one look to the next.
        by_rename: Whether files come by rename only, and are complete when they are there.
    """

    interval_ms: int
    stable_for_ms: int = 0
    by_rename: bool = False

    @staticmethod
    def of(discovery_interval: Duration, stable_for: Duration | None, by_rename: bool) -> Monitoring:
        """Return what a builder was told.

        Raises:
            TypeError: A time is no Duration.
            ValueError: A time is not positive, or files that come by rename should wait.
        """
        for name, time in (("discovery_interval", discovery_interval), ("stable_for", stable_for)):
            if time is not None and not isinstance(time, Duration):  # pyright: ignore[reportUnnecessaryIsInstance]
                msg = f"{name} must be a Duration, such as Duration.of_seconds(10), not {time!r}."
                raise TypeError(msg)
            if time is not None and time.to_millis() <= 0:
                msg = f"{name} must be at least 1 ms: {time}."
                raise ValueError(msg)
        if by_rename and stable_for is not None:
            msg = "Files that come by rename are complete when they are there: give stable_for or by_rename, not both."
            raise ValueError(msg)
        return Monitoring(discovery_interval.to_millis(), stable_for.to_millis() if stable_for else 0, by_rename)
