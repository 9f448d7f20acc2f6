"""Tables and columnar files: our readers and sinks beside the libraries' own loops, on the same data.

    python benchmarks/lake.py [rows] [rounds]

The rows are a whole number, a float and a word. Both sides of a pair run in this process, in turn, and look at each
batch: a reader of ours polls what a task polls, from the enumerator's splits on; a sink of ours writes, flushes and
commits what a checkpoint has. The figure is the ratio of processor time of all threads, and beside it that of the
clock, in the median of the rounds. A job adds to it what each epoch costs (`bench epoch`). The libraries read with all
cores, and a reader of ours with one; so Parquet is also read as the tasks of a job do it, by two processes with a file
each, beside one scan of both files.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from figures import Figures
from pyiceberg.catalog import load_catalog

from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.connectors.iceberg import IcebergSink, IcebergSource
from penstock.datastream.formats.arrow import ArrowFormat
from penstock.datastream.formats.parquet import ParquetFormat
from penstock.testing.connector_contexts import (
    RecordingOutput,
    TestBatchContext,
    TestCommitterContext,
    TestEnumeratorContext,
    TestReaderContext,
    TestWriterContext,
    requests_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_ROWS = 16_384
CHECKPOINTS = 5


class Counting(RecordingOutput):
    """Counts the rows of batches, and makes no records."""

    def __init__(self) -> None:
        super().__init__(takes_batches=True)
        self.rows = 0

    def collect_batch(self, batch: Any, timestamps: Any = None) -> None:
        del timestamps
        self.rows += batch.num_rows


def poll(source: Any) -> int:
    """Read all splits of a source, and return the number of rows."""
    context = TestEnumeratorContext(1)
    context.register(0)
    enumerator = source.create_enumerator(context)
    reader, output = source.create_reader(TestReaderContext()), Counting()
    enumerator.add_reader(0)
    while True:
        reader.add_splits(context.assigned.pop(0, []))
        if 0 in context.no_more_splits:
            reader.notify_no_more_splits()
        while (status := reader.poll_next(output)).value == "more_available":
            pass
        if status.value == "end_of_input":
            break
        enumerator.handle_split_request(0, None)
    reader.close()
    enumerator.close()
    return output.rows


class Readers:
    """Readers in processes of their own, as in the tasks of a job; each reads one file whenever it is asked to."""

    def __init__(self, files: Path) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipes: list[Any] = []
        self._processes: list[Any] = []
        for file in sorted(files.iterdir()):
            mine, theirs = spawn.Pipe()
            process = spawn.Process(target=_read_when_asked, args=(str(file), theirs))
            process.start()
            self._pipes.append(mine)
            self._processes.append(process)

    def read(self) -> int:
        """Have all files read at the same time, and return the number of rows."""
        for pipe in self._pipes:
            pipe.send(True)
        return sum(pipe.recv() for pipe in self._pipes)

    def close(self) -> None:
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(False)
            process.join()


def _read_when_asked(file: str, pipe: Any) -> None:
    source = FileSource.for_bulk_file_format(ParquetFormat(), file).build()
    while pipe.recv():
        pipe.send(poll(source))


def append(sink: Any, batches: list[Any]) -> None:
    """Write batches in some checkpoints, and commit each."""
    writer, committer = sink.create_writer(TestWriterContext()), sink.create_global_committer(TestCommitterContext())
    share = -(-len(batches) // CHECKPOINTS)
    for checkpoint in range(CHECKPOINTS):
        for batch in batches[checkpoint * share : (checkpoint + 1) * share]:
            writer.write_batch(batch, TestBatchContext(batch))
        writer.flush(checkpoint == CHECKPOINTS - 1)
        committer.commit(requests_for(list(writer.prepare_commit()), checkpoint + 1))
    writer.close()
    committer.close()


def shares(batches: list[Any]) -> list[Any]:
    share = -(-len(batches) // CHECKPOINTS)
    return [pa.Table.from_batches(batches[one * share : (one + 1) * share]) for one in range(CHECKPOINTS)]


def scan(dataset: Any) -> int:
    return sum(batch.num_rows for batch in dataset.to_batches())


def cost(act: Callable[[int], Any], turn: int) -> tuple[float, float, Any]:
    """Return processor and clock seconds, and what came out."""
    clock, processor = time.perf_counter(), time.process_time()
    found = act(turn)
    return time.process_time() - processor, time.perf_counter() - clock, found


def ratio(theirs: Callable[[int], Any], ours: Callable[[int], Any], rounds: int) -> tuple[float, float]:
    """Return how fast ours is beside theirs: by the processor, and by the clock."""
    found: list[tuple[float, float]] = []
    for turn in range(rounds + 1):
        costs = {one: cost(one, turn) for one in ((theirs, ours) if turn % 2 else (ours, theirs))}
        if costs[theirs][2] != costs[ours][2]:
            sys.exit(f"{costs[theirs][2]} rows, and ours has {costs[ours][2]}")
        if turn:  # the first round loads libraries and fills caches
            found.append((costs[theirs][0] / costs[ours][0], costs[theirs][1] / costs[ours][1]))
    return median(one[0] for one in found), median(one[1] for one in found)


def table_of(rows: int) -> Any:
    random = np.random.default_rng(7)
    words = np.array([f"word-{number}" for number in range(1000)])
    columns = {"id": np.arange(rows), "price": random.random(rows), "word": words[random.integers(0, 1000, rows)]}
    return pa.table(columns)


def read_pairs(place: Path, table: Any, catalog: dict[str, str]) -> dict[str, tuple[Any, Any, float | None]]:
    files, arrow, delta = place / "files", place / "arrow", str(place / "delta")
    for folder in (files, arrow):
        folder.mkdir()
    half = table.num_rows // 2
    for number in range(2):
        part = table.slice(number * half, half)
        pq.write_table(part, files / f"{number}.parquet", row_group_size=1 << 20)
        with pa.ipc.new_file(arrow / f"{number}.arrow", part.schema) as writer:
            writer.write_table(part, max_chunksize=1 << 16)
        write_deltalake(delta, part, mode="append")
    opened = load_catalog("penstock", **catalog)
    iceberg = opened.create_table("bench.read", table.schema)
    iceberg.append(table)
    parquet = FileSource.for_bulk_file_format(ParquetFormat(), str(files)).build()
    ipc = FileSource.for_bulk_file_format(ArrowFormat(), str(arrow)).build()
    return {
        "Parquet, read in columns, beside pyarrow's scan": (
            lambda _: scan(ds.dataset(files)),
            lambda _: poll(parquet),
            0.7,
        ),
        "Arrow IPC, beside pyarrow's scan": (
            lambda _: scan(ds.dataset(arrow, format="ipc")),
            lambda _: poll(ipc),
            None,
        ),
        "Delta, read, beside to_pyarrow_dataset": (
            lambda _: scan(DeltaTable(delta).to_pyarrow_dataset()),
            lambda _: poll(DeltaSource(delta)),
            None,
        ),
        "Iceberg, read, beside to_arrow_batch_reader": (
            lambda _: sum(batch.num_rows for batch in iceberg.scan().to_arrow_batch_reader()),
            lambda _: poll(IcebergSource("bench.read", catalog)),
            None,
        ),
    }


def write_pairs(place: Path, table: Any, catalog: dict[str, str]) -> dict[str, tuple[Any, Any, float | None]]:
    batches = table.to_batches(max_chunksize=BATCH_ROWS)
    opened = load_catalog("penstock", **catalog)

    def delta_of_theirs(turn: int) -> None:
        for part in shares(batches):
            write_deltalake(str(place / f"theirs-{turn}"), part, mode="append")

    def iceberg_of_theirs(turn: int) -> None:
        made = opened.create_table(f"bench.theirs{turn}", table.schema)
        for part in shares(batches):
            made.append(part)

    def delta_of_ours(turn: int) -> None:
        append(DeltaSink(str(place / f"ours-{turn}"), table.schema), batches)

    def iceberg_of_ours(turn: int) -> None:
        append(IcebergSink(f"bench.ours{turn}", catalog, table.schema), batches)

    return {
        "Delta, append, beside write_deltalake": (delta_of_theirs, delta_of_ours, 0.5),
        "Iceberg, append, beside Table.append": (iceberg_of_theirs, iceberg_of_ours, None),
    }


def main(rows: int = 4_000_000, rounds: int = 5) -> int:
    table = table_of(rows)
    figures = Figures(f"Tables and columnar files, {rows:,} rows, {rounds} rounds, {CHECKPOINTS} checkpoints")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/tables"}
        load_catalog("penstock", **catalog).create_namespace("bench")
        pairs = read_pairs(place, table, catalog) | write_pairs(place, table, catalog)
        readers = Readers(place / "files")
        _, clock = ratio(lambda _: scan(ds.dataset(place / "files")), lambda _: readers.read(), rounds)
        readers.close()
        what = "Parquet, read in columns by two readers, beside one scan"
        figures.add(what, f"{clock:.2f} x by the clock", "≥ 0.7 x", met=clock >= 0.7)
        for what, (theirs, ours, bar) in pairs.items():
            processor, clock = ratio(theirs, ours, rounds)
            told = f"{processor:.2f} x by the processor, {clock:.2f} x by the clock"
            figures.add(what, told, "" if bar is None else f"≥ {bar} x", met=None if bar is None else processor >= bar)
    return figures.show()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
