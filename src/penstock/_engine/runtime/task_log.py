"""Sends the log lines of user functions to the driver's log, with operator and subtask.

A line that cannot be shown as it is never fails a job: it is escaped, cut off or counted.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from penstock._engine.protocol.clocks import now_ms
from penstock._engine.protocol.control import LogLine, encode
from penstock._engine.protocol.rows import DRIVER, PayloadKind
from penstock._engine.runtime.row_buffer import ExchangeRow
from penstock.common.user_values import in_64_bits

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock._engine.runtime.row_buffer import RowBuffer

#: Lines, and characters in them, that are kept of one task and epoch; further lines are only counted.
_MOST_LINES: Final = 1000
_MOST_CHARACTERS: Final = 4 << 20


class LogSource(Protocol):
    """The source of log lines: a subtask."""

    @property
    def operator_name(self) -> str:
        """The operator that runs now."""
        ...

    @property
    def place(self) -> tuple[int, int]:
        """Its vertex and subtask."""
        ...


class _LoweredLevel:
    """The level of the root logger, which is lowered as long as any task collects log lines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        #: The level before the first user.
        self._before = logging.NOTSET

    @contextmanager
    def use(self) -> Generator[None]:
        """Lower the level of the root logger while a task runs."""
        root = logging.getLogger()
        with self._lock:
            if self._users == 0:
                self._before = root.level
            self._users += 1
            root.setLevel(min(root.level, logging.INFO))
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    root.setLevel(self._before)


#: Of this process: tasks of several jobs may run in it side by side.
_LEVEL: Final = _LoweredLevel()


class TaskLog(logging.Handler):
    """Collects log records while a task runs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: list[LogLine] = []
        self._characters = 0
        self._dropped = 0
        self._speaker: LogSource | None = None

    def turn_to(self, speaker: LogSource) -> None:
        """Set the source of the next lines."""
        self._speaker = speaker

    def emit(self, record: logging.LogRecord) -> None:
        """Collect a record."""
        if len(self._lines) >= _MOST_LINES or self._characters >= _MOST_CHARACTERS:
            self._dropped += 1
            return
        try:
            text = self.format(record)
            line = self._line(str(record.name), record.levelno, text, float(record.created))
        except Exception:  # noqa: BLE001 - as logging itself does with a line that does not fit its arguments
            self.handleError(record)
            return
        self._characters += len(line.message)
        self._lines.append(line)

    @contextmanager
    def listening(self) -> Generator[None]:
        """Collect from the root logger."""
        root = logging.getLogger()
        # py4j has no JVM to talk to in a task.
        logging.getLogger("py4j").setLevel(logging.WARNING)
        with _LEVEL.use():
            root.addHandler(self)
            try:
                yield
            finally:
                root.removeHandler(self)

    def send(self, rows: RowBuffer, slot: int, token: int) -> None:
        """Send the lines as a row for the driver."""
        if self._dropped:
            text = f"{self._dropped} more lines were logged in this epoch and are not shown"
            self._lines.append(self._line("penstock", logging.WARNING, text, now_ms() / 1000))
        if self._lines:
            rows.add(ExchangeRow(slot, DRIVER, 0, 0, token, PayloadKind.LOG, encode(self._lines)))

    def _line(self, logger: str, level: int, text: str, created: float) -> LogLine:
        speaker = self._speaker
        operator, subtask = ("", 0) if speaker is None else (speaker.operator_name, speaker.place[1])
        return LogLine(logger, in_64_bits(int(level)), text, created, operator, subtask)
