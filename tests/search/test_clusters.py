"""What real clusters answer: Elasticsearch 7.17 and OpenSearch 2."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.search.scripted import numbered, values
from tests.search.test_bulk import puts
from tests.search.test_sink import builder, sink_into

from penstock._connectors.elasticsearch.actions import item_of
from penstock._connectors.elasticsearch.bulk import BulkOptions, BulkSender
from penstock._connectors.elasticsearch.options import ConnectionOptions
from penstock.datastream.connectors.elasticsearch import (
    ElasticsearchAction,
    ElasticsearchEmitter,
    ElasticsearchFailure,
)
from penstock.errors import ElasticsearchConnectorError, ElasticsearchDocumentError
from penstock.metrics.in_memory import InMemoryMetricGroup
from penstock.testing.sink_contract import SinkContract, SinkUnderTest
from penstock.testing.sink_run import SinkRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.services.search import Cluster

pytestmark = [pytest.mark.search, pytest.mark.sampled(2)]


class Sender:
    """Sends actions to a cluster, and keeps what it refuses."""

    def __init__(self, cluster: Cluster) -> None:
        self.failures: list[ElasticsearchFailure] = []
        options = BulkOptions(ConnectionOptions((cluster.url,)), max_bytes=None, handler=self.failures.append)
        self._sender = BulkSender(options, InMemoryMetricGroup())

    def send(self, *actions: ElasticsearchAction) -> None:
        self._sender.send(map(item_of, actions))

    def close(self) -> None:
        self._sender.close()


@pytest.fixture
def sender(cluster: Cluster) -> Iterator[Sender]:
    made = Sender(cluster)
    yield made
    made.close()


@pytest.mark.behaviour(112, 115)
def test_documents_without_ids_pass_the_contract_of_exactly_once_sinks(cluster: Cluster, index: str) -> None:
    """All checks share an index whose documents say which target they belong to, as an index takes long to make."""
    cluster.make(index, target="keyword", n="integer")
    names = count()

    def make() -> SinkUnderTest:
        target = f"target {next(names)}"

        def action(number: int) -> ElasticsearchAction:
            return ElasticsearchAction(index, {"target": target, "n": number})

        def read() -> list[int]:
            found = cluster.documents(index).values()
            return [one["n"] for one in found if one["target"] == target]

        emitter = ElasticsearchEmitter.from_function(action)
        return SinkUnderTest(builder(cluster.url, emitter).build(), read, lambda: None)

    SinkContract(make, range(30)).check_all()
    cluster.delete([index])


def test_documents_with_ids_are_set_replaced_kept_and_deleted(cluster: Cluster, index: str, sender: Sender) -> None:
    cluster.make(index)
    run = SinkRun(sink_into(cluster.url, index, "id"))
    run.epoch([{"id": "a", "n": 1}, {"id": "a", "more": 2}, {"id": "b", "n": 1}, {"id": "c", "n": 1}])
    run.close()
    assert cluster.documents(index)["a"] == {"id": "a", "n": 1, "more": 2}
    deleted = ElasticsearchAction(index, id="b", operation="delete")
    sender.send(
        ElasticsearchAction(index, {"n": 3}, id="a"),
        ElasticsearchAction(index, {"n": 4}, id="c", operation="create"),
        *(deleted, deleted),
        *(ElasticsearchAction(index, {"n": n}, id="v", version=n) for n in (7, 6, 7)),
    )
    assert cluster.documents(index) == {"a": {"n": 3}, "c": {"id": "c", "n": 1}, "v": {"n": 7}}
    assert sender.failures == []
    cluster.delete([index])


def test_a_document_that_does_not_fit_is_refused_alone_and_named(cluster: Cluster, index: str, sender: Sender) -> None:
    cluster.make(index, n="integer")
    sender.send(*puts(index, 2), ElasticsearchAction(index, {"n": "seven"}, id="bad"), *puts(index, 2, 2))
    [failure] = sender.failures
    assert (failure.id, failure.status, failure.source) == ("bad", 400, '{"n":"seven"}')
    assert "mapper_parsing_exception" in failure.reason
    assert "seven" in failure.reason
    assert set(cluster.documents(index)) == {"k0", "k1", "k2", "k3"}
    run = SinkRun(sink_into(cluster.url, index))
    with pytest.raises(ElasticsearchDocumentError, match="mapper_parsing_exception"):
        run.commit(run.epoch([{"n": 10}, {"n": "eleven"}]))
    cluster.ask("PUT", f"/{index}/_settings", {"index.blocks.write": True})
    sender.send(ElasticsearchAction(index, {"n": 1}, id="blocked"))
    assert "blocked" in sender.failures[-1].reason
    cluster.delete([index])


def test_dead_letters_are_in_their_index(cluster: Cluster, index: str) -> None:
    cluster.make(index, n="integer")
    emitter = ElasticsearchEmitter.static_index(index)
    sink = builder(cluster.url, emitter).set_dead_letter_index(f"{index}-dead").build()
    for _ in range(2):
        run = SinkRun(sink)
        checkpoint = run.epoch([{"n": 1}, {"n": "two"}], end_of_input=True)
        for _ in range(2):
            run.commit(checkpoint, may_be_committed=True)
    letters = cluster.documents(f"{index}-dead").values()
    assert [json.loads(letter["document"]) for letter in letters] == [{"n": "two"}] * 2, "one for each run"
    assert values(cluster.documents(index)) == [{"n": 1}] * 2
    cluster.delete([index, f"{index}-dead"])


def test_a_request_that_the_cluster_does_not_take_is_sent_in_parts(
    cluster: Cluster, index: str, sender: Sender
) -> None:
    """The servers of the tests take 1 MB."""
    cluster.make(index)
    sender.send(*(ElasticsearchAction(index, {"text": "x" * 100_000, "n": n}, id=str(n)) for n in range(25)))
    assert sorted(one["n"] for one in cluster.documents(index).values()) == list(range(25))
    sender.send(ElasticsearchAction(index, {"text": "x" * 1_100_000}, id="large"))
    assert [(failure.id, failure.status) for failure in sender.failures] == [("large", 413)]
    cluster.delete([index])


def test_what_a_cluster_says_against_a_whole_request_is_shown(cluster: Cluster) -> None:
    emitter = ElasticsearchEmitter.static_index("i", "id")
    run = SinkRun(builder(cluster.url, emitter).set_connection_path_prefix("no/such/path").build())
    with pytest.raises(ElasticsearchConnectorError, match="status 40"):
        run.epoch(list(numbered(1)))
    run.close()


def test_aliases_and_data_streams_take_documents_without_ids(cluster: Cluster, index: str) -> None:
    cluster.make(index)
    cluster.ask("PUT", f"/{index}/_alias/{index}-alias")
    names = [f"{index}-alias"]
    # Elasticsearch has data streams in a module of its distribution, which Maven Central does not have.
    if cluster.ask("GET", "/")["version"].get("distribution") == "opensearch":
        names.append(f"{index}-stream")
        template = {"index_patterns": [f"{index}-stream"], "data_stream": {}, "priority": 500}
        cluster.ask("PUT", f"/_index_template/{index}", template)
    for name in names:
        run = SinkRun(sink_into(cluster.url, name))
        checkpoint = run.epoch([{"@timestamp": "2026-01-01T00:00:00Z", "n": 1}], end_of_input=True)
        for _ in range(2):
            run.commit(checkpoint, may_be_committed=True)
        assert [one["n"] for one in cluster.documents(name).values()] == [1]
    for name in names[1:]:
        cluster.ask("DELETE", f"/_data_stream/{name}")
    cluster.delete([index])


def test_a_commit_that_is_repeated_behind_a_rollover_has_no_document_twice(cluster: Cluster, index: str) -> None:
    first, second, alias = f"{index}-1", f"{index}-2", f"{index}-alias"
    cluster.ask("PUT", f"/{first}", {"aliases": {alias: {"is_write_index": True}}})
    run = SinkRun(sink_into(cluster.url, alias))
    checkpoint = run.epoch(list(numbered(20)))
    run.commit(checkpoint)
    cluster.ask("POST", f"/{alias}/_rollover/{second}")
    run.commit(checkpoint, may_be_committed=True)
    run.close()
    assert values(cluster.documents(alias)) == sorted(numbered(20), key=repr)
    cluster.delete([first, second])
