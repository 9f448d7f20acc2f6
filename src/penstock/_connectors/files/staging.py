"""The committables of the file sink, and the names of staged files.

A part becomes one file; while it is written it is a list of segments, each a file that one attempt wrote in one epoch.
A segment's name has the token of its attempt. Either all segments of an attempt count or none, so segments of void
epochs are recognized by their tokens, and deleted.
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
    r"\.[0-9a-f]+-\d+\.(?P<job_id>[^.]+)\.(?P<run_id>[^.]+)\.(?P<sink>[^.]+)\.(?P<checkpoint_id>\d+)\.(?P<token>[^.]+)"
    r"\.staged"
)


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """A part to publish.

    The attempt that finishes a part chooses its name, which is never used again. So a commit of one part cannot be
    confused with another part, even after the job has gone back to an older checkpoint.
    """

    target: str
    segments: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class HeldAttempts:
    """The attempts of a writer's unfinished parts, whose segments the committer must not delete."""

    tokens: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReplacedSegments:
    """Staged segments whose bytes a part of the same checkpoint has as well; they go once that is published."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EndedWriter:
    """A writer that has come to the end of its input, one of so many."""

    subtask_id: int
    writers: int


#: A committable of the file sink.
FileCommittable: TypeAlias = FinishedPart | HeldAttempts | ReplacedSegments | EndedWriter


@dataclass(frozen=True, slots=True)
class StagedSegment:
    """A segment found in a sink's folder."""

    path: str
    job_id: str
    run_id: str
    sink: str
    checkpoint_id: int
    token: str


def sink_name(operator_uid: str) -> str:
    """Return the name of a sink in the names of its segments, because several sinks may write to one folder."""
    return hashlib.blake2b(operator_uid.encode(), digest_size=6).hexdigest()


def segment_name(
    writer: str, number: int, *, job_id: str, run_id: str, sink: str, checkpoint_id: int, token: str
) -> str:
    """Return the name of a segment, which is hidden, so that readers of the folder skip it.

    Example:
        >>> segment_name("5f", 3, job_id="job1", run_id="run4", sink="c0", checkpoint_id=7, token="a9")
        '.5f-3.job1.run4.c0.7.a9.staged'
    """
    return f".{writer}-{number}.{job_id}.{run_id}.{sink}.{checkpoint_id}.{token}.staged"


def run_of(segment: str) -> str | None:
    """Return the run that has staged a segment, by its path; None for another file."""
    match = _SEGMENT.fullmatch(segment.rpartition("/")[2])
    return None if match is None else match["run_id"]


def note_of(segment: str) -> tuple[str, str]:
    """Return what is noted in a sink's folder before a part with a segment is published there: a file, and its line.

    The file is the job's and the sink's, and the line is the run that has staged the segment. So a host whose folder
    has the same path, and is another one, is told from this one.
    """
    match = _SEGMENT.fullmatch(segment.rpartition("/")[2])
    assert match is not None
    return f".{match['job_id']}{notes_ending(match['sink'])}", match["run_id"]


def notes_ending(sink: str) -> str:
    """Return what the names of the notes of a sink end with, whatever the job."""
    return f".{sink}.runs"


def job_of_note(name: str) -> str:
    """Return the job of a note, by its name."""
    return name.split(".")[1]


def token_of(segment: str) -> str:
    """Return the token of a segment's attempt, by its path."""
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
    """Return the error about a file that an operating system or a store refuses."""
    is_local = scheme_of(path) in {"", "file"}
    room = "the space left" if is_local else f"the space left in {tempfile.gettempdir()}, where it waits for its upload"
    return SinkFileError(path, f"{error.strerror or error}; check the sink's path, its permissions and {room}")
