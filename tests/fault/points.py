"""The steps of a driver with names, so that something can happen before or after each of them.

A point is named by a step, which time it is taken, and the side of it: ``put_chain_entry-2-before``.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from penstock._engine.driver.loop import JobLoop


class Points:
    """Counts the steps, and acts at some of their points.

    Args:
        actions: What is to happen, by point.
        log: A file that takes the points as they are passed; none by default.
    """

    def __init__(self, actions: Mapping[Any, Callable[[], object]], log: Path | None = None) -> None:
        self._actions = actions
        self._log = None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def watch(self, loop: JobLoop) -> None:
        """Make each instruction that a loop performs a step."""
        loop.perform = self.around(loop.perform, _name_of_instruction)  # type: ignore[method-assign]

    def around(self, work: Callable[..., Any], name: Callable[..., str | None]) -> Callable[..., Any]:
        """Make the calls of a function steps, each named by its arguments; one without a name is none."""

        @wraps(work)
        def step(*arguments: Any, **options: Any) -> Any:
            step_name = name(*arguments)
            if step_name is None:
                return work(*arguments, **options)
            with self._lock:
                self._taken[step_name] += 1
                point = f"{step_name}-{self._taken[step_name]}"
            self._pass(f"{point}-before")
            result = work(*arguments, **options)
            self._pass(f"{point}-after")
            return result

        return step

    def _pass(self, point: str) -> None:
        if self._log is not None:
            os.write(self._log, f"{point}\n".encode())
        if point in self._actions:
            self._actions[point]()


def _name_of_instruction(instruction: Any) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(instruction).__name__).lower()
