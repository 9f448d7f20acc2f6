"""The job of these tests: numbers of one topic are counted by key, and each count is written into another one once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fault.counting_job import KEYS, Count
from tests.fault.job import PER_EPOCH, settings
from tests.kit.driving import Driven, Epochs

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.mailbox import SystemClock
from penstock._engine.protocol.control import StopMode
from penstock.common import SimpleStringSchema, Types, WatermarkStrategy
from penstock.common.serialization import SerializationSchema
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceBuilder,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

#: Of the topic that is read.
PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class Route:
    """Where numbers come from, and where their counts go."""

    bootstrap: str
    numbers: str
    counts: str
    #: Of all clients.
    properties: Mapping[str, str] = field(default_factory=dict[str, str])

    def source(self) -> KafkaSourceBuilder:
        """Begin a source that does not end."""
        made = KafkaSource.builder().set_bootstrap_servers(self.bootstrap).set_topics(self.numbers)
        made = made.set_group_id(f"of-{self.counts}").set_properties(self.properties)
        return made.set_value_only_deserializer(SimpleStringSchema())

    def bounded(self) -> KafkaSourceBuilder:
        """Begin a source that reads what is there when the job starts."""
        return self.source().set_bounded(KafkaOffsetsInitializer.latest())

    def sink(self) -> KafkaSink:
        """Return the sink."""
        return sink_into(self.bootstrap, self.counts, self.properties)

    def build(self, env: StreamExecutionEnvironment, source: KafkaSourceBuilder | None = None) -> None:
        """Put the job into an environment."""
        made = (source or self.bounded()).build()
        numbers = env.from_source(made, WatermarkStrategy.for_monotonous_timestamps(), "numbers").uid("numbers")
        counts = numbers.map(int, Types.LONG()).key_by(lambda number: number % KEYS).process(Count(), Types.STRING())
        counts.uid("counts").sink_to(self.sink()).uid("into Kafka")


def sink_into(
    bootstrap: str,
    topic: str,
    properties: Mapping[str, str] | None = None,
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
) -> KafkaSink:
    """Return a sink of texts."""
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    made = KafkaSink.builder().set_bootstrap_servers(bootstrap).set_delivery_guarantee(guarantee)
    for key, value in (properties or {}).items():
        made = made.set_property(key, value)
    return made.set_record_serializer(schema.set_value_serialization_schema(SimpleStringSchema()).build()).build()


@dataclass(frozen=True)
class Part(SerializationSchema):
    """Returns one part of a record, a dict."""

    name: str

    def serialize(self, element: Any) -> Any:
        return element.get(self.name)


def bytes_into(bootstrap: str, topic: str, guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE) -> KafkaSink:
    """Return a sink of dicts with ``key``, ``value`` and ``headers``."""
    schema = (
        KafkaRecordSerializationSchema.builder().set_topic(topic).set_header_provider(lambda one: one.get("headers"))
    )
    schema = schema.set_key_serialization_schema(Part("key")).set_value_serialization_schema(Part("value"))
    made = KafkaSink.builder().set_bootstrap_servers(bootstrap).set_delivery_guarantee(guarantee)
    return made.set_record_serializer(schema.build()).build()


def environment(directory: Path, parallelism: int = 2, **others: str) -> StreamExecutionEnvironment:
    """Return an environment whose checkpoints are below a directory."""
    restarts = {"restart": "fixed-delay", "attempts": "10", "delay": "200 ms"}
    env = StreamExecutionEnvironment.get_execution_environment(settings(directory, **{**restarts, **others}))
    return env.set_parallelism(parallelism)


class Running(Driven):
    """A job in this process, with real threads and the machine's clock.

    Args:
        env: The environment that the job was built in.
        directory: Where its subtasks have their local state.
        records: What a reader reads in one epoch.
    """

    def __init__(self, env: StreamExecutionEnvironment, directory: Path, records: int = PER_EPOCH) -> None:
        super().__init__(env, directory / "state", Epochs(records, clock=None), SystemClock())

    def at_commit(self, number: int, act: Callable[[], object]) -> None:
        """Do something before a commit, counted from one."""

        def look(step: Any) -> None:
            if isinstance(step, do.Commit) and len(self.of(do.Commit)) == number:
                act()

        self.watchers.append(look)

    def drain_behind(self, vertex: int, records: int, savepoints: Path) -> None:
        """Drain the job once a vertex has taken so many records."""

        def look(step: Any) -> None:
            if isinstance(step, do.RunEpoch) and sum(self.runner.records(vertex)) >= records:
                self.watchers.remove(look)
                self.driver.savepoint(str(savepoints), StopMode.DRAIN)

        self.watchers.append(look)

    def to_end(self) -> None:
        """Run the job to its end, and raise what ends it."""
        self.run()
        self.driver.result.result()


def counting(
    route: Route,
    directory: Path,
    source: KafkaSourceBuilder | None = None,
    records: int = PER_EPOCH,
    **others: str,
) -> Running:
    """Return the job, which goes on from its last checkpoint."""
    env = environment(directory, **others)
    route.build(env, source)
    return Running(env, directory, records)
