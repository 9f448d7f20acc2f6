"""Penstock's own log on standard error, as lines of text or of JSON, where `penstock.log.format` asks for it.

Without that key nothing is set up here: the log goes where the program's own logging sends it.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from penstock.common import option_table

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration

_LOGGER = "penstock"


class JsonFormatter(logging.Formatter):
    """Writes each entry as one line of JSON, with what was raised under ``error``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of an entry."""
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
                "message": str(error),
                "traceback": "".join(traceback.format_exception(error)),
            }
        return json.dumps(entry, ensure_ascii=False)


class _Handler(logging.StreamHandler[TextIO]):
    """The handler of ours; a second job in the process changes it rather than adding another."""


def set_up_log(configuration: Configuration) -> None:
    """Send Penstock's log to standard error in the format that a job asks for; the last job's word counts."""
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
