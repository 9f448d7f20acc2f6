"""The last events of a job, for the text of an `InternalError`."""

from __future__ import annotations

from collections import deque
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock._engine.coordinator.phases import Phase
    from penstock._engine.protocol.clocks import Moment

#: The number of events that are kept.
LENGTH: Final = 50
#: The longest text of a value, in characters.
_WIDTH: Final = 60


class EventHistory:
    """Keeps the last events: time, phase, and those fields that are short and no user data."""

    def __init__(self) -> None:
        self._entries: deque[tuple[int, str, str]] = deque(maxlen=LENGTH)

    def add(self, event: object, phase: Phase, now: Moment) -> None:
        """Keep an event."""
        self._entries.append((now.passed_ms, phase.name, _told(event)))

    def __str__(self) -> str:
        """List the events, oldest first, each with the milliseconds between it and the last one."""
        if not self._entries:
            return ""
        last_ms = self._entries[-1][0]
        lines = (f"  {passed_ms - last_ms} ms, {phase}: {text}" for passed_ms, phase, text in self._entries)
        return "\n".join(["The last events of the job:", *lines])


def _told(event: Any) -> str:
    """Return the text of an event: its type, its numbers and texts, and the types of errors."""
    shown: list[str] = []
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, (int, str)):
            shown.append(f"{field.name}={str(value)[:_WIDTH]}")
        elif isinstance(value, Exception):
            shown.append(f"{field.name}={type(value).__name__}")
    return f"{type(event).__name__}({', '.join(shown)})"
