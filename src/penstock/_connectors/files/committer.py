"""Publishes the file sink's parts, and removes the staged segments of void attempts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock._api.connectors.committer import Committer
from penstock._connectors.files.notes import PublishedNotes, line_of, runs_of
from penstock._connectors.files.opening import filesystem_of
from penstock._connectors.files.staging import (
    EndedWriter,
    FileCommittable,
    FinishedPart,
    HeldAttempts,
    ReplacedSegments,
    job_of_note,
    list_segments,
    not_written,
    notes_ending,
    run_of,
    sink_name,
)
from penstock.errors import LostCommittableError, SinkFileError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from penstock._api.connectors.committer import CommitRequest, CommitterInitContext

_LOG = logging.getLogger(__name__)
_OTHERS = (
    "%s has output of job %s, which has not finished: it has published there through a sink with the same uid, %r. Job "
    "%s begins without a checkpoint, so what both read comes twice. To continue that job, restore it from its newest "
    "checkpoint or savepoint; if this is another job, give the sinks different uids or folders."
)


class FileCommitter(Committer[FileCommittable]):
    """Gives finished parts their final names; it may be interrupted and repeated at any point.

    An attempt that was killed or void leaves staged segments behind. They are removed only after the first commit and
    at the end of the job, because that lists all files of the folder.

    A checkpoint that the job was started from may list parts of another job, or of a run that this one does not
    continue. They are published under their chosen names, so they exist once, whichever job is first; their staged
    segments are the other job's to remove.

    Args:
        base_path: The sink's folder.
        context: The committer's context.
    """

    def __init__(self, base_path: str, context: CommitterInitContext) -> None:
        self._base_path = base_path
        self._job_id, self._sink = context.job_id, sink_name(context.operator_uid)
        self._runs = frozenset((*context.earlier_runs, context.run_id))
        #: The last committed checkpoint, and the attempts whose segments its unfinished parts need.
        self._committed: tuple[int, frozenset[str]] | None = None
        self._notes = PublishedNotes(base_path)
        #: The writers that have ended, of how many, and whether that was all, and is committed.
        self._ended: set[int] = set()
        self._writers = 0
        self._is_over = False
        if context.restored_checkpoint_id is None:
            self._warn_of_others(context.operator_uid)

    def _warn_of_others(self, uid: str) -> None:
        """Warn at a start without a checkpoint where another job, or another run, has published for the same sink."""
        for name, lines in filesystem_of(self._base_path).notes(self._base_path, notes_ending(self._sink)).items():
            if not self._runs.issuperset(runs_of(lines)):
                _LOG.warning(_OTHERS, *(self._base_path, job_of_note(name), uid, self._job_id))

    def commit(self, requests: Collection[CommitRequest[FileCommittable]]) -> None:
        """Publish parts in their order.

        Raises:
            SinkFileError: Another file has the name of a part, the disk refuses it, or the folder is not the sink's.
            LostCommittableError: A staged segment of a part is missing, and the part was never published.
        """
        checkpoint_id, held, replaced = 0, frozenset[str](), list[str]()
        for request in requests:
            checkpoint_id, committable = request.checkpoint_id, request.get_committable()
            match committable:
                case FinishedPart():
                    try:
                        self._publish(request, committable)
                    except (SinkFileError, LostCommittableError) as error:  # so that nothing else is given up for it
                        request.signal_failed_with_unknown_reason(error)
                        raise
                case HeldAttempts():
                    held |= committable.tokens
                case ReplacedSegments():
                    replaced += committable.paths
                case EndedWriter():
                    self._ended.add(committable.subtask_id)
                    self._writers = committable.writers
        self._notes.end(checkpoint_id)
        self._delete(replaced)
        self._is_over = 0 < self._writers == len(self._ended)
        first = self._committed is None
        self._committed = checkpoint_id, held
        if first:
            self._sweep(checkpoint_id, held)

    def describe(self, committable: FileCommittable) -> str:
        """Return which file a committable is about."""
        match committable:
            case FinishedPart():
                return f"{committable.size} bytes for {committable.target}, staged in {', '.join(committable.segments)}"
            case _:
                return "no file, but what the sink needs for cleaning up"

    def read_records(self, committable: FileCommittable) -> Iterator[bytes] | None:
        """Return what the file of a part would hold, in pieces of bytes; None where that is no part, or is gone."""
        segments = committable.segments if isinstance(committable, FinishedPart) else ()
        if not segments or any(filesystem_of(segment).size_of(segment) is None for segment in segments):
            return None
        return map(_bytes_of, segments)

    def _publish(self, request: CommitRequest[FileCommittable], part: FinishedPart) -> None:
        filesystem = filesystem_of(part.target)
        try:
            if filesystem.size_of(part.target) is None and self._is_moved(request, part):
                request.signal_already_committed()
            elif not filesystem.publish(part.segments, part.target):
                self._check_published(request, part)
                request.signal_already_committed()
            self._notes.add(part, request.checkpoint_id)
            self._delete(part.segments)
        except OSError as error:  # as from a full disk, where joined segments need room
            raise not_written(part.target, error) from error

    def _delete(self, segments: Iterable[str]) -> None:
        """Delete staged segments, except those of other jobs."""
        for segment in segments:
            if run_of(segment) in self._runs:
                filesystem_of(segment).delete(segment)

    def _is_moved(self, request: CommitRequest[FileCommittable], part: FinishedPart) -> bool:
        """Tell whether a part that is not there was published and moved away; if not, all of it has to be staged.

        Raises:
            SinkFileError: Nothing of it is here, and nothing of its run was published here: this may be another disk.
            LostCommittableError: Something of it is gone, or changed.
        """
        sizes = {segment: filesystem_of(segment).size_of(segment) for segment in part.segments}
        missing = [segment for segment, size in sizes.items() if size is None]
        found = sum(size or 0 for size in sizes.values())
        # Asked after that, because another committer deletes segments only when it has noted the part.
        told = self._notes.tells(part, request.checkpoint_id) if request.may_be_committed else False
        if told:  # a reader of the folder has it; there is nothing to repeat
            _LOG.warning("%s was published before and is gone since; it is not written again.", part.target)
            return True
        if missing and filesystem_of(part.target).size_of(part.target) is not None:
            return False  # another committer was faster
        if told is None and len(missing) == len(sizes):
            name, line = line_of(part, request.checkpoint_id)
            reason = (
                "it may not be published yet, and nothing of what was staged of it is here. The job notes in "
                f"{self._base_path} what it publishes, and there is no {name} with its run: mount the disk on which it "
                "has written, or start it where that is. If this is the disk, and all that it has published was moved "
                f"away, with hidden files, make that file with the line {line!r}"
            )
            raise SinkFileError(part.target, reason)
        if missing:
            reason = f"what was staged of it in {', '.join(missing)} is gone: something else deletes hidden files there"
            raise LostCommittableError(part.target, reason)
        if found != part.size:
            reason = (
                f"of its {part.size} bytes {found} are staged in {', '.join(sizes)}, which something else has changed"
            )
            raise LostCommittableError(part.target, reason)
        return False

    def _check_published(self, request: CommitRequest[FileCommittable], part: FinishedPart) -> None:
        size = filesystem_of(part.target).size_of(part.target)
        if size is None:
            if not self._is_moved(request, part):
                raise LostCommittableError(part.target, f"its folder is gone, or {', '.join(part.segments)}")
        elif size != part.size:
            reason = (
                f"a file of {size} bytes has the name that was chosen for one of {part.size}; its staged bytes are in "
                f"{', '.join(part.segments)}. Move the other file away and start the job again from its checkpoint"
            )
            raise SinkFileError(part.target, reason)

    def _sweep(self, checkpoint_id: int, held: frozenset[str]) -> None:
        """Remove this sink's segments up to a committed checkpoint, except those of unfinished parts.

        Segments of runs that this one does not continue belong to another job, whatever its name and id. A segment that
        a later checkpoint publishes is of a part that is unfinished in this one, so its attempt is held.
        """
        filesystem = filesystem_of(self._base_path)
        try:
            for segment in list_segments(self._base_path):
                mine = segment.job_id == self._job_id and segment.sink == self._sink
                if (
                    mine
                    and segment.run_id in self._runs
                    and segment.checkpoint_id <= checkpoint_id
                    and segment.token not in held
                ):
                    filesystem.delete(segment.path)
        except Exception:  # noqa: BLE001 - what object stores raise differs, and the job continues with its rubbish
            _LOG.warning("Staged files of failed attempts stay in %s", self._base_path, exc_info=True)

    def close(self) -> None:
        """Remove the segments that were left since the job started, and at the end of the job the notes."""
        if self._committed is not None:
            self._sweep(*self._committed)
        if self._is_over:
            for folder, name in self._notes.files:
                if name.startswith(f".{self._job_id}."):  # others may be needed by the job that has staged
                    filesystem_of(folder).delete(f"{folder}/{name}")


def _bytes_of(segment: str) -> bytes:
    with filesystem_of(segment).open(segment) as file:
        return file.read()
