"""Puts what Spark says into the words of a job: errors without the stacks of the JVM and of Python workers."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from penstock.errors import EpochInfrastructureError, InternalError, PenstockError, WorkerPythonError

if TYPE_CHECKING:
    from pyspark.errors import PythonException

#: How a traceback ends with an error of ours.
_OURS: Final = re.compile(r"^penstock\.[\w.]+\.(?P<kind>\w+Error): (?P<said>.+)$", re.MULTILINE)

#: How Java introduces the cause of an error.
_CAUSE: Final = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
#: What follows in an error of Kubernetes' client says the same again, as an object.
_COPY: Final = ". Received status: Status("


def words_of_spark(text: str) -> str:
    """Return Spark's text of an error, without the JVM's stack and py4j's first line."""
    said, _, _ = text.partition("\n\tat ")
    first, line, rest = said.partition("\n: ")
    return (rest if line and first.startswith("An error occurred while calling") else said).strip()


def cause_of_spark(text: str) -> str:
    """Return the innermost cause in Spark's text of an error, as one line."""
    causes = _CAUSE.findall(text)
    cause = causes[-1] if causes else words_of_spark(text).partition("\n")[0]
    return cause.partition(_COPY)[0].removesuffix(".")


def worker_error(error: PythonException, python: str) -> PenstockError:
    """Return the error of a job for one of Spark's Python processes, outside of the user's functions.

    Args:
        error: What Spark says.
        python: The interpreter that they run.
    """
    said = str(error)
    if "No module named 'penstock'" in said or "PYTHON_VERSION_MISMATCH" in said:
        return WorkerPythonError(python, sys.executable)
    if (ours := _OURS.search(said)) is not None and ours["kind"] != InternalError.__name__:
        return EpochInfrastructureError(f"a task ended with {ours['kind']}: {ours['said']}")
    return InternalError(said)
