"""The context that all REST handlers share: the jobs of this process, its operations and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from penstock._engine.gateway.executor_view import ExecutorView
    from penstock._engine.protocol.clocks import Moment
    from penstock._engine.rest.access import OneTimeCodes
    from penstock._engine.rest.directories import DirectoryPolicy
    from penstock._engine.rest.jobs import Jobs
    from penstock._engine.rest.operations import Operations


@dataclass(frozen=True, slots=True)
class RestContext:
    """The context that all REST handlers share."""

    jobs: Jobs
    operations: Operations
    #: Returns this moment.
    clock: Callable[[], Moment]
    #: The processes in which tasks run.
    executors: Callable[[], Sequence[ExecutorView]]
    #: The configuration of the process; secrets are hidden.
    configuration: Mapping[str, str]
    #: The directories in which clients may make savepoints.
    directories: DirectoryPolicy
    #: Deletes a savepoint in the background.
    dispose: Callable[[str], Future[None]]
    #: One-time codes for the token, and the token; None if the server takes no token.
    codes: OneTimeCodes
    token: str | None
    #: Asks the process to end.
    shut_down: Callable[[], None]

    @property
    def slots(self) -> int:
        """The number of tasks that run at the same time, which changes with the executors of a cluster."""
        return sum(one.slots for one in self.executors())
