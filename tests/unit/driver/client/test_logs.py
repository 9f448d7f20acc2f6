"""The log of Penstock's own: what `penstock.log.format` makes of it."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from penstock._engine.driver.client.logs import set_up_log
from penstock.common.configuration import Configuration

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    """The logger as a new process has it, and afterwards as it was."""
    log = logging.getLogger("penstock")
    before = (log.handlers[:], log.level, log.propagate)
    yield log
    log.handlers, log.propagate = before[0], before[2]
    log.setLevel(before[1])


def test_each_entry_is_one_line_of_json_with_its_error(
    logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    set_up_log(Configuration.from_dict({"penstock.log.format": "json"}))
    logger.info("Job %r starts\nnow", "prices")
    try:
        int("bad")
    except ValueError:
        logging.getLogger("penstock.part").warning("It failed", exc_info=True)
    started, failed = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    assert (started["level"], started["logger"], started["message"]) == ("INFO", "penstock", "Job 'prices' starts\nnow")
    assert started["time"].endswith("+00:00")
    assert failed["error"]["type"] == "ValueError"
    assert failed["error"]["message"].startswith("invalid literal")
    assert "test_logs.py" in failed["error"]["traceback"]


def test_second_job_does_not_write_entries_twice(logger: logging.Logger, capfd: pytest.CaptureFixture[str]) -> None:
    for form in ("json", "text"):
        set_up_log(Configuration.from_dict({"penstock.log.format": form, "penstock.log.level": "WARNING"}))
    logger.info("not shown")
    logger.warning("shown")
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("WARNING shown")


def test_logging_of_the_program_is_left_alone_without_the_key(logger: logging.Logger) -> None:
    before = logger.handlers[:]
    set_up_log(Configuration())
    assert (logger.handlers, logger.propagate) == (before, True)
