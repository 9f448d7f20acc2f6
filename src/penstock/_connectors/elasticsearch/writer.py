"""The sink's writers: documents with ids are sent at once, the others are staged for the committer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.transactional import StagingWriter
from penstock.errors import ElasticsearchDocumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._api.connectors.sink import WriterInitContext
    from penstock._connectors.elasticsearch.actions import BulkItem
    from penstock._connectors.elasticsearch.bulk import BulkSender
    from penstock._connectors.elasticsearch.emitter import ElasticsearchEmitter


class ElasticsearchWriter(StagingWriter[Any]):
    """Sends documents that have ids, and stages the others.

    Args:
        context: The writer's context.
        emitter: Makes the documents.
        sender: Sends them.
        most: How many wait to be sent; None for any number.
        most_bytes: How many bytes of them; None for any number.
        interval_s: How long they wait; None until the checkpoint.
        only_once: Whether a document with an id is an error, because it may be sent twice.
        clock: The time that passes, in seconds.
    """

    def __init__(
        self,
        context: WriterInitContext,
        emitter: ElasticsearchEmitter,
        sender: BulkSender,
        *,
        most: int | None = 1000,
        most_bytes: int | None = None,
        interval_s: float | None = None,
        only_once: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(context)
        self._emitter, self._sender = emitter, sender
        self._most, self._most_bytes, self._interval_s = most, most_bytes, interval_s
        self._only_once, self._clock = only_once, clock
        self._waiting: list[BulkItem] = []
        self._bytes = 0
        self._since = 0.0
        #: Indices that documents may be made in.
        self._seen: set[str] = set()

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Write a block of records.

        Raises:
            ElasticsearchDocumentError: A record is no document, or has an id where that is not allowed.
            ElasticsearchConnectorError: The cluster does not take what is sent.
        """
        self._begin()
        items = self._emitter.items(elements)
        # As plain values, which any version of Penstock reads.
        without = [(item.target, item.more, item.source) for item in items if item.id is None]
        if without:
            self._check_targets({target for target, _, _ in without})
            super().write_all(without, timestamps)
        if len(without) < len(items):
            self._take([item for item in items if item.id is not None])

    def _check_targets(self, targets: set[str]) -> None:
        """Check names with upper case: an alias may have one, and an index that would be made for a document not."""
        for target in targets - self._seen:
            if target != target.lower() and not target.startswith("<") and not self._sender.exists(target):
                reason = f"there is no index or alias {target!r}, and none is made, as indices have names in lower case"
                raise ElasticsearchDocumentError("Making a document", reason)
            self._seen.add(target)

    def _begin(self) -> None:
        if self._attempt != self._context.attempt_token:
            self._waiting, self._bytes = [], 0
        super()._begin()

    def _take(self, items: list[BulkItem]) -> None:
        if self._only_once:
            first = items[0]
            reason = "a document with an id may be written twice; choose DeliveryGuarantee.AT_LEAST_ONCE"
            raise ElasticsearchDocumentError(f"Writing document {first.id!r} into {first.target}", reason)
        if not self._waiting:
            self._since = self._clock()
        self._waiting += items
        self._bytes += sum(len(item.source) for item in items)
        waited = (
            (len(self._waiting), self._most),
            (self._bytes, self._most_bytes),
            (self._clock() - self._since, self._interval_s),
        )
        if any(limit is not None and value >= limit for value, limit in waited):
            self._send()

    def _send(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self._sender.send(waiting)

    def flush(self, end_of_input: bool) -> None:
        """Send and stage what is left, and wait until it is there."""
        self._begin()
        self._send()
        super().flush(end_of_input)

    def close(self) -> None:
        """Close the connections."""
        self._sender.close()
