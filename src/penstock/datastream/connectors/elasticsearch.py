"""Elasticsearch and OpenSearch as a sink (``pyflink.datastream.connectors.elasticsearch``)."""

from __future__ import annotations

from penstock._absent import explain
from penstock._api.connectors.sink import DeliveryGuarantee
from penstock._connectors.elasticsearch.actions import ElasticsearchAction
from penstock._connectors.elasticsearch.builder import Elasticsearch7SinkBuilder
from penstock._connectors.elasticsearch.emitter import ElasticsearchEmitter
from penstock._connectors.elasticsearch.failures import ElasticsearchFailure
from penstock._connectors.elasticsearch.options import FlushBackoffType
from penstock._connectors.elasticsearch.sink import ElasticsearchSink

__all__ = [
    "DeliveryGuarantee",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchAction",
    "ElasticsearchEmitter",
    "ElasticsearchFailure",
    "ElasticsearchSink",
    "FlushBackoffType",
]

explain(__name__)
