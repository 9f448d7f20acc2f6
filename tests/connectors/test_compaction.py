"""Small files are merged before anything of them is visible, whatever fails on the way."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.driving import CrashError, Driven, Epochs
from tests.kit.program import Program

from penstock._connectors.files.compacting import CompactCoordinator, Compactor, CompactRequest
from penstock._connectors.files.compaction import Compaction
from penstock._connectors.files.staging import FinishedPart, list_segments
from penstock._engine.coordinator import instructions as do
from penstock.common import Encoder
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.base import CommittableWithLineage
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.errors import LostCommittableError
from penstock.testing.connector_contexts import TestWriterContext
from penstock.testing.in_process import Chaos

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = list(range(40))
LINES = sorted(map(str, NUMBERS))
EVERY_3 = FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).build()


class ByParity(BucketAssigner):
    def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
        return f"odd={int(element) % 2}"


def lines_in(folder: Path) -> list[str]:
    return sorted(line for path in visible(folder) for line in path.read_text().splitlines())


def visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def job(
    place: Path, compaction: str = "on", *, runner: Epochs | None = None, parallelism: int = 2, **settings: str
) -> Driven:
    """Return a job whose sink stages two small files in each bucket and epoch."""
    program = Program(
        place, parallelism, checkpoints=str(place / "checkpoints"), inline="0 b", interval="1 s", **settings
    )
    (place / "events").mkdir(parents=True, exist_ok=True)
    numbers = program.source(NUMBERS[:20], NUMBERS[20:], events=place / "events").uid("numbers")
    encoder = Encoder.simple_string_encoder()
    builder = FileSink.for_row_format(str(place / "out"), encoder).with_bucket_assigner(ByParity())
    builder = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    if compaction == "on":
        builder.enable_compact(EVERY_3, FileCompactor.concat_file_compactor())
    elif compaction == "off":
        builder.disable_compact()
    numbers.sink_to(builder.build()).uid("out")
    return Driven(program.env, place / "state", runner or Epochs(4))


@pytest.mark.behaviour(118, 123)
def test_a_job_publishes_merged_files_alone(tmp_path: Path) -> None:
    driven = job(tmp_path)
    seen: list[list[str]] = []
    driven.watchers.append(lambda _: seen.append([path.name for path in visible(tmp_path / "out")]))
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    assert lines_in(tmp_path / "out") == LINES
    names = {name for names in seen for name in names} | {path.name for path in visible(tmp_path / "out")}
    assert all(name.startswith("compacted-part-") for name in names)
    assert len(names) == 4  # two buckets, after three checkpoints and at the end
    assert not list(list_segments(str(tmp_path / "out")))
    places = {uid for vertex in driven.graph.vertices for uid in [operator.uid for operator in vertex.operators]}
    assert {"out", "out: Compact coordinator", "out: Compactor", "out: Committables"} <= places


@pytest.mark.behaviour(112, 119)
def test_tasks_that_run_twice_and_epochs_that_are_lost_merge_each_record_once(tmp_path: Path) -> None:
    for seed in range(2):
        place = tmp_path / str(seed)
        chaos = Chaos(retries=0.3, mixtures=0.1, losses=0.1)
        driven = job(place, runner=Epochs(4, chaos=chaos, seed=seed))
        driven.run()
        assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
        assert lines_in(place / "out") == LINES, seed
        left = {segment.sink for segment in list_segments(str(place / "out"))}
        assert not left, "a sweep at the end takes what void attempts have staged, compactors included"


@pytest.mark.behaviour(111, 115)
def test_a_driver_that_dies_before_any_step_loses_and_repeats_nothing(tmp_path: Path) -> None:
    whole = job(tmp_path / "whole")
    whole.run()
    steps = [number for number, step in enumerate(whole.steps) if not isinstance(step, do.LogMessage)]
    for number in random.Random(7).sample(steps, 8):
        place = tmp_path / str(number)
        killed = job(place, retention="RETAIN_ON_CANCELLATION")

        def kill(_: Any, killed: Driven = killed, number: int = number) -> None:
            if len(killed.steps) > number:
                raise CrashError

        killed.watchers.append(kill)
        with suppress(CrashError):
            killed.run()
        again = job(place, recover="latest", parallelism=3)
        again.run()
        assert again.driver.status is JobStatus.FINISHED, (number, again.driver.result.exception())
        assert lines_in(place / "out") == LINES, number


@pytest.mark.behaviour(123)
def test_compaction_may_be_switched_on_and_off_between_runs(tmp_path: Path) -> None:
    for first, second in (("on", "off"), ("never", "on"), ("off", "on")):
        place = tmp_path / f"{first} {second}"
        stopped = job(place, first, retention="RETAIN_ON_CANCELLATION")
        stopped.at_epoch(3, stopped.driver.cancel)
        stopped.run()
        assert list(list_segments(str(place / "out"))) or first != "on"
        again = job(place, second, recover="latest")
        again.run()
        assert again.driver.status is JobStatus.FINISHED, again.driver.result.exception()
        assert lines_in(place / "out") == LINES, (first, second)


def test_a_copy_merges_copies_and_leaves_the_files_of_the_other_job(tmp_path: Path) -> None:
    stopped = job(tmp_path, retention="RETAIN_ON_CANCELLATION")
    stopped.at_epoch(3, stopped.driver.cancel)
    stopped.run()
    staged = {segment.path for segment in list_segments(str(tmp_path / "out"))}
    assert staged
    copy = job(tmp_path, recover=str(stopped.driver.checkpoint))
    copy.run()
    assert copy.driver.status is JobStatus.FINISHED, copy.driver.result.exception()
    assert lines_in(tmp_path / "out") == LINES
    assert staged <= {segment.path for segment in list_segments(str(tmp_path / "out"))}


def coordinated(strategy: FileCompactStrategy, *epochs: list[int], **context: Any) -> list[list[tuple[int, ...]]]:
    """Return for each epoch the sizes of the parts of each request; an epoch is the sizes of new parts."""
    coordinator, state = CompactCoordinator(Compaction(strategy, FileCompactor.concat_file_compactor())), list[Any]()
    requests: list[list[tuple[int, ...]]] = []
    for number, sizes in enumerate(epochs, 1):
        parts = [FinishedPart("/out/b/part-1", (), size) for size in sizes]
        records = [CommittableWithLineage(part, number, 0) for part in parts]
        out = coordinator.process_checkpoint(records, state, TestWriterContext(checkpoint_id=number, **context), False)
        requests.append([tuple(part.size for part in one.parts) for one in out if isinstance(one, CompactRequest)])
    return requests


@pytest.mark.behaviour(123)
def test_strategies() -> None:
    by_size = FileCompactStrategy.builder().set_size_threshold(10).build()
    assert coordinated(by_size, [4], [], [5], [1], [20]) == [[], [], [], [(4, 5, 1)], [(20,)]]
    assert coordinated(EVERY_3, [4], [], [5], [1]) == [[], [], [(4, 5)], []]
    assert coordinated(EVERY_3, [4], [5], for_savepoint=True) == [[(4,)], [(5,)]]
    either = replace(EVERY_3, size_threshold=8)
    assert coordinated(either, [4], [5], [1], []) == [[], [(4, 5)], [], []]
    for builder in (FileCompactStrategy.builder(), FileCompactStrategy.builder().set_num_compact_threads(2)):
        with pytest.raises(ValueError, match="needs set_size_threshold"):
            builder.build()
    with pytest.raises(ValueError, match="at least 1, not 0"):
        FileCompactStrategy.builder().set_size_threshold(0)


def staged_part(folder: Path, name: str, *pieces: bytes) -> FinishedPart:
    paths = [folder / f".{name}-{number}" for number in range(len(pieces))]
    for path, piece in zip(paths, pieces, strict=True):
        path.write_bytes(piece)
    return FinishedPart(f"{folder}/{name}", tuple(map(str, paths)), sum(map(len, pieces)))


def test_parts_of_several_segments_and_delimiters_between_files(tmp_path: Path) -> None:
    parts = (staged_part(tmp_path, "a", b"1", b"2"), staged_part(tmp_path, "b", b"3"))
    threads = FileCompactStrategy.builder().set_size_threshold(1).set_num_compact_threads(2).build()
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    compactor = Compactor(Compaction(threads, FileCompactor.concat_file_compactor(b"|")), builder._options.file_config)
    out = list(compactor.process_checkpoint([CompactRequest(parts)] * 2, [], TestWriterContext(), False))
    merged = [one.committable for one in out if isinstance(one.committable, FinishedPart)]
    assert [(tmp_path / part.segments[0]).read_bytes() for part in merged] == [b"12|3"] * 2
    assert len({part.target for part in merged}) == 2
    (tmp_path / ".a-1").unlink()
    with pytest.raises(LostCommittableError, match="something else deletes hidden files"):
        compactor.process_checkpoint([CompactRequest(parts)], [], TestWriterContext(), False)


def test_identical_takes_a_single_file(tmp_path: Path) -> None:
    source = staged_part(tmp_path, "a", b"x")
    with open(source.segments[0], "rb") as one, open(tmp_path / "out", "wb") as out:  # noqa: PTH123
        FileCompactor.identical_file_compactor().compact([one], out)
        with pytest.raises(ValueError, match="2 of them"):
            FileCompactor.identical_file_compactor().compact([one, one], out)
    assert (tmp_path / "out").read_bytes() == b"x"


def test_parquet_files_are_merged_by_their_rows(tmp_path: Path) -> None:
    program = Program(tmp_path, 2, interval="1 s")
    schema = pa.schema([("id", pa.int64())])
    rows = [{"id": number} for number in NUMBERS]
    builder = FileSink.for_bulk_format(str(tmp_path / "out"), ParquetBulkWriters.for_schema(schema))
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    builder.enable_compact(EVERY_3, FileCompactor.parquet_file_compactor())
    program.source(rows[:20], rows[20:]).sink_to(builder.build())
    driven = Driven(program.env, tmp_path / "state", Epochs(4))
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    files = visible(tmp_path / "out")
    assert len(files) == 2
    assert all(pq.ParquetFile(path).num_row_groups == 1 for path in files)
    assert sorted(row["id"] for path in files for row in pq.read_table(path).to_pylist()) == NUMBERS
