"""What the file sink's writers leave for the committer, and how staged files are called.

A part is one file to be; while it is written it is a list of segments, each one file written by one attempt at one
epoch. A segment's name says who wrote it. Of the segments of an attempt either all count or none: so what attempts of
void epochs left is told apart by their tokens, and removed.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock._connectors.files.opening import filesystem_of
from penstock.common.paths import scheme_of
from penstock.errors import SinkFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEGMENT = re.compile(
    # Those that were staged by a version before the run was named have none.
    r"\.[0-9a-f]+-\d+\.(?P<job_id>[^.]+)\.((?P<run_id>[^.]+)\.)?(?P<sink>[^.]+)\.(?P<checkpoint_id>\d+)\.(?P<token>[^.]+)"
    r"\.staged"
)


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """A part to publish.

    The name is chosen when the part is finished, by the attempt that finishes it, and never used again. So one commit
    of it can be told from another part, also when the job goes back to an older checkpoint.
    """

    target: str
    segments: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class HeldAttempts:
    """The attempts that segments of a writer's unfinished parts are from: the committer must not take those away."""

    tokens: frozenset[str]


#: What a writer gives the committer.
FileCommittable: TypeAlias = FinishedPart | HeldAttempts


@dataclass(frozen=True, slots=True)
class StagedSegment:
    """A segment found in a sink's folder."""

    path: str
    job_id: str
    #: None where an older version has staged it.
    run_id: str | None
    sink: str
    checkpoint_id: int
    token: str


def sink_name(operator_uid: str) -> str:
    """Return what stands for a sink in the names of its segments: several of a job may write to one folder."""
    return hashlib.blake2b(operator_uid.encode(), digest_size=6).hexdigest()


def segment_name(
    writer: str, number: int, *, job_id: str, run_id: str, sink: str, checkpoint_id: int, token: str
) -> str:
    """Return the name of a segment; hidden, so that readers of the folder pass over it.

    Example:
        >>> segment_name("5f", 3, job_id="job1", run_id="run4", sink="c0", checkpoint_id=7, token="a9")
        '.5f-3.job1.run4.c0.7.a9.staged'
    """
    return f".{writer}-{number}.{job_id}.{run_id}.{sink}.{checkpoint_id}.{token}.staged"


def run_of(segment: str) -> str | None:
    """Return the run that has staged a segment, by its path; None where an older version has."""
    match = _SEGMENT.fullmatch(segment.rpartition("/")[2])
    return None if match is None else match["run_id"]


def token_of(segment: str) -> str:
    """Return the attempt that a segment is from, by its path."""
    return segment.rsplit(".", 2)[1]


def list_segments(base_path: str) -> Iterator[StagedSegment]:
    """List all segments below a sink's path, of any job and sink."""
    for status in filesystem_of(base_path).hidden_files(base_path):
        match = _SEGMENT.fullmatch(status.path.rpartition("/")[2])
        if match:
            yield StagedSegment(
                status.path,
                match["job_id"],
                match["run_id"],
                match["sink"],
                int(match["checkpoint_id"]),
                match["token"],
            )


def not_written(path: str, error: OSError) -> SinkFileError:
    """Return what is to be said of a file that an operating system or a store does not take."""
    is_local = scheme_of(path) in {"", "file"}
    room = "the space left" if is_local else f"the space left in {tempfile.gettempdir()}, where it waits for its upload"
    return SinkFileError(path, f"{error.strerror or error}; check the sink's path, its permissions and {room}")
