"""What the file sink's writers leave for the committer, and how staged files are called.

A part is one file to be; while it is written it is a list of segments, each one file written by one attempt at one
epoch. A segment's name says who wrote it, so that what no checkpoint knows can be told apart and removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._connectors.files.filesystem import filesystem_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEGMENT = re.compile(
    r"\.(?P<writer>[0-9a-f]+)-(?P<number>\d+)\.(?P<job_id>[^.]+)\.(?P<checkpoint_id>\d+)\.(?P<token>[^.]+)\.staged"
)


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """A part to publish: the sink's committable.

    The name is chosen when the part is finished, by the attempt that finishes it, and never used again. So one commit
    of it can be told from another part, also when the job goes back to an older checkpoint.
    """

    target: str
    segments: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class StagedSegment:
    """A segment found in a sink's folder."""

    path: str
    job_id: str
    checkpoint_id: int
    token: str
    modified_ms: int


def segment_name(writer: str, number: int, job_id: str, checkpoint_id: int, token: str) -> str:
    """Return the name of a segment; hidden, so that nobody reads it.

    Example:
        >>> segment_name("5f", 3, "job1", 7, "a9")
        '.5f-3.job1.7.a9.staged'
    """
    return f".{writer}-{number}.{job_id}.{checkpoint_id}.{token}.staged"


def list_segments(base_path: str) -> Iterator[StagedSegment]:
    """List all segments below a sink's path, of any job; one is an orphan when no checkpoint names its path."""
    for status in filesystem_of(base_path).hidden_files(base_path):
        match = _SEGMENT.fullmatch(status.path.rpartition("/")[2])
        if match:
            yield StagedSegment(
                status.path, match["job_id"], int(match["checkpoint_id"]), match["token"], status.modified_ms
            )
