"""What a bulk request comes to, whatever a cluster answers: against a server that fails as its script says."""

from __future__ import annotations

import logging
import pickle
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.search.scripted import Fault, ScriptedCluster, numbered

from penstock._connectors.elasticsearch import bulk
from penstock._connectors.elasticsearch.actions import item_of
from penstock._connectors.elasticsearch.bulk import BulkOptions, BulkSender
from penstock._connectors.elasticsearch.options import Backoff, ConnectionOptions
from penstock.datastream.connectors.elasticsearch import (
    Elasticsearch7SinkBuilder,
    ElasticsearchAction,
    ElasticsearchEmitter,
    ElasticsearchFailure,
    FlushBackoffType,
)
from penstock.errors import ElasticsearchConnectorError, ElasticsearchDocumentError
from penstock.metrics.in_memory import InMemoryMetricGroup
from penstock.testing.sink_run import SinkRun

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD, API_KEY = "quite-secret-7", "VnVhQ2ZHY0JDZGJrUW0tZTVhT3g6dWkybHAyYXhUTm1zeWFrdzl0dk5udw=="

#: The user's name and that password, as they are sent.
ENCODED = "dXNlcjpxdWl0ZS1zZWNyZXQtNw=="


class Sending:
    """A sender that does not sleep."""

    def __init__(self, *clusters: ScriptedCluster, **options: Any) -> None:
        connection = options.pop("connection", ConnectionOptions())
        connection = replace(connection, hosts=tuple(cluster.url for cluster in clusters))
        self.slept: list[float] = []
        self.metrics = InMemoryMetricGroup()
        self.sender = BulkSender(BulkOptions(connection, **options), self.metrics, self.slept.append)

    def send(self, *actions: ElasticsearchAction) -> None:
        try:
            self.sender.send(map(item_of, actions))
        finally:
            self.sender.close()


def puts(index: str, count: int, first: int = 0) -> list[ElasticsearchAction]:
    return [ElasticsearchAction(index, {"n": one["n"]}, id=one["id"]) for one in numbered(count, first)]


#: What goes wrong with the first requests, and how often something is sent again.
TROUBLES = {
    "too many requests": ([Fault(status=429)] * 3, 3),
    "unavailable, and bad gateways": ([Fault(status=503), Fault(status=502), Fault(status=504)], 3),
    "some documents are refused": ([Fault(refused=(1, 3)), Fault(refused=(0,)), Fault(refused=(0,))], 3),
    "a shard is away": ([Fault(refused=(0, 1, 2, 3, 4), refused_with=503)], 1),
    "cut in the middle of the request": ([Fault(kept=-1)], 1),
    "cut before the answer": ([Fault(kept=0)], 1),
    "cut in the middle of the answer": ([Fault(kept=0.5)], 1),
    "an answer without some items": ([Fault(fewer=2)], 1),
    "no JSON": ([Fault(text="<html>Welcome</html>")], 1),
    "half of the JSON": ([Fault(text='{"errors":false,"items":[{"ind')], 1),
    "JSON of something else": ([Fault(text='{"errors":false}'), Fault(text="[]"), Fault(text="7")], 3),
    "items of other documents": ([Fault(text='{"items":[{"index":{"_id":"x","status":200}}]}')], 1),
    "items without a status": ([Fault(text='{"items":[{"index":{"_id":"k0"}}]}')], 1),
}


@cells("trouble", TROUBLES)
def test_after_each_trouble_all_documents_are_there_in_their_last_version(trouble: tuple[list[Fault], int]) -> None:
    script, retries = trouble
    with ScriptedCluster() as cluster:
        cluster.script += script
        sending = Sending(cluster)
        again = [ElasticsearchAction("i", {"n": 100 + number}, id=f"k{number}") for number in range(2)]
        gone = ElasticsearchAction("i", id="k4", operation="delete")
        sending.send(*puts("i", 5), *again, gone)
        assert cluster.documents("i") == {"k0": {"n": 100}, "k1": {"n": 101}, "k2": {"n": 2}, "k3": {"n": 3}}
        assert len(sending.slept) == retries
        assert sending.metrics.counter("bulkRetries").get_count() == retries


def test_an_answer_that_does_not_come_is_not_waited_for(scripted: ScriptedCluster) -> None:
    scripted.script.append(Fault(is_slow=True))
    sending = Sending(scripted, connection=ConnectionOptions(answer_ms=50))
    sending.send(*puts("i", 3))
    assert len(scripted.documents("i")) == 3
    assert len(scripted.requests) == 2


def test_what_was_refused_is_followed_by_later_actions_on_the_same_document(scripted: ScriptedCluster) -> None:
    """The later one was done at the first try: sent alone, the earlier one would come behind it."""
    scripted.script.append(Fault(refused=(0,)))
    first, other, last = (ElasticsearchAction("i", {"n": n}, id=name) for name, n in (("a", 1), ("b", 2), ("a", 3)))
    Sending(scripted).send(first, other, last)
    assert scripted.documents("i") == {"a": {"n": 3}, "b": {"n": 2}}
    assert [meta["_id"] for _, meta in scripted.requests[1]] == ["a", "a"]


def test_the_delay_grows_from_try_to_try_and_starts_fresh_when_something_was_taken(scripted: ScriptedCluster) -> None:
    scripted.script += [*[Fault(status=429)] * 2, Fault(refused=(1,)), Fault(status=429, pause="7")]
    sending = Sending(scripted, backoff=Backoff(FlushBackoffType.EXPONENTIAL, 3, 1000))
    sending.send(*puts("i", 2))
    assert sending.slept == [1, 2, 1, 7]
    scripted.script += [Fault(status=429)] * 2
    sending = Sending(scripted, backoff=Backoff(FlushBackoffType.CONSTANT, 3, 20))
    sending.send(*puts("i", 2))
    assert sending.slept == [0.02, 0.02]


def test_a_cluster_that_does_not_recover_fails_the_job(scripted: ScriptedCluster) -> None:
    for kind, tries in ((FlushBackoffType.CONSTANT, 3), (FlushBackoffType.NONE, 1)):
        scripted.script = [Fault(status=429)] * 3
        before = len(scripted.paths)
        with pytest.raises(ElasticsearchConnectorError, match=r"status 429 \(trouble: as the script says\)") as raised:
            Sending(scripted, backoff=Backoff(kind, 2, 1)).send(*puts("i", 4))
        assert "4 actions" in str(raised.value)
        assert not isinstance(raised.value, ElasticsearchDocumentError)
        assert len(scripted.paths) - before == tries
    assert scripted.documents("i") == {}


def test_a_request_that_is_refused_as_a_whole_is_not_sent_again(scripted: ScriptedCluster) -> None:
    for status, text in ((401, "the API key"), (403, "a right"), (404, "path prefix"), (400, "as the script says")):
        scripted.script = [Fault(status=status)]
        sending = Sending(scripted)
        with pytest.raises(ElasticsearchConnectorError, match=text):
            sending.send(*puts("i", 1))
        assert sending.slept == []


# ---------------------------------------------------------------------------------------------------- refused documents


def mixed() -> list[ElasticsearchAction]:
    good, bad = puts("strict", 4), ElasticsearchAction("strict", {"n": "seven"}, id="bad")
    return [*good[:2], bad, *good[2:]]


def test_a_document_that_does_not_fit_its_index_fails_the_job_and_is_named(scripted: ScriptedCluster) -> None:
    scripted.script.append(Fault(refused=(0,)))  # so the others are sent again before
    with pytest.raises(ElasticsearchDocumentError, match="'bad' into strict") as raised:
        Sending(scripted).send(*mixed())
    for part in ("mapper_parsing_exception: failed to parse: For input string", "status 400", "set_dead_letter_index"):
        assert part in str(raised.value)
    assert set(scripted.documents("strict")) == {"k0", "k1", "k2", "k3"}


def test_a_handler_gets_each_refused_document_and_the_others_are_written(scripted: ScriptedCluster) -> None:
    seen: list[ElasticsearchFailure] = []
    sending = Sending(scripted, handler=seen.append)
    sending.send(*mixed(), ElasticsearchAction("strict", {"n": 1.5}, id="worse"))
    reason = "mapper_parsing_exception: failed to parse: For input string"
    assert seen == [
        ElasticsearchFailure("strict", "bad", "index", '{"n":"seven"}', 400, reason),
        ElasticsearchFailure("strict", "worse", "index", '{"n":1.5}', 400, reason),
    ]
    assert set(scripted.documents("strict")) == {"k0", "k1", "k2", "k3"}
    assert sending.metrics.counter("numRecordsSendErrors").get_count() == 2


def test_what_a_handler_returns_takes_the_place_and_is_not_refused_in_silence(scripted: ScriptedCluster) -> None:
    Sending(scripted, handler=lambda bad: ElasticsearchAction("strict", {"n": -1}, id=bad.id)).send(*mixed())
    assert scripted.documents("strict")["bad"] == {"n": -1}
    with pytest.raises(ElasticsearchDocumentError, match="'bad' into strict"):
        Sending(scripted, handler=lambda bad: ElasticsearchAction("strict", {"n": ""}, id=bad.id)).send(*mixed())
    with pytest.raises(ValueError, match="needs an id"):
        Sending(scripted, handler=lambda bad: ElasticsearchAction("loose", {"n": ""})).send(*mixed())


def test_dead_letters_are_there_once_though_they_are_sent_twice(scripted: ScriptedCluster) -> None:
    sink = Elasticsearch7SinkBuilder().set_hosts(scripted.url).set_dead_letter_index("dead")
    sink = sink.set_emitter(ElasticsearchEmitter.static_index("strict", "n")).build()
    for _ in range(2):
        run = SinkRun(sink)
        run.commit(run.epoch([{"n": 1}, {"n": "seven"}], end_of_input=True))
    assert scripted.documents("strict") == {"1": {"n": 1}}
    [letter] = scripted.documents("dead").values()
    assert {key: letter[key] for key in ("index", "id", "operation", "document", "status")} == {
        "index": "strict",
        "id": "seven",
        "operation": "update",
        "document": '{"n":"seven"}',
        "status": 400,
    }


def test_a_request_that_is_too_large_is_sent_in_parts_and_a_document_is_refused(scripted: ScriptedCluster) -> None:
    scripted.most_bytes = 400
    seen: list[ElasticsearchFailure] = []
    large = ElasticsearchAction("i", {"text": "x" * 500}, id="large")
    Sending(scripted, handler=seen.append).send(*puts("i", 10), large, *puts("i", 10, 10))
    assert len(scripted.documents("i")) == 20
    assert [(one.id, one.status) for one in seen] == [("large", 413)]


def test_conflicts_that_mean_done_are_done_and_others_are_tried_again(scripted: ScriptedCluster) -> None:
    new = ElasticsearchAction("i", {"n": 1}, id="a", operation="create")
    sending = Sending(scripted)
    sending.send(new)
    sending.send(replace(new, source={"n": 2}), ElasticsearchAction("i", id="none", operation="delete"))
    assert scripted.documents("i") == {"a": {"n": 1}}
    for version in (5, 4, 5):
        sending.send(ElasticsearchAction("i", {"n": version}, id="v", version=version))
    assert scripted.documents("i")["v"] == {"n": 5}
    assert sending.slept == []
    scripted.script.append(Fault(refused=(0,), refused_with=409))
    sending.send(ElasticsearchAction("i", {"n": 3}, id="u", operation="update"))
    assert (scripted.documents("i")["u"], len(sending.slept)) == ({"n": 3}, 1)


def test_actions_that_mean_nothing_are_refused_where_they_are_made() -> None:
    for wrong in ({"operation": "delete"}, {"operation": "update"}, {"version": 1}):
        with pytest.raises(ValueError, match="id"):
            ElasticsearchAction("i", {}, **wrong)
    for source, text in (({"x": object()}, "no value of JSON"), ([1], "is a list")):
        with pytest.raises(ElasticsearchDocumentError, match=text):
            item_of(ElasticsearchAction("i", source))


# ------------------------------------------------------------------------------------------------------- the connection


def test_requests_have_at_most_so_many_actions_and_bytes(scripted: ScriptedCluster) -> None:
    Sending(scripted, max_actions=4).send(*puts("i", 10))
    assert list(map(len, scripted.requests)) == [4, 4, 2]
    scripted.requests.clear()
    large = ElasticsearchAction("i", {"text": "x" * 1000}, id="large")
    Sending(scripted, max_actions=None, max_bytes=120).send(*puts("i", 4), large, *puts("i", 1))
    assert list(map(len, scripted.requests)) == [2, 2, 1, 1]


def test_more_documents_than_one_question_names_are_all_looked_for(
    scripted: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_LOOKED_FOR", 3)
    written, all_of_them = puts("a", 5), puts("a", 8)
    Sending(scripted).send(*written)
    sending = Sending(scripted)
    left = sending.sender.without_present([*map(item_of, all_of_them), *map(item_of, puts("b", 4))])
    sending.sender.close()
    assert [(item.target, item.id) for item in left] == [
        *(("a", action.id) for action in all_of_them[5:]),
        *(("b", action.id) for action in puts("b", 4)),
    ]


def test_the_next_host_is_asked_where_one_does_not_answer(scripted: ScriptedCluster) -> None:
    with ScriptedCluster() as away:
        pass
    sending = Sending(away, scripted)
    sending.send(*puts("i", 3))
    assert len(scripted.documents("i")) == 3
    assert len(sending.slept) == 1
    with pytest.raises(ElasticsearchConnectorError, match="does not answer"):
        Sending(away, backoff=Backoff(FlushBackoffType.CONSTANT, 2, 1)).send(*puts("i", 3))


def test_a_user_an_api_key_and_a_path_prefix_reach_the_server(scripted: ScriptedCluster) -> None:
    builder = Elasticsearch7SinkBuilder().set_hosts(scripted.url)
    builder = builder.set_emitter(ElasticsearchEmitter.static_index("i", "id")).set_connection_path_prefix("behind/")
    for made, header in (
        (builder.set_connection_username("user").set_connection_password(PASSWORD), f"Basic {ENCODED}"),
        (Elasticsearch7SinkBuilder().set_connection_api_key(API_KEY), f"ApiKey {API_KEY}"),
        (Elasticsearch7SinkBuilder().set_connection_api_key("a:b"), "ApiKey YTpi"),
    ):
        sink = made.set_hosts(scripted.url).set_emitter(ElasticsearchEmitter.static_index("i", "id")).build()
        run = SinkRun(sink)
        run.epoch([{"id": 1}], end_of_input=True)
        assert scripted.headers[-1]["Authorization"] == header
    assert [path.partition("?")[0] for path in scripted.paths] == ["/behind/_bulk", "/_bulk", "/_bulk"]


def test_secrets_are_in_no_text(scripted: ScriptedCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    builder = Elasticsearch7SinkBuilder().set_hosts(scripted.url)
    builder = builder.set_emitter(ElasticsearchEmitter.static_index("i", "id"))
    texts: list[str] = []
    for made, secret in (
        (builder.set_connection_username("user").set_connection_password(PASSWORD), PASSWORD),
        (Elasticsearch7SinkBuilder().set_connection_api_key(API_KEY), API_KEY),
    ):
        made.set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 1, 1)
        sink = made.set_hosts(scripted.url).set_emitter(ElasticsearchEmitter.static_index("i", "id")).build()
        texts.append(repr(vars(sink)))
        for answer in (Fault(status=401), Fault(status=429), Fault(text=f"not a bulk answer: {secret}")):
            scripted.script = [answer] * 9
            run = SinkRun(pickle.loads(pickle.dumps(sink)))
            with pytest.raises(ElasticsearchConnectorError) as raised:
                run.epoch([{"id": 1}], end_of_input=True)
            run.close()
            texts.append(str(raised.value))
    texts += [record.getMessage() for record in caplog.records]
    for secret in (PASSWORD, API_KEY, ENCODED):
        assert not [text for text in texts if secret in text]
    for host in (f"http://user:{PASSWORD}@localhost:9200", "http://localhost:9200/path", "ftp://localhost", "", "a b"):
        with pytest.raises(ValueError, match="set_connection_password") as refused:
            builder.set_hosts(host)
        assert PASSWORD not in str(refused.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tls") / "both.pem"
    subject = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30")
    files = ("-keyout", str(place), "-out", str(place.with_name("certificate.pem")))
    subprocess.run(["openssl", "req", "-x509", *kind, *subject, *files], check=True, capture_output=True)
    place.write_text(place.read_text() + place.with_name("certificate.pem").read_text())
    return place


def test_tls_trusts_the_certificates_that_are_given(certificate: Path) -> None:
    with ScriptedCluster(tls=certificate) as cluster:
        given = ConnectionOptions(certificates=str(certificate.with_name("certificate.pem")))
        Sending(cluster, connection=given).send(*puts("i", 3))
        assert len(cluster.documents("i")) == 3
        sending = Sending(cluster)
        with pytest.raises(ElasticsearchConnectorError, match="is not trusted"):
            sending.send(*puts("i", 1))
        assert sending.slept == [], "another try would not help"
        with pytest.raises(ElasticsearchConnectorError, match=r"gone\.pem cannot be read"):
            Sending(cluster, connection=ConnectionOptions(certificates="gone.pem")).send(*puts("i", 1))


def test_builders_say_what_is_missing_or_does_not_fit() -> None:
    from penstock.datastream.connectors.elasticsearch import DeliveryGuarantee

    emitter = ElasticsearchEmitter.static_index("i", "id")
    whole = Elasticsearch7SinkBuilder
    for wrong, text in (
        (lambda: whole().set_hosts("h").build(), "set_emitter"),
        (lambda: whole().set_emitter(emitter).build(), "set_hosts"),
        (lambda: whole().set_hosts([]), "at least one"),
        (lambda: whole().set_hosts("h").set_emitter(emitter).set_connection_username("u").build(), "with a password"),
        (lambda: whole().set_bulk_flush_max_actions(0), "num_max_actions"),
        (lambda: whole().set_bulk_flush_max_size_mb(-2), "max_size_mb"),
        (lambda: whole().set_bulk_flush_interval(0), "interval_millis"),
        (lambda: whole().set_socket_timeout(0), "timeout"),
        (lambda: whole().set_bulk_flush_backoff_strategy(FlushBackoffType.NONE, -1, 0), "max_retries"),
        (
            lambda: (
                whole()
                .set_hosts("h")
                .set_emitter(emitter)
                .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .build()
            ),
            "AT_LEAST_ONCE",
        ),
    ):
        with pytest.raises(ValueError, match=text):
            wrong()
