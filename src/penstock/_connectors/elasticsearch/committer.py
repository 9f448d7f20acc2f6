"""Sends the documents without ids of a checkpoint, under ids that are the same in each try (decision 55)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._api.connectors.committer import Committer
from penstock._api.connectors.transactional import StagedRecords, staged_records
from penstock._connectors.elasticsearch.actions import BulkItem
from penstock.errors import LostCommittableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from penstock._api.connectors.committer import CommitRequest, CommitterInitContext
    from penstock._connectors.elasticsearch.bulk import BulkSender


class ElasticsearchCommitter(Committer[StagedRecords]):
    """Makes the staged documents of a checkpoint; one that is there already is left as it is.

    Args:
        context: The committer's context.
        sender: Sends them.
    """

    def __init__(self, context: CommitterInitContext, sender: BulkSender) -> None:
        self._context, self._sender = context, sender

    def commit(self, requests: Collection[CommitRequest[StagedRecords]]) -> None:
        """Make the documents of a checkpoint.

        Raises:
            ElasticsearchConnectorError: The cluster does not take them; the job starts again and tries again.
            LostCommittableError: What was staged is gone, and was not sent.
        """
        for request in requests:
            if not self._sent(request):
                request.signal_already_committed()

    def _sent(self, request: CommitRequest[StagedRecords]) -> bool:
        """Send what one writer has staged, unless the engine has deleted it, which it does after a commit."""
        number = 0
        name_of_all = self._name(request)
        for name in request.get_committable().names:
            data = self._context.read_staged(name)
            if data is None:
                if request.may_be_committed:
                    return False
                what = f"Documents of {self._context.operator_uid!r}"
                raise LostCommittableError(what, f"what was staged as {name} is gone")
            items = [
                BulkItem("create", index, f"{name_of_all}-{place}", more, source)
                for place, (index, more, source) in enumerate(staged_records(data), number)
            ]
            number += len(items)
            self._sender.send(self._sender.without_present(items) if request.may_be_committed else items)
        return True

    def describe(self, committable: StagedRecords) -> str:
        """Return that there are documents."""
        return f"documents without ids, in {len(committable.names)} blocks"

    def read_records(self, committable: StagedRecords) -> Iterator[dict[str, Any]]:
        """Return the documents, each with its index and further settings.

        Raises:
            LostCommittableError: What was staged is gone.
        """
        for name in committable.names:
            data = self._context.read_staged(name)
            if data is None:
                raise LostCommittableError(f"Documents of {self._context.operator_uid!r}", f"{name} is gone")
            for index, more, source in staged_records(data):
                yield {"index": index, **more, "document": msgspec.json.decode(source)}

    def _name(self, request: CommitRequest[StagedRecords]) -> str:
        """Return what ids begin with. The attempt has the run, which belongs to one job, and the token."""
        parts = f"{self._context.operator_uid}\n{request.get_committable().attempt}"
        digest = hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()
        return f"{digest}-{request.checkpoint_id}-{request.subtask_id}"

    def close(self) -> None:
        """Close the connections."""
        self._sender.close()
