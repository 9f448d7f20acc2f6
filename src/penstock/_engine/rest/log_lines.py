"""The last lines that Penstock has logged in this process, for pages and archives."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from penstock.common.redaction import shown_text

_LOGGER: Final = "penstock"
#: The lines that are kept, and the most characters of one: a traceback may be long.
_KEPT: Final = 300
_LONGEST: Final = 4_000


class LogLines(logging.Handler):
    """Keeps the last lines of Penstock's log, as far as its level lets them through, and changes nothing of it."""

    #: Whether it shows nothing itself: the handler of last resort writes what no other handler gets.
    only_keeps: Final = True

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[tuple[int, str, str]] = deque(maxlen=_KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, and let it be shown where it was shown without this handler."""
        text = record.getMessage() if record.exc_text is None else f"{record.getMessage()}\n{record.exc_text}"
        self._lines.append((int(record.created * 1000), record.levelname, shown_text(text)[:_LONGEST]))
        last_resort = logging.lastResort
        if last_resort is not None and record.levelno >= last_resort.level and _is_alone(self, record.name):
            last_resort.handle(record)

    def lines(self) -> list[tuple[int, str, str]]:
        """Return the time in epoch milliseconds, the level and the text of each line, oldest first."""
        return list(self._lines)


def _is_alone(handler: LogLines, name: str) -> bool:
    """Tell whether a logger's lines have no other handler: without one, logging writes them to standard error."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        if any(other is not handler for other in logger.handlers):
            return False
        logger = logger.parent if logger.propagate else None
    return True


_of_process: Final = LogLines()


def keep_lines() -> None:
    """Keep the lines of this process from now on."""
    logging.getLogger(_LOGGER).addHandler(_of_process)


def last_lines() -> list[tuple[int, str, str]]:
    """Return the lines of this process that are kept."""
    return _of_process.lines()
