"""The Kafka source's reader.

librdkafka fetches ahead on threads of its own, so that a poll takes what is there and waits for nothing.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import groupby, repeat
from operator import is_
from typing import TYPE_CHECKING, Any, Final

from penstock._api.connectors.reader import InputStatus, SourceReader
from penstock._connectors.kafka.broker import Broker
from penstock._connectors.kafka.clients import AWAY, UNKNOWN_PLACES, Connection, connector_error, library, make_consumer
from penstock._connectors.kafka.enumerator import KafkaPartitionSplit, ReadOffsets, check_same
from penstock._connectors.kafka.positions import KafkaTopicPartition
from penstock._connectors.kafka.records import KafkaBadRecord, KafkaRecord, ValueOnly
from penstock.common.redaction import hiding, shown_text
from penstock.errors import KafkaOffsetError, KafkaRecordError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._api.connectors.reader import ReaderOutput, SourceOutput, SourceReaderContext
    from penstock._connectors.kafka.records import KafkaRecordDeserializationSchema

_log = hiding(logging.getLogger("penstock.kafka"))

_BLOCK: Final = 4096
#: How late the end of a partition is told, and how soon more is fetched; a program may set them otherwise.
_QUICK: Final = {"fetch.wait.max.ms": "100", "fetch.queue.backoff.ms": "10"}
#: The longest wait of a reader's first poll, in seconds: if epochs end sooner than a reader connects, and each has a
#: new one, none would ever read.
_FIRST_S: Final = 5.0
#: What becomes of records that cannot be read.
FAIL, SKIP, EMIT = "fail", "skip", "emit"


class KafkaReader(SourceReader[Any, KafkaPartitionSplit]):
    """Reads partitions, each through an output of its own, so that each has its watermark.

    Args:
        context: The reader's context.
        properties: Of the consumer.
        schema: Makes the records.
        bad_records: What becomes of records that it cannot read.
        reset: Where to continue if a position is no longer in its log; empty makes it an error.
    """

    emits_new_records = True

    def __init__(
        self,
        context: SourceReaderContext,
        properties: Mapping[str, str],
        schema: KafkaRecordDeserializationSchema,
        *,
        bad_records: str = FAIL,
        reset: str = "",
    ) -> None:
        self._context, self._schema, self._bad_records = context, schema, bad_records
        self._properties = properties
        self._reset = reset
        self._connection = Connection(f"The Kafka source's reader {context.index_of_subtask}")
        self._consumer: Any = None
        #: Seconds that the next poll may wait.
        self._patience_s = 0.0
        self._splits: dict[KafkaTopicPartition, KafkaPartitionSplit] = {}
        self._new: list[KafkaPartitionSplit] = []
        self._ended: list[KafkaTopicPartition] = []
        self._messages: list[Any] = []
        #: Partitions that wait for others, and what has been fetched of them.
        self._paused: set[tuple[str, int]] = set()
        self._held: list[Any] = []
        self._noted: dict[KafkaTopicPartition, int] = {}
        self._no_more_splits = False
        group = context.metric_group
        self._skipped = group.counter("skippedRecords")
        self._resets = group.counter("offsetResets")

    # ------------------------------------------------------------------------------------------------------- the splits

    def add_splits(self, splits: list[KafkaPartitionSplit]) -> None:
        """Take more partitions; they are opened with the next poll."""
        self._new += splits
        self._splits.update((split.place, split) for split in splits)

    def notify_no_more_splits(self) -> None:
        """End when all partitions are read."""
        self._no_more_splits = True

    def _open(self) -> None:
        if self._consumer is None:
            self._patience_s = _FIRST_S
            self._consumer = make_consumer(
                {**_QUICK, **self._properties},
                self._connection,
                **{
                    "enable.auto.commit": "false",
                    "enable.auto.offset.store": "false",
                    "enable.partition.eof": "true",
                    "auto.offset.reset": self._reset or "error",
                },
            )
        new, self._new = self._new, []
        places: list[Any] = []
        for split in new:
            if split.stop is not None and split.offset >= split.stop:
                self._ended.append(split.place)
            else:
                places.append(library().TopicPartition(*split.place, split.offset))
        if places:
            self._consumer.incremental_assign(places)

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        """Pause some partitions and resume others."""
        self._open()
        consumer: Any = self._consumer
        by_id = {split.split_id(): place for place, split in self._splits.items()}
        pause = [by_id[split] for split in splits_to_pause if split in by_id]
        resume = [by_id[split] for split in splits_to_resume if split in by_id]
        if pause:
            consumer.pause([library().TopicPartition(*place) for place in pause])
        if resume:
            consumer.resume([library().TopicPartition(*place) for place in resume])
        self._paused = (self._paused | set(pause)) - set(resume)
        fetched = [*self._held, *self._messages]
        self._held = [message for message in fetched if _place_of(message) in self._paused]
        self._messages = [message for message in fetched if _place_of(message) not in self._paused]

    def snapshot_state(self, checkpoint_id: int) -> list[KafkaPartitionSplit]:
        """Return the partitions, each at its next record; tell the enumerator how far they are read."""
        moved = {place: split.offset for place, split in self._splits.items()}
        changed = tuple((place, offset) for place, offset in moved.items() if self._noted.get(place) != offset)
        self._noted.update(changed)
        if changed:
            self._context.send_source_event_to_coordinator(ReadOffsets(changed))
        return list(self._splits.values())

    def close(self) -> None:
        """Close the consumer."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    # ------------------------------------------------------------------------------------------------------ the records

    def is_available(self, timeout_ms: int = 0) -> bool:
        """Wait for records."""
        if self._messages or self._new or self._ended:
            return True
        if self._consumer is None or not self._splits:
            return False
        self._messages = self._fetch(_BLOCK, timeout_ms / 1000)
        self._connection.check()
        return bool(self._messages)

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        """Emit what has been fetched."""
        if self._new:
            self._open()
        if not self._splits:
            return InputStatus.END_OF_INPUT if self._no_more_splits else InputStatus.NOTHING_AVAILABLE
        wanted = min(_BLOCK, output.wanted)
        messages, self._messages = self._messages or self._fetch(wanted, self._patience_s), []
        self._patience_s = 0.0
        if len(messages) > wanted:
            messages, self._messages = messages[:wanted], messages[wanted:]
        for place, part in self._by_partition(messages).items():
            if place in self._splits:
                self._emit(place, part, output)
        if self._ended:
            self._finish(output)
        if not messages:
            self._connection.check()
        if not self._splits and self._no_more_splits:
            return InputStatus.END_OF_INPUT
        return InputStatus.MORE_AVAILABLE if messages else InputStatus.NOTHING_AVAILABLE

    def _fetch(self, count: int, timeout_s: float) -> list[Any]:
        """Wait for a record, and return it with those that are there; `consume` alone waits until it has all."""
        messages = self._consumer.consume(count, 0)
        if messages or not timeout_s:
            return messages
        first = self._consumer.poll(timeout_s)
        return [] if first is None else [first, *self._consumer.consume(count - 1, 0)]

    def _by_partition(self, messages: list[Any]) -> dict[KafkaTopicPartition, list[Any]]:
        """Return the records by partition; ends of partitions and errors are dealt with."""
        parts: dict[KafkaTopicPartition, list[Any]] = {}
        for message in messages:
            if message.error() is not None:
                self._on_message_without_record(message)
                continue
            place = message.topic(), message.partition()  # a call for each record would cost
            part = parts.get(place)  # type: ignore[arg-type]  # equal to one of the named tuples
            if part is None:
                part = parts[KafkaTopicPartition(*place)] = []
            part.append(message)
        return parts

    def _on_message_without_record(self, message: Any) -> None:
        """Deal with what comes in place of a record.

        Raises:
            KafkaConnectorError: The partition cannot be read on.
        """
        error, place = message.error(), KafkaTopicPartition(message.topic(), message.partition())
        split = self._splits.get(place)
        if split is None:
            return
        name = error.name()
        if name == "_PARTITION_EOF":
            # Behind the last record there may be marks of transactions, which are never handed out.
            if split.stop is not None and message.offset() >= split.stop and not self._is_ahead(place):
                self._splits[place] = replace(split, offset=split.stop)
                self._ended.append(place)
            return
        what = f"Reading {place.topic}-{place.partition} at offset {split.offset}"
        if name in {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}:
            reason = (
                "the log no longer has it, or not yet: records were deleted before they were read, or the topic was "
                "made anew. Start without a checkpoint, or set the property auto.offset.reset to earliest or latest to "
                "continue there"
            )
            raise KafkaOffsetError(what, reason)
        if name in UNKNOWN_PLACES:
            raise connector_error(what, error, self._connection)
        if error.retriable() or name in AWAY:
            self._connection.failed(error)
            return
        raise connector_error(what, error, self._connection)

    def _is_ahead(self, place: KafkaTopicPartition) -> bool:
        """Tell whether records of a partition have been fetched and wait."""
        fetched = [*self._messages, *self._held]
        return any(one.error() is None and _place_of(one) == place for one in fetched)

    def _emit(self, place: KafkaTopicPartition, messages: list[Any], output: ReaderOutput[Any]) -> None:
        split = self._splits[place]
        last = messages[-1].offset()
        if messages[0].offset() > split.offset and self._reset:
            self._note_reset(split, messages[0].offset())
        if split.stop is not None and last + 1 >= split.stop:
            messages = [message for message in messages if message.offset() < split.stop]
            self._ended.append(place)
        if messages:
            stamps = [message.timestamp()[1] for message in messages]
            to = output.create_output_for_split(split.split_id())
            if min(stamps) >= 0:
                self._give(messages, stamps, to)
            else:  # of a format before Kafka 0.10; times of others stay theirs
                for has_time, part in groupby(zip(messages, stamps, strict=True), lambda one: one[1] >= 0):
                    some, times = zip(*part, strict=True)
                    self._give(list(some), list(times) if has_time else None, to)
        self._splits[place] = replace(split, offset=last + 1 if split.stop is None else min(last + 1, split.stop))

    def _note_reset(self, split: KafkaPartitionSplit, offset: int) -> None:
        """Count a gap where gaps are allowed; compacted topics have some, too, and so do transactions."""
        first = self._consumer.get_watermark_offsets(library().TopicPartition(*split.place), cached=True)
        if first is not None and split.offset < first[0] <= offset:
            self._resets.inc()
            text = "%s continues at offset %d, as %d is no longer in its log: what was between is not read"
            _log.warning(text, split.split_id(), offset, split.offset)

    def _give(self, messages: list[Any], stamps: list[int] | None, to: SourceOutput[Any]) -> None:
        """Emit the records of messages, with their times."""
        schema = self._schema
        if isinstance(schema, ValueOnly):
            try:
                records = schema.of_values([message.value() for message in messages])
            except Exception:  # noqa: BLE001 - a function of the user's; the record is found below
                records = [self._one(message) for message in messages]
        else:
            records = [self._one(message) for message in messages]
        if any(map(is_, records, repeat(None))):  # records of a program may have any kind of equality
            kept = [at for at, record in enumerate(records) if record is not None]
            records = [records[at] for at in kept]
            stamps = None if stamps is None else [stamps[at] for at in kept]
        if records:
            to.collect_all(records, stamps)

    def _one(self, message: Any) -> Any:
        record = _record_of(message)
        try:
            return self._schema.deserialize(record)
        except Exception as error:
            text = shown_text(f"{type(error).__name__}: {error}").removesuffix(".")
            if self._bad_records == EMIT:
                return KafkaBadRecord(record, text)
            if self._bad_records == FAIL:
                what = f"Deserializing the record at offset {record.offset} of {record.topic}-{record.partition}"
                reason = f"{text}. To read on without it, set_bad_records('skip'), or 'emit' to have it as it is"
                raise KafkaRecordError(what, reason) from error
        self._skipped.inc()
        _log.warning(
            "The record at offset %d of %s-%d is skipped: %s", record.offset, record.topic, record.partition, text
        )
        return None

    def _finish(self, output: ReaderOutput[Any]) -> None:
        """Give up partitions that are read to their end."""
        ended, self._ended = self._ended, []
        splits = [self._splits.pop(place) for place in dict.fromkeys(ended) if place in self._splits]
        self._check_topics(splits)
        for split in splits:
            output.release_output_for_split(split.split_id())
        done = [split.place for split in splits]
        self._context.send_source_event_to_coordinator(ReadOffsets(tuple((one.place, one.offset) for one in splits)))
        assigned = {(one.topic, one.partition) for one in self._consumer.assignment()}
        left = [library().TopicPartition(*place) for place in done if place in assigned]
        if left:
            self._consumer.incremental_unassign(left)

    def _check_topics(self, splits: list[KafkaPartitionSplit]) -> None:
        """Check that what was read to its end is what was begun: a job in batch mode has no checkpoints that ask.

        Raises:
            KafkaTopicError: A topic was made anew.
        """
        ids = {split.place.topic: split.topic_id for split in splits if split.topic_id}
        if ids:
            broker = Broker(self._properties, self._properties["group.id"], "The Kafka source's reader")
            try:
                found = broker.describe(ids)
            finally:
                broker.close()
            check_same(name for name, topic in found.items() if topic.topic_id != ids[name])


def _place_of(message: Any) -> tuple[str, int]:
    return message.topic(), message.partition()


def _record_of(message: Any) -> KafkaRecord:
    stamp = message.timestamp()[1]
    headers = tuple((name, value) for name, value in message.headers() or ())
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        None if stamp < 0 else stamp,
        message.key(),
        message.value(),
        headers,
    )
