"""The Elasticsearch sink."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock._api.connectors.sink import DeliveryGuarantee, Sink, SupportsCommitter
from penstock._connectors.elasticsearch.bulk import BulkOptions
from penstock._shelf import show

if TYPE_CHECKING:
    from penstock._api.connectors.committer import CommitterInitContext
    from penstock._api.connectors.sink import WriterInitContext
    from penstock._api.connectors.transactional import StagedRecords  # noqa: F401 - named among the bases
    from penstock._connectors.elasticsearch.committer import ElasticsearchCommitter
    from penstock._connectors.elasticsearch.emitter import ElasticsearchEmitter
    from penstock._connectors.elasticsearch.writer import ElasticsearchWriter


@dataclass(frozen=True, slots=True)
class ElasticsearchSinkOptions:
    """What a builder has gathered."""

    emitter: ElasticsearchEmitter | None = None
    guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE
    interval_ms: int | None = None
    bulk: BulkOptions = field(default_factory=BulkOptions)


class ElasticsearchSink(Sink[Any], SupportsCommitter["StagedRecords"]):
    """Writes documents into Elasticsearch or OpenSearch; ``Elasticsearch7SinkBuilder()`` makes one.

    A document with an id is sent at once: at least once, and the same whenever it is sent again. A document without one
    is sent when its checkpoint is durable, exactly once, under an id that is made of its place in the checkpoint.

    Source: org.apache.flink.connector.elasticsearch.sink.ElasticsearchSink.

    Args:
        options: What the builder has gathered.
    """

    def __init__(self, options: ElasticsearchSinkOptions) -> None:
        self._options = options

    def create_writer(self, context: WriterInitContext) -> ElasticsearchWriter:
        """Make a writer, which connects with the first document that it sends."""
        from penstock._connectors.elasticsearch.bulk import BulkSender
        from penstock._connectors.elasticsearch.writer import ElasticsearchWriter

        options = self._options
        assert options.emitter is not None
        hosts = options.bulk.connection.hosts
        first = context.subtask_id % len(hosts)  # writers do not begin all with one host
        connection = replace(options.bulk.connection, hosts=hosts[first:] + hosts[:first])
        return ElasticsearchWriter(
            context,
            options.emitter,
            BulkSender(replace(options.bulk, connection=connection), context.metric_group),
            most=options.bulk.max_actions,
            most_bytes=options.bulk.max_bytes,
            interval_s=None if options.interval_ms is None else options.interval_ms / 1000,
            only_once=options.guarantee is DeliveryGuarantee.EXACTLY_ONCE,
        )

    def create_committer(self, context: CommitterInitContext) -> ElasticsearchCommitter:
        """Make the committer, which connects with its first commit."""
        from penstock._connectors.elasticsearch.bulk import BulkSender
        from penstock._connectors.elasticsearch.committer import ElasticsearchCommitter

        return ElasticsearchCommitter(context, BulkSender(self._options.bulk, context.metric_group))


show("penstock.datastream.connectors.elasticsearch", ElasticsearchSink)
