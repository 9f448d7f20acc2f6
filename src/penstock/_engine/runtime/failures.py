"""Describes errors of user functions with operator, line and record, and sends them to the driver as a row.

A user error never leaves a task as a Spark failure: Spark would run the function again, with its side effects.
"""

from __future__ import annotations

import os
import pickle
import sysconfig
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock._engine.graph.job_graph import JobType
from penstock._engine.protocol import cloudpickled
from penstock._engine.protocol.control import TaskFailure
from penstock._engine.protocol.non_recoverable import is_non_recoverable
from penstock._engine.protocol.tracebacks import SerializedThrowable, linked, own_lines
from penstock.common.interrupts import is_interrupt
from penstock.common.user_values import error_line, safely, short_repr

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import OperatorNode
    from penstock._engine.operators.base import Operator

#: The folders of libraries: for an error raised there, the user's calling line says more than the raising line.
_LIBRARIES: Final = tuple({sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "purelib", "platlib")})


#: The longest pickle of an exception that a failure holds.
_MOST_EXCEPTION_BYTES: Final = 1 << 20


class OperatorError(Exception):
    """An error inside an operator; the task describes it for the driver."""

    def __init__(self, node: OperatorNode, *, has_record: bool, record: Any, chooser: str = "") -> None:
        super().__init__(node.name)
        self.node = node
        #: What chose its records, if that failed.
        self.chooser = chooser
        self.record = short_repr(record) if has_record else None


def failure_of(error: BaseException, place: tuple[int, int]) -> TaskFailure:
    """Return the description of what has ended a task; the engine itself failed unless the error names an operator.

    Args:
        error: The error.
        place: Vertex and subtask.
    """
    if isinstance(error, OperatorError):
        failure = describe_failure(error.__cause__ or error, error.node, error.record, place)
        return replace(failure, chooser=error.chooser) if error.chooser else failure
    return describe_failure(error, None, None, place)


def describe_failure(
    error: BaseException, node: OperatorNode | None, record: str | None, place: tuple[int, int]
) -> TaskFailure:
    """Return the description of an error for the driver.

    Args:
        error: The error.
        node: The operator; None when the engine itself failed.
        record: The current record, as text.
        place: Vertex and subtask.
    """
    frames = traceback.extract_tb(linked(own_lines(error.__traceback__)))
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    # An error's own methods may raise as well.
    text = safely(lambda: "".join(traceback.format_exception_only(error)).strip(), lambda _: error_line(error))
    whole = "".join([*lines, text])
    if not frames or node is None:
        whole = safely(lambda: "".join(traceback.format_exception(error)), lambda _: whole)
    return TaskFailure(
        operator="" if node is None else node.name,
        uid="" if node is None else node.uid,
        vertex=place[0],
        subtask=place[1],
        location=_location(frames, node),
        record=record,
        error=text,
        traceback=whole,
        exception=_pickled(SerializedThrowable(error)) or _pickled(error),
        non_recoverable=safely(lambda: is_non_recoverable(error), lambda _: False),
    )


def passes_guards(error: BaseException) -> bool:
    """Return whether an error passes the guard of an operator as it is: it names one already, or is Ctrl-C."""
    return isinstance(error, OperatorError) or is_interrupt(error)


def ends_task(error: BaseException) -> bool:
    """Return whether an error is nobody's failure: Ctrl-C, or Spark does not want the task's rows any more."""
    return isinstance(error, GeneratorExit) or is_interrupt(error)


def _location(frames: list[traceback.FrameSummary], node: OperatorNode | None) -> str:
    """Return the user's line nearest to the error; without one, the line that made the operator."""
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    if own:
        return f"{own[-1].filename}:{own[-1].lineno}"
    return "" if node is None else node.created_at


def _pickled(error: SerializedThrowable | BaseException) -> bytes | None:
    """Return an exception's pickle; None where the driver gets its text alone."""

    def pickled() -> bytes | None:
        data = cloudpickled.dumps(error)
        if len(data) > _MOST_EXCEPTION_BYTES:
            return None
        pickle.loads(data)  # some exceptions pickle and then do not load
        return data

    return safely(pickled, lambda _: None)


def create_in_task(node: OperatorNode, job_type: JobType = JobType.STREAMING) -> Operator:
    """Create the operator of a node; an error counts as the operator's."""
    try:
        factory = node.make_factory()
        return factory.create_in_batch() if job_type is JobType.BATCH else factory.create()
    except BaseException as error:  # for example a module that is not installed here
        if is_interrupt(error):
            raise
        raise OperatorError(node, has_record=False, record=None) from error
