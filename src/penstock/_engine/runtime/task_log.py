"""What user functions log, carried to the driver's log with operator and subtask."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock._engine.protocol.control import LogLine, encode
from penstock._engine.protocol.rows import DRIVER, RowKind
from penstock._engine.runtime.row_buffer import RowBuffer

#: Lines of one task and epoch that are kept; of more, only their number.
_MOST_LINES: Final = 1000


class TaskLog(logging.Handler):
    """Collects log records while a task runs."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: list[LogLine] = []
        self._dropped = 0
        self._operator, self._subtask = "", 0

    def turn_to(self, operator: str, subtask: int) -> None:
        """Say whose lines come next."""
        self._operator, self._subtask = operator, subtask

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record."""
        if len(self._lines) >= _MOST_LINES:
            self._dropped += 1
            return
        message = record.getMessage()
        if record.exc_info:
            message = f"{message}\n{logging.Formatter().formatException(record.exc_info)}"
        self._lines.append(
            LogLine(record.name, record.levelno, message, record.created, self._operator, self._subtask)
        )

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Collect from the root logger."""
        root = logging.getLogger()
        level = root.level
        root.addHandler(self)
        root.setLevel(min(level, logging.INFO))
        # py4j speaks to nobody in a task.
        logging.getLogger("py4j").setLevel(logging.WARNING)
        try:
            yield
        finally:
            root.removeHandler(self)
            root.setLevel(level)

    def send(self, rows: RowBuffer, slot: int, token: int) -> None:
        """Put the lines into a row for the driver."""
        if self._dropped:
            text = f"{self._dropped} more lines were logged in this epoch and are not shown"
            self._lines.append(LogLine("penstock", logging.WARNING, text, 0.0, self._operator, self._subtask))
        if self._lines:
            rows.add(slot, DRIVER, 0, 0, token, RowKind.LOG, encode(self._lines))
