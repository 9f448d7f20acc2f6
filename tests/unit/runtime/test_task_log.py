"""The log of tasks: what it does to the loggers of a process in which tasks run side by side."""

from __future__ import annotations

import itertools
import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from penstock._engine.protocol.control import LogLine, decode
from penstock._engine.runtime.row_buffer import RowBuffer, rows_of
from penstock._engine.runtime.task_log import TaskLog

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    yield root
    root.setLevel(level)


@pytest.mark.parametrize("ends", list(itertools.permutations(range(3))))
def test_tasks_side_by_side_leave_the_loggers_as_they_were_in_whatever_order_they_end(
    root: logging.Logger, ends: tuple[int, ...]
) -> None:
    handlers, logs, stacks = list(root.handlers), [TaskLog() for _ in range(3)], [ExitStack() for _ in range(3)]
    for log, stack in zip(logs, stacks, strict=True):
        stack.enter_context(log.listening())
    for number, end in enumerate(ends):
        logging.getLogger("user").info("line %s", number)
        stacks[end].close()
    assert (root.level, root.handlers) == (logging.ERROR, handlers)
    # Each one had all lines up to its end.
    assert [len(messages(logs[end])) for end in ends] == [1, 2, 3]


def test_level_that_is_lower_stays(root: logging.Logger) -> None:
    root.setLevel(logging.DEBUG)
    with TaskLog().listening():
        assert root.level == logging.DEBUG
    assert root.level == logging.DEBUG


def messages(log: TaskLog) -> list[str]:
    rows = RowBuffer()
    log.send(rows, 0, 0)
    lines: list[LogLine] = [line for row in rows_of([rows.drain()]) for line in decode(row.payload, list[LogLine])]
    return [line.message for line in lines]
