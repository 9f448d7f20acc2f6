"""A process that a user's function forks answers for nobody, whatever becomes of it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from tests.kit.cells import cells
from tests.kit.stories import Sheet, Story

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def goes_on(_: Any) -> None:
    """Return to the task in both processes."""


def raises(value: Any) -> None:
    raise ValueError(value)


def exits(_: Any) -> None:
    sys.exit(0)


@cells("child", {"goes on": goes_on, "raises": raises, "exits": exits})
def test_a_forked_child_of_a_task_answers_for_nobody(tmp_path: Path, child: Callable[[Any], None]) -> None:
    ended: list[int] = []

    def forks(value: int) -> int:
        if value == 3:
            if (pid := os.fork()) == 0:
                child(value)
            else:
                ended.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                (tmp_path / "ended").write_text(str(ended))
        return value

    story = Story(tmp_path)
    assert story.run(lambda sheet: write(sheet, forks)).error is None
    assert sorted(story.output()) == list(range(6))
    assert (tmp_path / "ended").read_text() == "[1]"


def write(sheet: Sheet, function: Any) -> None:
    sheet.collect(sheet.source("numbers", range(6)).map(function))
