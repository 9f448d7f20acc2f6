"""Publishes the file sink's parts, and removes what attempts that do not count have staged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock._api.connectors.committer import Committer
from penstock._connectors.files.opening import filesystem_of
from penstock._connectors.files.staging import (
    FileCommittable,
    FinishedPart,
    list_segments,
    not_written,
    run_of,
    sink_name,
)
from penstock.errors import LostCommittableError, SinkFileError

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock._api.connectors.committer import CommitRequest, CommitterInitContext

_LOG = logging.getLogger(__name__)


class FileCommitter(Committer[FileCommittable]):
    """Gives finished parts their final names; repeating it at any point changes nothing.

    An attempt that was killed, or whose epoch was void in the end, leaves staged segments behind. They are removed
    after the first commit and at the end of the job, because it takes a look at all files of the folder.

    A checkpoint that the job was started from may list parts of another job, or of a run that this one does not go on
    from. They are published under the names that they have, so that they are there once, whoever of the two comes
    first; what is staged of them is the other's to remove.

    Args:
        base_path: The sink's folder.
        context: The committer's surroundings.
    """

    def __init__(self, base_path: str, context: CommitterInitContext) -> None:
        self._base_path = base_path
        self._job_id, self._sink = context.job_id, sink_name(context.operator_uid)
        self._runs = frozenset((*context.earlier_runs, context.run_id))
        #: The last checkpoint that was committed, and the attempts that its unfinished parts need.
        self._committed: tuple[int, frozenset[str]] | None = None

    def commit(self, requests: Collection[CommitRequest[FileCommittable]]) -> None:
        """Publish parts in their order.

        Raises:
            SinkFileError: Another file has the name of a part, or the disk does not take it.
            LostCommittableError: What was staged of a part is gone before its first try.
        """
        checkpoint_id, held = 0, frozenset[str]()
        for request in requests:
            checkpoint_id, committable = request.checkpoint_id, request.get_committable()
            if isinstance(committable, FinishedPart):
                self._publish(request, committable)
            else:
                held |= committable.tokens
        first = self._committed is None
        self._committed = checkpoint_id, held
        if first:
            self._sweep(checkpoint_id, held)

    def _publish(self, request: CommitRequest[FileCommittable], part: FinishedPart) -> None:
        filesystem = filesystem_of(part.target)
        try:
            if filesystem.size_of(part.target) is None:
                self._check_staged(request, part)
            if not filesystem.publish(part.segments, part.target):
                self._check_published(request, part)
                request.signal_already_committed()
            for segment in part.segments:
                if run_of(segment) in self._runs:
                    filesystem.delete(segment)
        except OSError as error:  # as from a full disk, where joined segments need room
            raise not_written(part.target, error) from error

    def _check_staged(self, request: CommitRequest[FileCommittable], part: FinishedPart) -> None:
        """Make sure that all bytes of a part are there; what an earlier try may have published need not be."""
        sizes = {segment: filesystem_of(segment).size_of(segment) for segment in part.segments}
        missing = [segment for segment, size in sizes.items() if size is None]
        found = sum(size or 0 for size in sizes.values())
        if missing and not request.may_be_committed:
            reason = f"what was staged of it in {', '.join(missing)} is gone: something else deletes hidden files there"
            raise LostCommittableError(part.target, reason)
        if not missing and found != part.size:
            reason = (
                f"of its {part.size} bytes {found} are staged in {', '.join(sizes)}, which something else has changed"
            )
            raise LostCommittableError(part.target, reason)

    def _check_published(self, request: CommitRequest[FileCommittable], part: FinishedPart) -> None:
        size = filesystem_of(part.target).size_of(part.target)
        if size is None and not request.may_be_committed:
            raise LostCommittableError(part.target, f"its folder is gone, or {', '.join(part.segments)}")
        if size is None:
            # Committed before a crash and then taken away by a reader of the folder; there is nothing to repeat.
            _LOG.warning("%s was published before and is gone since; it is not written again.", part.target)
        elif size != part.size:
            reason = (
                f"a file of {size} bytes has the name that was chosen for one of {part.size}; its staged bytes are in "
                f"{', '.join(part.segments)}. Move the other file away and start the job again from its checkpoint"
            )
            raise SinkFileError(part.target, reason)

    def _sweep(self, checkpoint_id: int, held: frozenset[str]) -> None:
        """Remove this sink's segments up to a checkpoint that was committed, but those that go on being written.

        Those of runs that this one does not go on from are another job's, whatever its name and id. What a later
        checkpoint publishes of them is in a part that was unfinished in this one, so its attempt is held.
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
        except Exception:  # noqa: BLE001 - what object stores raise differs, and the job goes on with its rubbish
            _LOG.warning("Staged files of failed attempts stay in %s", self._base_path, exc_info=True)

    def close(self) -> None:
        """Remove what was left since the job started."""
        if self._committed is not None:
            self._sweep(*self._committed)
