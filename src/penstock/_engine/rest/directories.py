"""Which directories clients may name for savepoints, and which savepoints they may delete."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.paths import METADATA
from penstock._engine.rest.http_error import HttpError
from penstock._engine.storage.opening import above, absolute
from penstock._files.disk import check_no_links
from penstock.common import option_table
from penstock.common.paths import absolute_path, scheme_of
from penstock.errors import CheckpointStorageError, SavepointChangeError, UnknownStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._engine.gateway.job_control import JobControl
    from penstock.common.configuration import Configuration

_KEY: Final = option_table.REST_ALLOWED_DIRECTORIES.key


@dataclass(frozen=True, slots=True)
class DirectoryPolicy:
    """The directories that clients may name.

    Messages repeat the client's own text, and never name existing directories.
    """

    #: Absolute paths and URLs; None if operators may name any directory for a new savepoint.
    allowed: tuple[str, ...] | None = None

    @classmethod
    def read(cls, configuration: Configuration, *, is_for_this_machine: bool) -> DirectoryPolicy:
        """Return the policy of a server.

        Args:
            configuration: The configuration of the user.
            is_for_this_machine: Whether clients of this machine alone reach the server.
        """
        given = configuration.get(option_table.REST_ALLOWED_DIRECTORIES)
        if given is None:
            return cls(None if is_for_this_machine else ())
        return cls(tuple(absolute_path(each) for each in given))

    def root_of(self, directory: str, default: str | None) -> str:
        """Return the part of a directory that may lead through links, because the user has named it.

        Args:
            directory: The directory that a client names for a savepoint.
            default: The job's own directory of savepoints.

        Raises:
            HttpError: The directory is not open to clients.
        """
        try:
            place = absolute(directory)
        except CheckpointStorageError:
            if self.allowed is None:
                return "/"  # the job refuses the request, with the reason
            raise _not_open(directory) from None
        for root in (*(self.allowed or ()), *(() if default is None else (default,))):
            if is_below(place, root):
                return root
        if self.allowed is not None:
            raise _not_open(directory)
        return "/"

    def is_open(self, place: str) -> str | None:
        """Return the allowed directory that contains a path; None if no directory does."""
        return next((root for root in self.allowed or () if is_below(place, root) and place != root), None)


def _not_open(directory: str) -> HttpError:
    return HttpError(403, f"This server makes no savepoints in {directory!r}: {_KEY} does not allow it.")


def is_below(place: str, root: str) -> bool:
    """Tell from the texts of two paths whether the first is the second, or below it.

    Example:
        >>> is_below("/data/sp/one", "/data/sp"), is_below("/data/sp2", "/data/sp"), is_below("s3://b/x", "s3://b")
        (True, False, True)
    """
    return place == root or place.startswith(root if root.endswith("/") else f"{root}/")


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """The directories of a job of this process."""

    control: JobControl
    #: Its checkpoint directory; None if it is temporary.
    checkpoints: str | None
    #: The checkpoint or savepoint that it started from; None for a fresh start, or for the newest checkpoint.
    origin: str | None
    #: The options with which it opens object stores.
    options: Mapping[str, str]

    def knows(self, place: str) -> bool:
        """Tell whether the job has made a savepoint, or was started from it."""
        return place == self.origin or place in self.control.savepoints


class Disposals:
    """Deletes savepoints for clients: savepoints of jobs of this process, and savepoints in allowed directories.

    Args:
        dispose: Deletes one, by its path, the directories of jobs that may need it, and options of object stores.
        policy: The allowed directories.
        is_listed: Tells whether the server still lists a job; other jobs are forgotten.
    """

    def __init__(
        self,
        dispose: Callable[[str, Iterable[str], Mapping[str, str]], object],
        policy: DirectoryPolicy,
        is_listed: Callable[[JobControl], bool],
    ) -> None:
        self._dispose = dispose
        self._policy = policy
        self._is_listed = is_listed
        self._jobs: list[JobPlaces] = []

    def add(self, job: JobPlaces) -> None:
        """Add a job of this process."""
        self._jobs = [*(one for one in self._jobs if self._is_listed(one.control)), job]

    def dispose(self, path: str) -> None:
        """Delete a savepoint.

        Raises:
            SavepointChangeError: Clients may not delete it, or it cannot be deleted.
            PenstockError: The storage has failed.
        """
        place = absolute(path).removesuffix(f"/{METADATA}")
        known = next((job for job in self._jobs if job.knows(place)), None)
        root = above(place)[0] if known is not None else self._policy.is_open(place)
        if root is None:
            reason = (
                "clients may have those deleted that the jobs of this process know, and what is below the directories "
                f"of {_KEY}. `penstock savepoint dispose` deletes others"
            )
            raise SavepointChangeError(path, reason)
        check_no_links(place, root)
        directories = dict.fromkeys(job.checkpoints for job in self._jobs if job.checkpoints is not None)
        options = known.options if known is not None else self._options_of(place)
        try:
            self._dispose(place, directories, options)
        except UnknownStateError:
            raise SavepointChangeError(path, "there is no savepoint at that path") from None
        except SavepointChangeError:
            reason = (
                "it is a checkpoint, a job continues from it, or there are other files beside its own: `penstock "
                "savepoint dispose` says which, and what to do"
            )
            raise SavepointChangeError(path, reason) from None

    def _options_of(self, place: str) -> Mapping[str, str]:
        """Return the storage options for a path of no job; for object stores, those of the last job that has any."""
        nothing: dict[str, str] = {}
        if not scheme_of(place):
            return nothing
        return next((job.options for job in reversed(self._jobs) if job.options), nothing)


def places(control: JobControl, configuration: Configuration, options: Mapping[str, str]) -> JobPlaces:
    """Return the directories of a job of this process."""
    origin = configuration.get(option_table.RECOVERY_PATH)
    named = None if origin in {None, option_table.LATEST} else str(origin).removesuffix(f"{os.sep}{METADATA}")
    return JobPlaces(control, configuration.get(option_table.CHECKPOINT_DIRECTORY), named, options)
