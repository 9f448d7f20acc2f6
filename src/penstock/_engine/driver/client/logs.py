"""Sets Penstock's log up on standard error, as lines of text or JSON, if `penstock.log.format` is set.

Without that key the program's own logging configuration applies.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from penstock.common import option_table
from penstock.common.redaction import shown_text

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration

_LOGGER = "penstock"


class JsonFormatter(logging.Formatter):
    """Formats each log record as one line of JSON, with the traceback under ``error``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a log record."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info is not None and record.exc_info[1] is not None:
            error = record.exc_info[1]
            entry["error"] = {
                "type": type(error).__qualname__,
                "message": shown_text(str(error)),
                "traceback": shown_text("".join(traceback.format_exception(error))),
            }
        return json.dumps(entry, ensure_ascii=False)


class _Handler(logging.StreamHandler[TextIO]):
    """Penstock's handler; a second job in the process changes it rather than adding another."""


def set_up_log(configuration: Configuration) -> None:
    """Send Penstock's log to standard error in the configured format; the last job's setting counts."""
    form = configuration.get(option_table.LOG_FORMAT)
    if form is None:
        return
    logger = logging.getLogger(_LOGGER)
    handler = next((one for one in logger.handlers if isinstance(one, _Handler)), None)
    if handler is None:
        handler = _Handler(sys.stderr)
        logger.addHandler(handler)
        logger.propagate = False
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logger.setLevel(configuration.get(option_table.LOG_LEVEL))
