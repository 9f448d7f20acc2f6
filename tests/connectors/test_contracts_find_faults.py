"""The contracts fail connectors that are wrong in the ways that matter."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.connectors.staged import elsewhere, lose_staged

from penstock._api.connectors.reader_base.sequential import SplitCursor
from penstock._connectors.files.committer import FileCommitter
from penstock._connectors.files.staging import FinishedPart
from penstock._connectors.files.writer import FileWriter
from penstock._connectors.number_sequence import (
    NumberSequenceEnumerator,
    NumberSequenceReader,
    NumberSequenceSplit,
    split_range,
)
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.base import Committer, InputStatus, SourceOutput, SplitEnumeratorContext
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.errors import LostCommittableError, SinkFileError
from penstock.testing.connector_contexts import TestBatchContext
from penstock.testing.sink_contract import SinkContract, SinkUnderTest
from penstock.testing.source_contract import SourceContract, SourceRun
from penstock.testing.sources import ABORT, EOF, ListSource, ListSourceAbort, ListSplit, _ListReader

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.datastream.connectors.base import (
        BatchContext,
        CommitRequest,
        CommitterInitContext,
        ReaderOutput,
        SourceReaderContext,
    )

NUMBERS = range(1, 20_001)
DICTS = [{"id": number, "word": f"w{number}"} for number in range(90)]


class BrokenReader(NumberSequenceReader):
    """Breaks one promise."""

    def __init__(self, context: SourceReaderContext, fault: str) -> None:
        super().__init__(context)
        self._fault = fault

    def snapshot_state(self, checkpoint_id: int) -> list[NumberSequenceSplit]:
        splits = super().snapshot_state(checkpoint_id)
        if self._fault == "snapshot goes back by one":
            return [replace(split, next=max(1, split.next - 1)) for split in splits]
        return splits[1:] if self._fault == "snapshot loses the split at hand" else splits

    def poll_next(self, output: ReaderOutput[int]) -> InputStatus:
        status = super().poll_next(output)
        if self._fault == "ends early" and status is InputStatus.NOTHING_AVAILABLE:
            return InputStatus.END_OF_INPUT
        return status

    def close(self) -> None:
        if self._fault == "closes once" and self._no_more_splits is None:
            raise RuntimeError(self._fault)
        super().close()
        self._no_more_splits = None  # type: ignore[assignment]


class BrokenSource(NumberSequenceSource):
    def __init__(self, fault: str) -> None:
        super().__init__(NUMBERS[0], NUMBERS[-1])
        self._fault = fault

    def create_reader(self, reader_context: SourceReaderContext) -> NumberSequenceReader:
        return BrokenReader(reader_context, self._fault)

    def create_enumerator(self, enum_context: SplitEnumeratorContext[NumberSequenceSplit]) -> Any:
        # More splits than readers, so that some wait and readers have to ask.
        enumerator = NumberSequenceEnumerator(enum_context, split_range(NUMBERS[0], NUMBERS[-1], 12))
        if self._fault == "enumerator forgets":
            enumerator.snapshot_state = lambda checkpoint_id: []  # type: ignore[method-assign]
        return enumerator


def test_contract_passes_the_same_source_without_a_fault() -> None:
    SourceContract(lambda: BrokenSource("none"), NUMBERS).check_all()


@pytest.mark.parametrize(
    "fault",
    [
        "snapshot goes back by one",
        "snapshot loses the split at hand",
        "ends early",
        "closes once",
        "enumerator forgets",
    ],
)
def test_contract_finds_a_broken_source(fault: str) -> None:
    with pytest.raises((AssertionError, RuntimeError)):
        SourceContract(lambda: BrokenSource(fault), NUMBERS).check_all()


class BrokenBatches(SourceOutput[Any]):
    """Emits batches of columns with one fault; records are as they should be."""

    def __init__(self, output: SourceOutput[Any], fault: str) -> None:
        self._output, self._fault = output, fault

    def collect(self, record: Any, timestamp: int | None = None) -> None:
        self._output.collect(record, timestamp)

    def collect_batch(self, batch: pa.RecordBatch, timestamps: Any = None) -> None:
        if not self._output.takes_batches:
            self.collect_all(batch.to_pylist())
            return
        if self._fault == "batch lacks its last row":
            batch = batch.slice(0, batch.num_rows - 1)
        elif self._fault == "batch has values of another row":
            batch = batch.set_column(1, "word", batch.column("word")[::-1])
        self._output.collect_batch(batch)
        if self._fault == "batch comes twice":
            self._output.collect_batch(batch)

    def emit_watermark(self, watermark: int) -> None:
        self._output.emit_watermark(watermark)

    def mark_idle(self) -> None:
        self._output.mark_idle()

    def mark_active(self) -> None:
        self._output.mark_active()


class BrokenCursor(SplitCursor[Any, ListSplit]):
    def __init__(self, cursor: SplitCursor[Any, ListSplit], fault: str) -> None:
        self._cursor, self._fault, self._behind = cursor, fault, cursor.snapshot()

    def poll_next(self, output: SourceOutput[Any]) -> InputStatus:
        before, status = self._cursor.snapshot(), self._cursor.poll_next(BrokenBatches(output, self._fault))
        stays = self._fault == "position stays before a batch" and output.takes_batches
        self._behind = before if stays else self._cursor.snapshot()
        return status

    def snapshot(self) -> ListSplit:
        return self._behind


class BrokenBatchReader(_ListReader):
    fault = ""

    def open_split(self, split: ListSplit) -> SplitCursor[Any, ListSplit]:
        return BrokenCursor(super().open_split(split), self.fault)


class BrokenBatchSource(ListSource):
    """Gives dicts, in columns where they are wanted."""

    def __init__(self, fault: str) -> None:
        schema = pa.schema([("id", pa.int64()), ("word", pa.string())])
        super().__init__(DICTS[:40], DICTS[40:], records_per_poll=7, schema=schema)
        self._fault = fault

    def create_reader(self, reader_context: SourceReaderContext) -> _ListReader:
        reader = BrokenBatchReader(reader_context, self._lists, Path(self._happened_in), 7, self._schema)
        reader.fault = self._fault
        return reader


def test_contract_passes_the_same_source_of_batches_without_a_fault() -> None:
    SourceContract(lambda: BrokenBatchSource("none"), DICTS).check_all()


@pytest.mark.parametrize(
    "fault",
    [
        "batch lacks its last row",
        "batch comes twice",
        "batch has values of another row",
        "position stays before a batch",
    ],
)
def test_contract_finds_a_broken_source_of_batches(fault: str) -> None:
    contract = SourceContract(lambda: BrokenBatchSource(fault), DICTS)
    contract.check_each_record_once()  # records alone do not show it
    with pytest.raises(AssertionError, match="with batches"):
        contract.check_all()


def test_contract_finds_missing_records() -> None:
    with pytest.raises(AssertionError, match="1 records missing, such as \\['0'\\]"):
        SourceContract(lambda: BrokenSource("none"), range(20_001)).check_each_record_once()


def test_contract_finds_records_too_many() -> None:
    with pytest.raises(AssertionError, match="1 records too many, such as \\['20000'\\]"):
        SourceContract(lambda: BrokenSource("none"), range(1, 20_000)).check_each_record_once()


class BrokenCommitter(FileCommitter):
    def __init__(self, base_path: str, context: CommitterInitContext, fault: str) -> None:
        super().__init__(base_path, context)
        self._fault = fault
        if fault == "takes what is another job's":
            self._runs |= {"e" * 32}

    def commit(self, requests: Collection[CommitRequest[Any]]) -> None:
        if self._fault == "commits nothing":
            return
        if self._fault == "drops all but the first":
            requests = list(requests)[:1]
        if self._fault == "commits copies":
            for part in (request.get_committable() for request in requests):
                for segment in part.segments if isinstance(part, FinishedPart) else ():
                    copy = f"{part.target}-{id(part)}"
                    with open(segment, "rb") as source, open(copy, "wb") as target:  # noqa: PTH123
                        target.write(source.read())
            return
        super().commit(requests)

    def _is_moved(self, request: Any, part: Any) -> bool:
        if self._fault == "takes what is missing for done":
            return not all(Path(segment).exists() for segment in part.segments)
        return super()._is_moved(request, part)

    def _publish(self, request: Any, part: Any) -> None:
        with suppress(*[SinkFileError, LostCommittableError] if self._fault == "finds nothing to commit" else []):
            super()._publish(request, part)


class BrokenWriter(FileWriter):
    """Goes wrong where it does not go on with the next epoch."""

    fault = ""
    held: tuple[Any, ...] = ()

    def write_all(self, elements: list[Any], timestamps: Sequence[int | None] | None = None) -> None:
        if self.fault == "holds records back until the next epoch":
            elements, self.held = [*self.held, *elements[:-1]], (elements[-1],)
        super().write_all(elements)

    def flush(self, end_of_input: bool) -> None:
        if end_of_input and self.held:
            super().write_all(list(self.held))
        super().flush(end_of_input)

    def close(self) -> None:
        super().close()
        if self.fault == "removes what others staged when it is closed":
            lose_staged(self._options.base_path)


class BrokenBatchWriter(BrokenWriter):
    """Goes wrong where columns come."""

    def write_batch(self, batch: pa.RecordBatch, context: BatchContext) -> None:
        if self.fault == "leaves out the last row of a batch":
            batch = batch.slice(0, batch.num_rows - 1)
        elif self.fault == "reads a batch from the begin of its buffers":
            columns = [pa.Array.from_buffers(one.type, len(one), one.buffers()) for one in batch.columns]
            batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        elif self.fault == "holds batches back until the next epoch":
            batch, self.held = (self.held or (batch.slice(0, 0),))[0], (batch,)
        super().write_batch(batch, TestBatchContext(batch))

    def flush(self, end_of_input: bool) -> None:
        held, self.held = self.held, () if end_of_input else self.held
        for batch in held if end_of_input else ():
            super().write_batch(batch, TestBatchContext(batch))
        super().flush(end_of_input)


class BrokenSink(FileSink):
    fault = ""
    kind = BrokenWriter

    def restore_writer(self, context: Any, recovered_state: Any) -> FileWriter:
        if self.fault == "takes what is another job's":
            context.earlier_runs = ("e" * 32,)
        writer = self.kind(context, self._options, recovered_state)
        writer.fault = self.fault
        return writer

    def create_committer(self, context: CommitterInitContext) -> Committer[Any]:
        return BrokenCommitter(self._options.base_path, context, self.fault)


class ByParity(BucketAssigner):
    def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
        return str(int(element) % 2)


@pytest.mark.parametrize(
    "fault",
    [
        "commits nothing",
        "drops all but the first",
        "commits copies",
        "takes what is missing for done",
        "finds nothing to commit",
        "holds records back until the next epoch",
        "removes what others staged when it is closed",
        "takes what is another job's",
    ],
)
def test_contract_finds_a_broken_sink(tmp_path: Path, fault: str) -> None:
    targets = 0

    def make() -> SinkUnderTest:
        nonlocal targets
        targets += 1
        folder = tmp_path / str(targets)
        built = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        sink = BrokenSink(built.with_bucket_assigner(ByParity()).build()._options)
        sink.fault = fault
        return SinkUnderTest(
            sink,
            lambda: [line for path in folder.rglob("part-*") for line in path.read_text().split()],
            lambda: lose_staged(folder),
            unshared=lambda: elsewhere(folder),
        )

    contract = SinkContract(make, [str(number) for number in range(90)])
    checks = {
        "takes what is another job's": contract.check_copy_takes_nothing_of_the_other_job,
        "finds nothing to commit": contract.check_commit_on_a_host_that_does_not_see_what_is_staged,
    }
    check = checks.get(fault, contract.check_all)
    with pytest.raises((AssertionError, LostCommittableError)):
        check()


def contract_of_batches(folder: Path, fault: str) -> SinkContract:
    """Return the contract of a sink that writes columns to Parquet."""
    targets = count()

    def make() -> SinkUnderTest:
        target = folder / str(next(targets))
        sink = BrokenSink(FileSink.for_bulk_format(str(target), ParquetBulkWriters.for_schema()).build()._options)
        sink.fault, sink.kind = fault, BrokenBatchWriter

        def read() -> list[Any]:
            return [row for path in target.rglob("part-*") for row in pq.read_table(path).to_pylist()]

        return SinkUnderTest(sink, read, lambda: lose_staged(target))

    return SinkContract(make, DICTS)


def test_contract_passes_the_same_sink_of_batches_without_a_fault(tmp_path: Path) -> None:
    contract_of_batches(tmp_path, "none").check_all()


@pytest.mark.parametrize(
    "fault",
    [
        "leaves out the last row of a batch",
        "reads a batch from the begin of its buffers",
        "holds batches back until the next epoch",
    ],
)
def test_contract_finds_a_broken_sink_of_batches(tmp_path: Path, fault: str) -> None:
    contract = contract_of_batches(tmp_path, fault)
    contract.check_records_appear_once()  # records alone do not show it
    with pytest.raises(AssertionError, match="with batches of columns among the records"):
        contract.check_all()


def test_sink_contract_says_what_its_function_is_to_return() -> None:
    with pytest.raises(TypeError, match=r"a function that returns None\. Let it return SinkUnderTest\(sink, read\)"):
        SinkContract(lambda: None, []).check_all()  # pyright: ignore[reportArgumentType]


def test_list_source_aborts_once_and_goes_on_after_the_restore() -> None:
    source = ListSource([0, 1, ABORT, 2])
    run = SourceRun(source)
    checkpoint = run.epoch(polls=1)
    with pytest.raises(ListSourceAbort, match="position 2"):
        run.epoch()
    again = SourceRun(source, 1, checkpoint)
    assert [*run.records[:1], *again.run_to_end()] == [0, 1, 2]


def test_list_source_ends_at_eof_once(tmp_path: Path) -> None:
    folder = str(tmp_path)
    first = SourceRun(ListSource([0, EOF, 1], happened_in=folder))
    assert first.run_to_end() == [0]
    assert SourceRun(ListSource([0, EOF, 1], happened_in=folder)).run_to_end() == [0, 1]
