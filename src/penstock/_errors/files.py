"""Errors of files that sources read and sinks write."""

from __future__ import annotations

from dataclasses import field

from penstock._errors.root import declared
from penstock._errors.run import JobRunError


@declared
class SourceFileError(JobRunError):
    """A file of a source is missing, was changed or cannot be decoded."""

    path: str  #: the file
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        text = f"Source file {self.path} cannot be read: {self.reason}."
        return text.encode("utf-8", "backslashreplace").decode()  # names of files need not be text


class SourceFileChangedError(SourceFileError):
    """A file has changed since a source found it, so that positions in it mean nothing; a restart does not help."""


class SourceFileGoneError(SourceFileError):
    """A file that a source has found no longer exists, or is something else, such as a folder."""


@declared
class SinkFileError(JobRunError):
    """A file of a sink cannot be written or published."""

    path: str  #: the file
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        return f"Sink file {self.path} cannot be written: {self.reason}."


@declared
class BucketNameError(SinkFileError):
    """A file sink's bucket assigner has returned an invalid name of a folder."""

    bucket: str  #: the beginning of the bucket's repr

    def __str__(self) -> str:
        return f"The bucket {self.bucket} cannot be below {self.path}: {self.reason}."


@declared
class RecordFieldError(JobRunError):
    """A record has a field for which its file has no column."""

    field: str  #: the field; a dotted path where it is inside of another one
    record: str  #: the beginning of the record's repr
    columns: tuple[str, ...]  #: the columns that the file has
    way_out: str  #: what to do about it, a clause without a full stop

    def __str__(self) -> str:
        known = ", ".join(self.columns) or "none"
        return (
            f"The record {self.record} has a field {self.field!r}, and its file has no such column (it has {known}): "
            f"it would be lost. {self.way_out}."
        )


@declared
class RecordValueError(JobRunError, ValueError):
    """A record has a value that its column cannot hold unchanged."""

    field: str  #: the column
    record: str  #: the beginning of the record's repr
    column_type: str  #: what the column holds
    reason: str  #: what is wrong with the value, a clause without a full stop
    way_out: str  #: what to do about it, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"The field {self.field!r} of the record {self.record} does not fit its column ({self.column_type}): "
            f"{self.reason}. {self.way_out}."
        )


@declared
class StagedFileError(SinkFileError):
    """The checkpoint that a job was started from names an unfinished file that no longer exists."""

    reason: str = field(init=False, default="it is gone")

    def __str__(self) -> str:
        return (
            f"The checkpoint that the job was started from continues the unfinished file {self.path}, which is gone: "
            "the job that has staged it has published it since, or it was deleted by hand. Start from the newest "
            "checkpoint, or from a savepoint, which names no unfinished file."
        )


@declared
class CachedStreamError(JobRunError):
    """A file of a cached stream, or of a DataFrame that was handed in, is gone or has changed."""

    path: str  #: the file
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"{self.path} has records that this program keeps, and {self.reason}. Execute the job again: what is "
            "missing of a cached stream is then computed anew."
        )


@declared
class LostCommittableError(JobRunError):
    """Staged data of a sink is missing and was not published before, so it cannot be published.

    Committers raise it. The job ends with it, because another try would not find the data either, and some committers
    could not distinguish it from published data then.
    """

    what: str  #: what was to be published
    reason: str  #: what is gone, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"{self.what} cannot be published, and was not published before: {self.reason}. Its records are in no "
            "output. To have them, start the job from a checkpoint or savepoint before that; a start from the newest "
            "checkpoint continues without them, or ends with this error again where the target "
            "shows that they were never published."
        )
