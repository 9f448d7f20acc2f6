"""The last events of a job, for the text of an error that is a bug of ours."""

from __future__ import annotations

from collections import deque
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock._engine.coordinator.phases import Phase
    from penstock._engine.protocol.clocks import Moment

#: Events that are told.
LENGTH: Final = 50
#: Most characters of a value that are told with its event.
_WIDTH: Final = 60


class EventHistory:
    """Keeps the last events: when each one came, in which phase, and what of it is short and no user's data."""

    def __init__(self) -> None:
        self._entries: deque[tuple[int, str, str]] = deque(maxlen=LENGTH)

    def add(self, event: object, phase: Phase, now: Moment) -> None:
        """Keep an event."""
        self._entries.append((now.passed_ms, phase.name, _told(event)))

    def __str__(self) -> str:
        """Tell the events, oldest first, each with the milliseconds between it and the last one."""
        if not self._entries:
            return ""
        last_ms = self._entries[-1][0]
        lines = (f"  {passed_ms - last_ms} ms, {phase}: {text}" for passed_ms, phase, text in self._entries)
        return "\n".join(["The last events of the job:", *lines])


def _told(event: Any) -> str:
    """Tell an event by its type, and by its fields that are numbers and texts; of an error, by its type."""
    shown: list[str] = []
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, (int, str)):
            shown.append(f"{field.name}={str(value)[:_WIDTH]}")
        elif isinstance(value, Exception):
            shown.append(f"{field.name}={type(value).__name__}")
    return f"{type(event).__name__}({', '.join(shown)})"
