"""What writers send at once and what they stage, and that each document is there once: on a scripted cluster."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program
from tests.search.scripted import Fault, ScriptedCluster, numbered, values

from penstock._connectors.elasticsearch.writer import ElasticsearchWriter
from penstock.common import Row
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.elasticsearch import (
    DeliveryGuarantee,
    Elasticsearch7SinkBuilder,
    ElasticsearchAction,
    ElasticsearchEmitter,
    ElasticsearchFailure,
    FlushBackoffType,
)
from penstock.errors import (
    ElasticsearchConnectorError,
    ElasticsearchDocumentError,
    LostCommittableError,
    UnsupportedOperationError,
)
from penstock.testing.connector_contexts import TestCommitRequest, TestCommitterContext, TestWriterContext
from penstock.testing.in_process import Chaos
from penstock.testing.sink_contract import SinkContract, SinkUnderTest
from penstock.testing.sink_run import SinkRun

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datastream.connectors.elasticsearch import ElasticsearchSink

RECORDS = list(numbered(60))


def builder(url: str, emitter: ElasticsearchEmitter) -> Elasticsearch7SinkBuilder:
    made = Elasticsearch7SinkBuilder().set_hosts(url).set_emitter(emitter)
    return made.set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 20, 1)


def sink_into(url: str, index: str, key: str | None = None) -> ElasticsearchSink:
    return builder(url, ElasticsearchEmitter.static_index(index, key)).set_bulk_flush_max_actions(7).build()


# ------------------------------------------------------------------------------------------------ documents without ids


@pytest.mark.behaviour(112)
def test_documents_without_ids_pass_the_contract_of_exactly_once_sinks(scripted: ScriptedCluster) -> None:
    names = count()

    def make() -> SinkUnderTest:
        index = f"i{next(names)}"
        return SinkUnderTest(sink_into(scripted.url, index), lambda: values(scripted.documents(index)), lambda: None)

    SinkContract(make, RECORDS).check_all()


@cells("killed_at", [0, 1, 2, 3])
def test_a_commit_that_is_repeated_behind_a_rollover_has_no_document_twice(killed_at: int) -> None:
    with ScriptedCluster() as scripted:
        scripted.aliases["log"] = ["log-1"]
        run = SinkRun(sink_into(scripted.url, "log"))
        checkpoint = run.epoch(RECORDS[:21])
        scripted.script = [*[None] * killed_at, Fault(status=400)]
        if killed_at < 3:
            with pytest.raises(ElasticsearchConnectorError, match="status 400"):
                run.commit(checkpoint)
        else:
            run.commit(checkpoint)
        scripted.script.clear()
        scripted.aliases["log"].append("log-2")
        run.commit(checkpoint, may_be_committed=True)
        found = [scripted.documents(name) for name in ("log-1", "log-2")]
        assert len(found[0]) == 7 * killed_at
        assert values({**found[0], **found[1]}) == sorted(RECORDS[:21], key=repr)
        assert len(found[0]) + len(found[1]) == 21


def test_a_user_who_may_not_look_is_told_that_documents_may_be_there_twice(
    scripted: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    scripted.may_search = False
    run = SinkRun(sink_into(scripted.url, "i"))
    checkpoint = run.epoch(RECORDS[:5])
    run.commit(checkpoint)
    run.commit(checkpoint, may_be_committed=True)
    assert "does not let this user look" in caplog.text
    assert len(scripted.documents("i")) == 5


@pytest.mark.behaviour(115)
def test_a_commit_that_ends_anywhere_is_repeated_without_a_second_document(scripted: ScriptedCluster) -> None:
    """Requests of seven documents each: those that were done are done again, and change nothing."""
    for killed_at in range(9):
        index = f"i{killed_at}"
        scripted.may_search = killed_at % 2 == 0
        run = SinkRun(sink_into(scripted.url, index), 2)
        checkpoint = run.epoch(RECORDS[:30], RECORDS[30:])
        scripted.script = [*[None] * killed_at, Fault(status=400)]
        with pytest.raises(ElasticsearchConnectorError, match="status 400"):
            run.commit(checkpoint)
        scripted.script.clear()
        for _ in range(2):
            run.commit(checkpoint, may_be_committed=True)
            assert values(scripted.documents(index)) == sorted(RECORDS, key=repr)


def test_what_the_engine_has_deleted_after_a_commit_is_not_missed_and_what_is_lost_before_is(
    scripted: ScriptedCluster,
) -> None:
    staged: dict[str, bytes] = {}
    run = SinkRun(sink_into(scripted.url, "i"), staged=staged)
    checkpoint = run.epoch(RECORDS)
    run.commit(checkpoint)
    staged.clear()
    [request] = run.commit(checkpoint, may_be_committed=True)
    assert request.already_committed
    with pytest.raises(LostCommittableError, match="is gone"):
        run.commit(checkpoint)


def test_ids_differ_between_sinks_subtasks_attempts_and_checkpoints(scripted: ScriptedCluster) -> None:
    """The parts of an id by themselves: what another sink of the job, another subtask and another run writes."""
    sink = sink_into(scripted.url, "i")
    for uid, subtask, token, checkpoint, run in (
        ("sink", 0, "token", 1, "1"),
        ("other", 0, "token", 1, "1"),
        ("sink", 1, "token", 1, "1"),
        ("sink", 0, "again", 1, "1"),
        ("sink", 0, "token", 2, "1"),
        ("sink", 0, "token", 1, "2"),
    ):
        staged: dict[str, bytes] = {}
        where = TestWriterContext(
            subtask, checkpoint_id=checkpoint, attempt_token=token, operator_uid=uid, run_id=run, staged=staged
        )
        writer = sink.create_writer(where)
        writer.write_all([{"n": 1}, {"n": 2}])
        writer.flush(False)
        [part] = writer.prepare_commit()
        for _ in range(2):
            committer = sink.create_committer(TestCommitterContext(operator_uid=uid, run_id=run, staged=staged))
            committer.commit([TestCommitRequest(part, checkpoint, subtask_id=subtask)])
            committer.close()
        writer.close()
    assert len(scripted.documents("i")) == 12


def test_refused_documents_fail_the_commit_or_go_to_the_handler(scripted: ScriptedCluster) -> None:
    emitter = ElasticsearchEmitter.static_index("strict")
    seen: list[ElasticsearchFailure] = []
    run = SinkRun(builder(scripted.url, emitter).build())
    with pytest.raises(ElasticsearchDocumentError, match="failed to parse"):
        run.commit(run.epoch([{"n": 1}, {"n": "two"}, {"n": 3}]))
    assert values(scripted.documents("strict")) == [{"n": 1}, {"n": 3}]
    run = SinkRun(builder(scripted.url, emitter).set_failure_handler(seen.append).build())
    run.commit(run.epoch([{"n": 4}, {"n": "five"}], end_of_input=True))
    assert [failure.source for failure in seen] == ['{"n":"five"}']
    assert {"n": 4} in values(scripted.documents("strict"))


# --------------------------------------------------------------------------------------------------- documents with ids


def test_documents_with_ids_are_there_with_the_checkpoint_and_set_fields(scripted: ScriptedCluster) -> None:
    run = SinkRun(sink_into(scripted.url, "i", "id"))
    checkpoint = run.epoch([{"id": 1, "n": 1}, {"id": 1, "more": 2}, {"id": 2, "n": 3}])
    assert scripted.documents("i") == {"1": {"id": 1, "n": 1, "more": 2}, "2": {"id": 2, "n": 3}}
    assert checkpoint.committables == ()
    run.close()


def test_a_function_says_what_becomes_of_a_record(scripted: ScriptedCluster) -> None:
    def actions(word: str) -> ElasticsearchAction | list[ElasticsearchAction]:
        if word == "nothing":
            return []
        if word == "two":
            return [ElasticsearchAction("a", {"w": word}, id="x", routing="r"), ElasticsearchAction("b", {"w": word})]
        return ElasticsearchAction("a", id="x", operation="delete")

    run = SinkRun(builder(scripted.url, ElasticsearchEmitter.from_function(actions)).build())
    checkpoint = run.epoch(["nothing", "two"])
    assert (scripted.documents("a"), scripted.documents("b")) == ({"x": {"w": "two"}}, {})
    run.commit(checkpoint)
    assert values(scripted.documents("b")) == [{"w": "two"}]
    run.epoch(["gone"], end_of_input=True)
    assert scripted.documents("a") == {}
    assert scripted.requests[0][0][1]["routing"] == "r"


@dataclass
class Item:
    kind: str
    n: int


def test_records_may_be_dicts_rows_and_dataclasses_and_name_their_index(scripted: ScriptedCluster) -> None:
    run = SinkRun(builder(scripted.url, ElasticsearchEmitter.dynamic_index("kind", "n")).build())
    nested = {"kind": "d", "n": 3, "at": Row(x=Row(1, 2)), "price": Decimal("1.50"), "data": b"\x00"}
    run.epoch([{"kind": "a", "n": 1}, Row(kind="b", n=2), Item("c", 3), nested], end_of_input=True)
    assert scripted.documents("a") == {"1": {"kind": "a", "n": 1}}
    assert scripted.documents("b") == {"2": {"kind": "b", "n": 2}}
    assert scripted.documents("c") == {"3": {"kind": "c", "n": 3}}
    assert scripted.documents("d")["3"] == {**nested, "at": {"x": [1, 2]}, "price": 1.5, "data": "AA=="}


def test_a_record_that_is_no_document_fails_with_the_field(scripted: ScriptedCluster) -> None:
    run = SinkRun(sink_into(scripted.url, "i", "id"))
    for record, text in (
        ({"n": 1}, "no field 'id'"),
        ({"id": None}, "null in it"),
        (Row(n=1), "no field 'id'"),
        (Row(1, 2), "without field names|dict or a Row"),
        ("text", "is a str"),
    ):
        with pytest.raises(ElasticsearchDocumentError, match=text):
            run.epoch([record])
    run.close()
    with pytest.raises(UnsupportedOperationError, match="leave doc_type out"):
        ElasticsearchEmitter.static_index("i", "id", "type")
    with pytest.raises(UnsupportedOperationError, match="leave doc_type out"):
        ElasticsearchEmitter.dynamic_index("i", "id", "type")


def test_exactly_once_refuses_documents_with_ids_of_their_own(scripted: ScriptedCluster) -> None:
    emitter = ElasticsearchEmitter.from_function(lambda n: ElasticsearchAction("i", {"n": n}, id=str(n) if n else None))
    sink = builder(scripted.url, emitter).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    run = SinkRun(sink)
    run.commit(run.epoch([0]))
    with pytest.raises(ElasticsearchDocumentError, match="AT_LEAST_ONCE"):
        run.epoch([1])
    run.close()
    assert values(scripted.documents("i")) == [{"n": 0}]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_documents_are_sent_when_there_are_enough_or_they_have_waited(scripted: ScriptedCluster) -> None:
    clock, context = Clock(), TestWriterContext()
    sink: Any = sink_into(scripted.url, "i", "id")
    sent_by = sink.create_writer(context)._sender
    emitter = ElasticsearchEmitter.static_index("i", "id")
    writer = ElasticsearchWriter(context, emitter, sent_by, most=3, most_bytes=900, interval_s=5, clock=clock)
    counts = []
    for at, number in ((0, 2), (1, 1), (2, 1), (6, 1), (7, 1), (8, 1)):
        clock.now = at
        writer.write_all(list(numbered(number, 10 * at)))
        counts.append(len(scripted.documents("i")))
    assert counts == [0, 3, 3, 3, 6, 6]
    writer.flush(False)
    assert len(scripted.documents("i")) == 7
    writer.write_all(list(numbered(2, 100)))
    assert len(scripted.documents("i")) == 7
    writer.write_all([{"id": "large", "text": "x" * 1000}])
    assert len(scripted.documents("i")) == 10, "a request is full of bytes, too"
    writer.write_all(list(numbered(2, 200)))
    context.attempt_token = "of an epoch that is run again"
    writer.flush(False)
    assert len(scripted.documents("i")) == 10, "what an epoch that did not count has left is not sent"
    writer.close()
    writer.close()


# ----------------------------------------------------------------------------------------------------------------- jobs


@pytest.mark.behaviour(115)
@pytest.mark.parametrize("key", [None, "id"])
def test_a_job_loses_and_repeats_no_document_whatever_happens(
    tmp_path: Path, scripted: ScriptedCluster, key: str | None
) -> None:
    """Tasks and drivers are lost, and the cluster refuses and cuts off what it likes."""
    troubles = [Fault(status=429), None, Fault(refused=(0, 2)), None, Fault(kept=0), None, None, Fault(kept=0.5)]
    scripted.script = troubles * 8
    program = Program(tmp_path, 2, checkpoints=str(tmp_path / "checkpoints"), inline="0 b", interval="1 s")
    records = list(numbered(200))
    stream = program.source(records[:100], records[100:])
    stream.sink_to(sink_into(scripted.url, "i", key)).uid("search")
    driven = Driven(program.env, tmp_path / "state", Epochs(40, chaos=Chaos(0.2, 0.1, 0.1), seed=5))
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    assert values(scripted.documents("i")) == sorted(records, key=repr)


def test_what_an_index_refuses_since_the_checkpoint_is_given_up_by_its_id_and_nothing_else_is_lost(
    tmp_path: Path, scripted: ScriptedCluster
) -> None:
    records = list(numbered(60))

    def run(**settings: str) -> Driven:
        recover = {"recover": "latest", "restart": "none"}
        program = Program(tmp_path, checkpoints=str(tmp_path / "checkpoints"), interval="1 s", **recover, **settings)
        program.source(records).sink_to(sink_into(scripted.url, "i")).uid("search")
        driven = Driven(program.env, tmp_path / "state", Epochs(20))
        driven.run()
        return driven

    scripted.script = [None] * 3 + [Fault(refused=(0,), refused_with=400)]
    told = str(run().driver.result.exception())
    [id_] = re.findall(r"\b\d+-\d+-[0-9a-f]{12}\b", told)
    assert "Sink: search" in told or "uid 'search'" in told
    assert "first of all" in told
    file = tmp_path / "refused.jsonl"
    again = run(**{"penstock.committables": f"{id_}=give-up:{file}"})
    assert again.driver.status is JobStatus.FINISHED, again.driver.result.exception()
    refused = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["index"] for one in refused] == ["i"] * len(refused)
    found = list(scripted.documents("i").values())
    missing = [record for record in records if record not in found]
    lost = [one["document"] for one in refused]
    assert missing
    assert all(record in lost for record in missing)
    assert len(found) + len(missing) == 60


def test_secrets_are_in_no_plan_and_in_no_file_of_a_job(tmp_path: Path, scripted: ScriptedCluster) -> None:
    secret = "quite-secret-7"
    program = Program(tmp_path, checkpoints=str(tmp_path / "checkpoints"), inline="0 b", retained="10")
    made = builder(scripted.url, ElasticsearchEmitter.static_index("i"))
    made.set_connection_username("user").set_connection_password(secret)
    program.source(list(numbered(20))).sink_to(made.build()).uid("search")
    assert secret not in program.env.get_execution_plan()
    driven = Driven(program.env, tmp_path / "state", Epochs(5))
    driven.run()
    assert len(scripted.documents("i")) == 20
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if path.name == "_metadata"]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


# ------------------------------------------------------------------------------- what no document, id or index can have

NAN = float("nan")


@cells("name", ["", b"a", None, True, NAN, 1.5, ["a"], "\ud800", "x" * 513, "\u00fc" * 257, Row(1)])
def test_what_is_no_id_is_refused_by_its_field(name: Any) -> None:
    with pytest.raises(ElasticsearchDocumentError, match="id"):
        ElasticsearchEmitter.static_index("i", "id").items([{"id": name}])
    if name is not None:
        with pytest.raises(ElasticsearchDocumentError, match="id"):
            ElasticsearchEmitter.from_function(lambda _: ElasticsearchAction("i", {}, id=name)).items([1])


@cells("name", ["", "a b", "a/b", "a*", "-a", "_a", "+a", ".", "..", "a\0", "x" * 256, "a,b", "a#b", "\ud800", 7, b"a"])
def test_what_no_index_can_be_named_is_refused_before_it_is_staged(name: Any) -> None:
    with pytest.raises(ElasticsearchDocumentError, match="no name of an index"):
        ElasticsearchEmitter.dynamic_index("index").items([{"index": name}])
    with pytest.raises(ElasticsearchDocumentError, match="no name of an index"):
        ElasticsearchEmitter.from_function(lambda _: ElasticsearchAction(name, {})).items([1])


def test_upper_case_is_for_aliases_that_exist(scripted: ScriptedCluster) -> None:
    scripted.aliases["Orders"] = ["orders-1"]
    run = SinkRun(sink_into(scripted.url, "Orders"))
    run.commit(run.epoch(RECORDS[:2]))
    run.close()
    assert len(scripted.documents("orders-1")) == 2
    run = SinkRun(sink_into(scripted.url, "Returns"))
    with pytest.raises(ElasticsearchDocumentError, match="there is no index or alias 'Returns'"):
        run.epoch(RECORDS[:2])
    run.close()
