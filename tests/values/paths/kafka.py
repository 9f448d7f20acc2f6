"""Kafka: rows as JSON messages, through a broker in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.services import kafka as service
from tests.values.table import LostError, NotAskedError, Outcome, Path, read_back

from penstock.common.serialization import SerializationSchema
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.values.values import Value


class _Number(SerializationSchema):
    """The number of a value as the key of its records."""

    def __init__(self, number: int) -> None:
        self._number = number

    def serialize(self, element: Any) -> bytes:
        return str(self._number).encode()


class _Whole(KafkaRecordDeserializationSchema):
    def deserialize(self, record: KafkaRecord) -> Any:
        return int(record.key or b""), record.value


def _sink(bootstrap: str, topic: str, number: int, value: Value) -> Any:
    if value.row_type is None:
        raise NotAskedError
    schema = JsonRowSerializationSchema.builder().with_type_info(value.row_type).build()
    records = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_serialization_schema(_Number(number))
    made = KafkaSink.builder().set_bootstrap_servers(bootstrap).set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    return made.set_record_serializer(records.set_value_serialization_schema(schema).build()).build()


def _run(values: Sequence[Value]) -> Iterable[Outcome]:
    from tests.kafka.conftest import Topics

    outcomes: dict[int, Outcome] = {}
    context = TestWriterContext()
    blocks: list[Any] = []
    with service.shared_server() as server:
        topic = Topics(server.bootstrap).new()
        sink: Any = None
        for number, value in enumerate(values):
            try:
                sink = _sink(server.bootstrap, topic, number, value)
                writer = sink.create_writer(context)
                writer.write_all([dict(one) for one in value.records])
                writer.flush(False)
                blocks += writer.prepare_commit()
                writer.close()
                outcomes[number] = []
            except Exception as error:  # noqa: BLE001 - it is judged
                outcomes[number] = error
        committer = sink.create_committer(TestCommitterContext(staged=context.staged))
        committer.commit(requests_for(blocks))
        committer.close()
        source = KafkaSource.builder().set_bootstrap_servers(server.bootstrap).set_topics(topic)
        read = source.set_bounded(KafkaOffsetsInitializer.latest()).set_deserializer(_Whole()).build()
        wanted = sum(len(values[number].records) for number, found in outcomes.items() if isinstance(found, list))
        while len(messages := SourceRun(read).run_to_end()) < wanted:
            pass  # the end of a transaction reaches its topics a moment later
        for number, message in messages:
            _add(outcomes, number, values[number], message)
    return [outcomes[number] for number in range(len(values))]


def _add(outcomes: dict[int, Outcome], number: int, value: Value, message: bytes) -> None:
    """Read a message, behind those of the same value that were read before."""
    found = outcomes[number]
    assert value.row_type is not None
    if isinstance(found, list):
        schema = JsonRowDeserializationSchema.builder().type_info(value.row_type).build()
        try:
            found += read_back(lambda: [schema.deserialize(message)])
        except LostError as error:
            outcomes[number] = error


PATHS = (Path("Kafka", "Rows as JSON in a topic, written exactly once.", _run, in_every_run=False),)
