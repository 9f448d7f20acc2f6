"""JobListener: is notified when a program's jobs start and end (Flink's ``org.apache.flink.core.execution``)."""

from __future__ import annotations

import importlib
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from penstock.common import option_table
from penstock.common.redaction import hiding
from penstock.common.user_values import error_line
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.configuration import Configuration
    from penstock.common.job_client import JobClient
    from penstock.common.job_execution_result import JobExecutionResult

__all__ = ["JobListener"]

_log = hiding(logging.getLogger(__name__))


class JobListener(ABC):
    """Is notified when the jobs of an environment start and end; ``env.register_job_listener`` registers it.

    ``execution.job-listeners`` names classes of listeners that every environment is to have, each as ``module.Class``;
    they are made without arguments.

    Both methods run in the thread that calls the environment. An error that one of them raises is logged, and the job
    continues. PyFlink has no such class; names and calls are those of Flink's Java class.

    Source: org.apache.flink.core.execution.JobListener.

    Example:
        >>> class Announce(JobListener):
        ...     def on_job_submitted(self, job_client, throwable):
        ...         print("started" if throwable is None else f"not started: {throwable}")
        ...
        ...     def on_job_executed(self, job_execution_result, throwable):
        ...         print("finished" if throwable is None else f"ended: {throwable}")
    """

    @abstractmethod
    def on_job_submitted(self, job_client: JobClient | None, throwable: Exception | None) -> None:
        """Note that a job has started, or could not be.

        Args:
            job_client: The job; None when it could not be started.
            throwable: Why it could not be started.
        """

    @abstractmethod
    def on_job_executed(self, job_execution_result: JobExecutionResult | None, throwable: Exception | None) -> None:
        """Note that a job has ended; only called for ``execute()``, which waits for the end.

        Args:
            job_execution_result: The result of a job that has finished.
            throwable: The error of any other job, such as JobExecutionError or JobCancelledError.
        """


def tell(listeners: Iterable[JobListener], what: Callable[[JobListener], None]) -> None:
    """Call a method of each listener, and log its errors."""
    for listener in listeners:
        try:
            what(listener)
        except Exception:  # noqa: BLE001 - a listener is the user's, and may raise anything
            _log.exception("Job listener %r failed", listener)


def configured_listeners(configuration: Configuration) -> list[JobListener]:
    """Return the listeners that ``execution.job-listeners`` names, newly made.

    Raises:
        ConfigurationError: A name is no listener class that can be instantiated.
    """
    return [_made(name) for name in configuration.get(option_table.JOB_LISTENERS)]


def _made(name: str) -> JobListener:
    module_name, _, class_name = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), class_name) if module_name else None
    except Exception as error:  # importing the module may raise anything
        raise _unusable(name, error_line(error)) from error
    if not (isinstance(found, type) and issubclass(found, JobListener)):
        raise _unusable(name, "it has to be module.Class, and the class a penstock.common.JobListener")
    try:
        return found()
    except Exception as error:
        raise _unusable(name, f"it cannot be made without arguments: {error!r}") from error


def _unusable(name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(option_table.JOB_LISTENERS.key, name, reason)
