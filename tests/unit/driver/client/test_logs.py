"""The log of Penstock's own: what `penstock.log.format` makes of it."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from tests.kit.stories import Sheet, Story

from penstock._engine.driver.client.logs import set_up_log
from penstock._engine.protocol.control import StopMode
from penstock.common.configuration import Configuration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


@pytest.mark.parametrize("level", [logging.WARNING, logging.INFO])
def test_log_of_a_job_says_how_a_client_has_stopped_it_and_with_which_savepoint(
    level: int,
    tmp_path: Path,
    logger: logging.Logger,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    logger.setLevel(level)
    ends = {StopMode.SUSPEND: "FINISHED", StopMode.DRAIN: "FINISHED", StopMode.CANCEL: "CANCELED"}
    for mode, status in ends.items():
        caplog.clear()
        chapter = Story(tmp_path / mode.name).run(_numbers, asks={2: mode})
        in_log, on_terminal = caplog.messages, capfd.readouterr().err.splitlines()
        for lines, are_shown in ((in_log, level == logging.INFO), (on_terminal, True)):
            told = [line.partition(" ended: ")[2] for line in lines if " ended: " in line]
            assert told == [f"{status}, stopped with savepoint {chapter.savepoint}"] * are_shown
    caplog.clear()
    Story(tmp_path / "none").run(_numbers)
    assert " ended: " not in capfd.readouterr().err, "who waits for the job is told"


def _numbers(sheet: Sheet) -> None:
    sheet.collect(sheet.source("numbers", list(range(40))))
