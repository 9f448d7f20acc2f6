"""The last lines of the driver's log."""

from __future__ import annotations

import logging

import pytest
from tests.unit.rest.fakes import JOB, Api, FakeControl, job

from penstock._engine.protocol.control import LogLine
from penstock._engine.rest.log_lines import LogLines


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> LogLines:
    handler, logger = LogLines(), logging.getLogger("penstock")
    monkeypatch.setattr("penstock._engine.rest.log_lines._of_process", handler)
    monkeypatch.setattr(logger, "handlers", [handler])
    return handler


def test_lines_are_told_with_level_and_time_and_no_more_than_the_last_ones(lines: LogLines) -> None:
    log = logging.getLogger("penstock._engine.anything")
    for number in range(400):
        log.warning("line %d", number)
    log.debug("below the level")
    told = Api(FakeControl(job())).get(f"/v1/jobs/{JOB}/penstock/log")["lines"]
    assert [line["text"] for line in told] == [f"line {number}" for number in range(100, 400)]
    assert {line["level"] for line in told} == {"WARNING"}
    assert told[0]["time"] <= told[-1]["time"]


def test_lines_of_functions_are_told_with_operator_and_subtask_in_the_order_of_time(lines: LogLines) -> None:
    logging.getLogger("penstock").warning("of the driver")
    now = lines.lines()[0][0] / 1000
    of_tasks = (
        LogLine("user", logging.INFO, "before", now - 1, "Map", 1),
        LogLine("user", logging.ERROR, "behind", now + 1, "Map", 0),
    )
    told = Api(FakeControl(job(task_log=of_tasks))).get(f"/v1/jobs/{JOB}/penstock/log")["lines"]
    assert [(line["text"], line["level"], line["operator"], line["subtask"]) for line in told] == [
        ("before", "INFO", "Map", 1),
        ("of the driver", "WARNING", None, None),
        ("behind", "ERROR", "Map", 0),
    ]


def test_lines_hide_secrets(lines: LogLines) -> None:
    logging.getLogger("penstock").error("cannot reach postgres://joe:secret@db/sales")
    assert "secret" not in lines.lines()[0][2]


@pytest.mark.parametrize("of", [None, "", "penstock.x"])
def test_line_is_written_as_often_as_without_it(
    lines: LogLines, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], of: str | None
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    if of is not None:
        monkeypatch.setattr(logging.getLogger(of), "handlers", [logging.StreamHandler()])
    logging.getLogger("penstock.x").warning("once")
    logging.getLogger("penstock.x").debug("never")
    assert capsys.readouterr().err == "once\n"
    assert [text for _, _, text in lines.lines()] == ["once"]
