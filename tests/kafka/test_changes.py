"""A topic changes while a job reads it, or between two runs: reading goes on right, or an error names the change."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from tests.fault.job import are_truth
from tests.kafka.job import Running, counting
from tests.kafka.test_faults import NUMBERS, SOON, route
from tests.kit.cells import cells

from penstock._connectors.kafka.enumerator import KafkaEnumerator
from penstock.common import SimpleStringSchema
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.errors import JobExecutionError, KafkaTopicError
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.conftest import Topics

pytestmark = pytest.mark.kafka


def test_a_topic_that_was_made_anew_between_two_runs_is_not_read_at_the_old_positions(topics: Topics) -> None:
    topic = topics.new()
    topics.fill(topic, ["0", "1", "2", "3"])
    made = KafkaSource.builder().set_bootstrap_servers(topics.bootstrap).set_topics(topic)
    made = made.set_value_only_deserializer(SimpleStringSchema())
    run = SourceRun(made.set_bounded(KafkaOffsetsInitializer.latest()).build())
    checkpoint = run.epoch(polls=1)
    run.close()
    topics.make_anew(topic)
    topics.fill(topic, ["a", "b", "c", "d", "e", "f"])
    with pytest.raises(KafkaTopicError, match=f"{topic} failed: the topic was deleted and made anew"):
        SourceRun(made.build(), checkpoint=checkpoint)


def test_a_topic_that_is_made_anew_while_it_is_read_ends_the_job_before_a_record_of_it_is_committed(
    topics: Topics, tmp_path: Path
) -> None:
    made = route(topics, **SOON)

    def make_anew() -> None:
        topics.make_anew(made.numbers, 3)
        topics.fill(made.numbers, [str(NUMBERS + number) for number in range(2 * NUMBERS)])

    job = counting(made, tmp_path, made.source(), restart="none")
    job.at_epoch(3, make_anew)
    with pytest.raises(JobExecutionError, match=r"made anew|KafkaOffsetError|was deleted"):
        job.to_end()
    found = [int(line.split(",")[1]) for line in topics.values(made.counts, 2)]
    assert all(number < NUMBERS for number in found)
    with pytest.raises(JobExecutionError, match="made anew"):
        counting(made, tmp_path, made.source(), restart="none").to_end()


def test_a_reader_that_comes_to_the_end_of_another_topic_says_so(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a batch job, which has no checkpoint in between."""
    monkeypatch.setattr(KafkaEnumerator, "_check_topics", lambda *_: None)
    topic = topics.new()
    topics.fill(topic, [str(number) for number in range(9000)])
    made = KafkaSource.builder().set_bootstrap_servers(topics.bootstrap).set_topics(topic)
    made = made.set_value_only_deserializer(SimpleStringSchema()).set_bounded(KafkaOffsetsInitializer.latest())
    run = SourceRun(made.build())
    run.epoch(polls=1)
    topics.make_anew(topic)
    topics.fill(topic, [str(number) for number in range(9000)])
    with pytest.raises(KafkaTopicError, match="made anew"):
        run.run_to_end()
    run.close()


def test_a_pattern_does_not_match_the_brokers_own_topics(topics: Topics) -> None:
    topic = topics.new()
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": "makes the brokers' topic"})
    producer.init_transactions()
    made = KafkaSource.builder().set_bootstrap_servers(topics.bootstrap).set_topic_pattern(".*")
    made = made.set_value_only_deserializer(SimpleStringSchema()).set_bounded(KafkaOffsetsInitializer.latest())
    run = SourceRun(made.build())
    found = {place.topic for place in run.enumerator._known}
    run.close()
    assert "__transaction_state" in topics.admin.list_topics().topics
    assert topic in found
    assert not [name for name in found if name.startswith("__")]


def ids_in(text: str) -> list[str]:
    """Return the ids of committables in the text of an error."""
    return re.findall(r"\b\d+-\d+-[0-9a-f]{12}(?:-\d+)?\b", text)


def ends_with(job: Running) -> str:
    """Run a job, and return its error; empty where there is none."""
    job.run()
    error = job.driver.result.exception()
    return "" if error is None else str(error)


def test_what_a_topic_refuses_since_the_checkpoint_is_given_up_by_its_id_and_nothing_else_is_lost(
    topics: Topics, tmp_path: Path
) -> None:
    """Between the checkpoint and its commit the topic becomes a compacted one; the records have no keys."""
    made = route(topics)
    job = counting(made, tmp_path, restart="none")
    job.at_commit(3, lambda: topics.configure(made.counts, **{"cleanup.policy": "compact"}))
    with pytest.raises(JobExecutionError, match=f"{made.counts}.*committable") as told:
        job.to_end()
    before = topics.values(made.counts, 2)
    topics.configure(made.counts, **{"cleanup.policy": "delete"})
    ids = ids_in(str(told.value))
    file = tmp_path / "refused.jsonl"
    again = counting(made, tmp_path, **{"penstock.committables": f"{ids[0]}=give-up:{file}"})
    again.to_end()
    refused = [json.loads(line) for line in file.read_text().splitlines()]
    assert {one["topic"] for one in refused} == {made.counts}
    given_up = [one["value"] for one in refused]
    assert given_up
    assert are_truth([*topics.values(made.counts, 2), *given_up], NUMBERS)
    assert not set(before) & set(given_up)
    [lost] = again.driver.result.result().get_given_up_committables()
    assert (lost.operator_uid, lost.count) == ("into Kafka", 1)


@cells("action", ["publish", "skip"])
def test_where_the_broker_knows_nothing_any_more_the_user_decides_and_no_record_is_there_twice(
    topics: Topics, tmp_path: Path, action: str
) -> None:
    made = route(topics)
    job = counting(made, tmp_path, restart="none")
    job.at_commit(3, lambda: topics.configure(made.counts, **{"cleanup.policy": "compact"}))
    with pytest.raises(JobExecutionError):
        job.to_end()
    topics.configure(made.counts, **{"cleanup.policy": "delete"})
    topics.forget_groups(f"penstock-{job.driver.job_id}")
    decided: dict[str, str] = {}
    starts = 0
    while told := ends_with(counting(made, tmp_path, **decided)):
        assert re.search(r"CommitOutcomeUnknownError.*ID=skip.*ID=publish", told)
        decided = {"penstock.committables": ";".join(f"{one}={action}" for one in ids_in(told))}
        starts += 1
    assert 1 <= starts <= 2, "each checkpoint is decided about once"
    found = topics.values(made.counts, 2)
    assert len(set(found)) == len(found)
    assert are_truth(found, NUMBERS) == (action == "publish")


def test_a_job_that_was_cancelled_publishes_nothing_again_when_the_broker_has_forgotten_it(
    topics: Topics, tmp_path: Path
) -> None:
    made = route(topics)
    job = counting(made, tmp_path)
    job.at_epoch(5, job.driver.cancel)
    job.run()
    topics.forget_groups(f"penstock-{job.driver.job_id}")
    counting(made, tmp_path).to_end()
    assert are_truth(topics.values(made.counts, 2), NUMBERS)
