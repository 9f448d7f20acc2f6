"""Sends actions until each of them is done, or known to be refused for good."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock._connectors.elasticsearch.actions import item_of
from penstock._connectors.elasticsearch.client import (
    TRY_AGAIN,
    ElasticsearchClient,
    TooLargeError,
    UnsureError,
    reason_of,
)
from penstock._connectors.elasticsearch.failures import ElasticsearchFailure
from penstock._connectors.elasticsearch.options import Backoff, ConnectionOptions
from penstock.common.redaction import hiding
from penstock.errors import ElasticsearchConnectorError, ElasticsearchDocumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock._connectors.elasticsearch.actions import BulkItem
    from penstock._connectors.elasticsearch.failures import FailureHandler
    from penstock.metrics.metricbase import MetricGroup

T = TypeVar("T")
_log = hiding(logging.getLogger("penstock.elasticsearch"))

_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
#: How many documents one search looks for.
_LOOKED_FOR: Final = 1000


@dataclass(frozen=True, slots=True)
class BulkOptions:
    """How actions are sent: how many at once, how often, and what becomes of refused ones."""

    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    #: The most actions and bytes of one request; None without a limit.
    max_actions: int | None = 1000
    max_bytes: int | None = 5 << 20
    backoff: Backoff = field(default_factory=Backoff)
    handler: FailureHandler | None = None


class BulkSender:
    """Sends actions in their order, request by request; each is answered before the next one is sent.

    Args:
        options: How.
        metrics: For counters.
        sleep: Waits for some seconds.
    """

    def __init__(self, options: BulkOptions, metrics: MetricGroup, sleep: Callable[[float], None] = time.sleep) -> None:
        self._options, self._sleep = options, sleep
        self._client = ElasticsearchClient(options.connection)
        self._retries = metrics.counter("bulkRetries")
        self._refused = metrics.counter("numRecordsSendErrors")

    def send(self, items: Iterable[BulkItem]) -> None:
        """Send actions, and wait until all are done.

        Raises:
            ElasticsearchConnectorError: The cluster does not take them, after all retries.
            ElasticsearchDocumentError: It refuses a document, and no handler takes it.
        """
        try:
            for batch in self._batches(items):
                for failure in self._done(batch):
                    self._handle(failure)
        except BaseException:
            self.close()  # what comes next begins with a new connection, if anything comes
            raise

    def exists(self, target: str) -> bool:
        """Tell whether there is an index, alias or data stream, for names that no new index can have.

        Raises:
            ElasticsearchConnectorError: The cluster does not answer, after all retries.
        """
        return self._answered(lambda: self._client.exists(target))

    def without_present(self, items: Sequence[BulkItem]) -> list[BulkItem]:
        """Return the items whose documents are in no index of their targets.

        An alias or a data stream may have another index by now than at an earlier try, and ids are unique in an index.

        Raises:
            ElasticsearchConnectorError: The cluster does not answer, after all retries.
        """
        left: list[BulkItem] = []
        for target in dict.fromkeys(item.target for item in items):
            part = [item for item in items if item.target == target]
            for at in range(0, len(part), _LOOKED_FOR):
                some = part[at : at + _LOOKED_FOR]
                ids = [item.id for item in some if item.id is not None]
                present = self._answered(lambda target=target, ids=ids: self._client.present(target, ids))
                if present is None:
                    _log.warning(
                        "%s does not let this user look for documents (the rights read and maintenance). They are sent "
                        "again: if an alias or data stream has another index since the last try, it has them twice",
                        target,
                    )
                left += [item for item in some if item.id not in (present or ())]
        return left

    def _answered(self, ask: Callable[[], T]) -> T:
        delays = self._options.backoff.delays_s()
        while True:
            try:
                return ask()
            except UnsureError as error:
                delay_s = next(delays, None)
                if delay_s is None:
                    text = f"{error.reason}, and it could not be asked in all retries of the back-off"
                    raise ElasticsearchConnectorError(f"Asking {self._client.address}", text) from None
                self._retries.inc()
                self._sleep(max(delay_s, error.pause_s))

    def _batches(self, items: Iterable[BulkItem]) -> Iterator[list[tuple[BulkItem, bytes]]]:
        options = self._options
        batch: list[tuple[BulkItem, bytes]] = []
        size = 0
        for item in items:
            lines = item.lines()
            is_full = len(batch) == options.max_actions or (options.max_bytes or size + len(lines)) < size + len(lines)
            if batch and is_full:
                yield batch
                batch, size = [], 0
            batch.append((item, lines))
            size += len(lines)
        if batch:
            yield batch

    def _done(self, batch: list[tuple[BulkItem, bytes]]) -> list[ElasticsearchFailure]:
        """Send one request until all of it is done, and return what is refused."""
        failures: list[ElasticsearchFailure] = []
        delays = self._options.backoff.delays_s()
        while True:
            pause_s = 0.0
            try:
                answers = self._client.bulk(b"".join(lines for _, lines in batch), [item.id for item, _ in batch])
            except TooLargeError:
                return failures + self._in_parts(batch)
            except UnsureError as error:
                reason, pause_s = error.reason, error.pause_s
            else:
                outcomes = [_outcome(item, answer) for (item, _), answer in zip(batch, answers, strict=True)]
                failures += [outcome for outcome in outcomes if isinstance(outcome, ElasticsearchFailure)]
                left = _again(batch, outcomes)
                if not left:
                    return failures
                if len(left) < len(batch):  # it comes forward
                    delays = self._options.backoff.delays_s()
                batch, reason = left, next(outcome for outcome in outcomes if isinstance(outcome, str))
            delay_s = next(delays, None)
            if delay_s is None:
                text = f"{reason}, and {len(batch)} actions could not be sent in all retries of the back-off"
                raise ElasticsearchConnectorError(f"Writing into {self._client.address}", text)
            _log.info("%d actions are sent again in %.1f s: %s", len(batch), max(delay_s, pause_s), reason)
            self._retries.inc()
            self._sleep(max(delay_s, pause_s))

    def _in_parts(self, batch: list[tuple[BulkItem, bytes]]) -> list[ElasticsearchFailure]:
        half = len(batch) // 2
        if half:
            return self._done(batch[:half]) + self._done(batch[half:])
        [(item, lines)] = batch
        return [_failure(item, 413, f"the cluster takes no request of {len(lines)} bytes (http.max_content_length)")]

    def _handle(self, failure: ElasticsearchFailure) -> None:
        handler = self._options.handler
        if handler is None:
            raise _error(failure)
        self._refused.inc()
        action = handler(failure)
        if action is None:
            return
        if action.id is None:
            msg = "The action that a failure handler returns needs an id, because it may be sent twice."
            raise ValueError(msg)
        item = item_of(action)
        for again in self._done([(item, item.lines())]):  # what takes the place of a refused one is not refused
            raise _error(again)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _outcome(item: BulkItem, answer: dict[str, Any]) -> ElasticsearchFailure | str | None:
    """Return None for an action that is done, why it has to be sent again, or that it is refused."""
    status = answer["status"]
    error = answer.get("error")
    if 200 <= status < 300:
        return None
    if status == _NOT_FOUND and item.operation == "delete" and error is None:
        return None  # it is not there
    if status == _CONFLICT and (item.operation == "create" or "version" in item.more):
        return None  # it is there already, or a newer one is
    reason = reason_of(error)
    if status in TRY_AGAIN or status == _CONFLICT:
        return f"the index {item.target} answers with status {status} ({reason})"
    return _failure(item, status, reason)


def _again(
    batch: list[tuple[BulkItem, bytes]], outcomes: Sequence[ElasticsearchFailure | str | None]
) -> list[tuple[BulkItem, bytes]]:
    """Return what has to be sent again, with later actions on the same document: the last one has to stay the last."""
    held: set[tuple[str, str | None]] = set()
    left: list[tuple[BulkItem, bytes]] = []
    for one, outcome in zip(batch, outcomes, strict=True):
        document = one[0].target, one[0].id
        if isinstance(outcome, str) or (document in held and outcome is None):
            held.add(document)
            left.append(one)
    return left


def _failure(item: BulkItem, status: int, reason: str) -> ElasticsearchFailure:
    return ElasticsearchFailure(item.target, item.id or "", item.operation, item.source.decode(), status, reason)


def _error(failure: ElasticsearchFailure) -> ElasticsearchDocumentError:
    what = f"Writing document {failure.id!r} into {failure.index}"
    way_out = "mend the mapping or the record, or take such documents by set_failure_handler or set_dead_letter_index"
    return ElasticsearchDocumentError(what, f"{failure.reason} (status {failure.status}); {way_out}")
