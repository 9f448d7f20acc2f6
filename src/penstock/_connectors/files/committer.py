"""Publishes the file sink's parts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock._connectors.files.filesystem import filesystem_of
from penstock._connectors.files.staging import FinishedPart
from penstock.datastream.connectors.base import Committer
from penstock.errors import SinkFileError

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.datastream.connectors.base import CommitRequest

_LOG = logging.getLogger(__name__)


class FileCommitter(Committer[FinishedPart]):
    """Gives finished parts their final names; repeating it at any point changes nothing."""

    def commit(self, requests: Collection[CommitRequest[FinishedPart]]) -> None:
        """Publish parts in their order.

        Raises:
            SinkFileError: Another file has the name of a part.
        """
        for request in requests:
            part = request.get_committable()
            filesystem = filesystem_of(part.target)
            if not filesystem.publish(part.segments, part.target):
                request.signal_already_committed()
                self._check_published(part, filesystem.size_of(part.target))
            for segment in part.segments:
                filesystem.delete(segment)

    def _check_published(self, part: FinishedPart, size: int | None) -> None:
        if size is None:
            # Committed before a crash and then taken away by whoever reads the folder; there is nothing to repeat.
            _LOG.warning("%s was published before and is gone since; it is not written again.", part.target)
        elif size != part.size:
            reason = (
                f"a file of {size} bytes has the name that was chosen for one of {part.size}; its staged bytes are in "
                f"{', '.join(part.segments)}. Move the other file away and start the job again from its checkpoint"
            )
            raise SinkFileError(part.target, reason)
