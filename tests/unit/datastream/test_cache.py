"""Cached streams: what later jobs run, and when a stream is computed anew."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.kit.without_spark import Cluster

from penstock._builders import caches
from penstock._engine.caches import place as kept_places
from penstock.common import Configuration, Row, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.functions import MapFunction, ProcessFunction
from penstock.errors import JobCancelledError, JobExecutionError, UnsupportedOperationError
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.datastream import DataStream

#: How often functions of the tests have seen each record; jobs run in this process.
SEEN: Counter[Any] = Counter()


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """What runs jobs in place of Spark; what was kept goes at the end, as with the program."""
    cluster = Cluster(tmp_path / "cluster")
    cluster.patch(monkeypatch)
    SEEN.clear()
    yield cluster
    kept_places.remove_places()


def environment(checkpoints: Path, parallelism: int = 2, **settings: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"execution.checkpointing.dir": str(checkpoints)} | settings)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    return env.set_runtime_mode(RuntimeExecutionMode.BATCH)


def note(record: Any) -> Any:
    SEEN[str(record)] += 1
    return record


def numbers(env: StreamExecutionEnvironment, count: int = 10) -> DataStream[Any]:
    return env.from_source(
        ListSource(*(list(range(start, count, 3)) for start in range(3))), WatermarkStrategy.no_watermarks(), "numbers"
    )


def gathered(stream: DataStream[Any]) -> list[Any]:
    with stream.execute_and_collect() as records:
        return sorted(records, key=str)


def files(checkpoints: Path) -> list[Path]:
    return [path for path in (checkpoints / ".caches").rglob("*") if path.is_file() and path.name != "lock"]


def test_later_jobs_read_what_the_first_one_has_computed(tmp_path: Path) -> None:
    env = environment(tmp_path)
    cached = numbers(env).map(note).cache()
    assert gathered(cached) == list(range(10))
    assert files(tmp_path)
    env.set_parallelism(3)
    assert gathered(cached.map(lambda number: number * 2)) == sorted(range(0, 20, 2), key=str)
    totals = cached.map(lambda n: (n % 2, n)).key_by(lambda pair: pair[0]).sum(1)
    assert gathered(totals) == [(0, 20), (1, 25)]
    assert set(SEEN.values()) == {1}
    assert "CacheRead" in repr([node.name for node in _nodes(env, cached)])


def _nodes(env: StreamExecutionEnvironment, stream: DataStream[Any]) -> list[Any]:
    stream.print()
    graph = env._stream_graph(None)
    env._pipeline.clear()
    return graph.nodes


def test_stream_that_is_used_twice_in_one_job_is_computed_once_and_read_once(tmp_path: Path) -> None:
    env = environment(tmp_path)
    cached = numbers(env).map(note).cache()
    both = cached.map(lambda n: ("a", n)).union(cached.map(lambda n: ("b", n)))
    expected = sorted([(name, n) for name in "ab" for n in range(10)], key=str)
    assert gathered(both) == expected
    assert gathered(both) == expected
    assert set(SEEN.values()) == {1}


def test_side_output_is_cached(tmp_path: Path) -> None:
    odd = OutputTag("odd", Types.LONG())

    class Parted(ProcessFunction[Any, Any]):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterable[Any]:
            note(value)
            if value % 2:
                yield odd, value
            else:
                yield value

    env = environment(tmp_path)
    cached = numbers(env).process(Parted()).get_side_output(odd).cache()
    for _ in range(2):
        assert gathered(cached) == [1, 3, 5, 7, 9]
    assert set(SEEN.values()) == {1}


class Tenfold(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value * 10


class Stamp(ProcessFunction[Any, Any]):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp()


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.BATCH, RuntimeExecutionMode.STREAMING])
def test_timestamps_stay_in_both_modes_of_the_reading_job(tmp_path: Path, mode: RuntimeExecutionMode) -> None:
    env = environment(tmp_path)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Tenfold())
    cached = numbers(env, 4).assign_timestamps_and_watermarks(strategy).map(note).cache()
    gathered(cached)
    env.set_runtime_mode(mode)
    assert gathered(cached.process(Stamp())) == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert set(SEEN.values()) == {1}


@pytest.mark.parametrize("type_info", [None, Types.ROW_NAMED(["n", "word"], [Types.LONG(), Types.STRING()])])
def test_columns_stay_columns(tmp_path: Path, type_info: Any) -> None:
    def columns(batch: pa.RecordBatch) -> pa.RecordBatch:
        SEEN["batch"] += 1
        return pa.RecordBatch.from_pydict({"n": batch["f0"], "word": pa.array(["w"] * batch.num_rows)})

    env = environment(tmp_path, 1)
    cached = numbers(env, 3).map_batches(columns, type_info).cache()
    record = (lambda n: {"n": n, "word": "w"}) if type_info is None else (lambda n: Row(n=n, word="w"))
    for _ in range(2):
        assert gathered(cached) == [record(0), record(1), record(2)]
    first = SEEN["batch"]
    again = cached.map_batches(lambda batch: batch.select(["n"]))
    assert gathered(again) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert SEEN["batch"] == first


def test_stream_is_computed_anew_after_invalidate_and_after_close(tmp_path: Path) -> None:
    env = environment(tmp_path)
    cached = numbers(env).map(note).cache()
    gathered(cached)
    for times, forget in ((2, cached.invalidate), (3, env.close)):
        forget()
        assert not files(tmp_path)
        assert gathered(cached) == list(range(10))
        assert set(SEEN.values()) == {times}


@pytest.mark.parametrize(
    "damage", ["a file is gone", "a file is shorter", "all files are gone", "its directory is gone"]
)
def test_stream_is_computed_anew_if_not_all_of_it_is_there(tmp_path: Path, damage: str) -> None:
    env = environment(tmp_path)
    cached = numbers(env).map(note).cache()
    gathered(cached)
    there = files(tmp_path)
    if damage.startswith("its"):
        shutil.rmtree(tmp_path / ".caches")
        there = []
    for path in there if damage.startswith("all") else there[:1]:
        if damage.endswith("gone"):
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1])
    for _ in range(2):
        assert gathered(cached) == list(range(10))
    assert set(SEEN.values()) == {2}


def test_file_that_was_changed_is_not_unpickled_but_computed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = environment(tmp_path)
    cached = numbers(env).map(note).cache()
    records = gathered(cached)
    path = files(tmp_path)[0]
    path.write_bytes(bytes(len(path.read_bytes())))
    assert gathered(cached) == records
    path = files(tmp_path)[0]
    path.write_bytes(bytes(len(path.read_bytes())))
    with monkeypatch.context() as patch:  # changed behind the check, while the job reads
        patch.setattr(caches, "check_cached", lambda *_: None)
        with pytest.raises(JobExecutionError, match=r"do not match their digest.*computed anew"):
            gathered(cached)


class FailOn(MapFunction[Any, Any]):
    def __init__(self, bad: int) -> None:
        self.bad = bad

    def map(self, value: Any) -> Any:
        if value == self.bad and not SEEN["passes"]:
            raise ValueError("bad record")
        return value


def test_job_that_fails_or_is_cancelled_keeps_nothing(tmp_path: Path) -> None:
    env = environment(tmp_path)
    cached = numbers(env).map(note).cache()
    with pytest.raises(JobExecutionError, match="bad record"):
        gathered(cached.map(FailOn(7)))
    assert not files(tmp_path)

    begun, go_on = threading.Event(), threading.Event()
    STOPS["begun"], STOPS["go on"] = begun, go_on
    cached.map(waiting).print()
    client = env.execute_async()
    begun.wait()
    client.cancel()
    go_on.set()
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    assert not files(tmp_path)
    SEEN.clear()
    assert gathered(cached) == list(range(10))
    assert set(SEEN.values()) == {1}


STOPS: dict[str, threading.Event] = {}


def waiting(record: Any) -> Any:
    STOPS["begun"].set()
    STOPS["go on"].wait()
    return record


def test_empty_stream_is_kept_as_empty(tmp_path: Path) -> None:
    env = environment(tmp_path)

    def never(record: Any) -> bool:
        note(record)
        return False

    cached = numbers(env).filter(never).cache()
    for _ in range(2):
        assert gathered(cached) == []
    assert set(SEEN.values()) == {1}


class Connection:
    """An object of a process, which cannot leave it."""

    def __deepcopy__(self, memo: Any) -> Connection:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a connection cannot be pickled")


def test_record_that_cannot_be_pickled_ends_the_job_and_its_operator_is_named(tmp_path: Path) -> None:
    env = environment(tmp_path)
    cached = numbers(env, 2).map(lambda number: Connection()).cache()
    with pytest.raises(JobExecutionError, match=r"a connection cannot be pickled\n.*CacheWrite"):
        gathered(cached.map(lambda connection: 1))
    assert not files(tmp_path)


def test_change_of_a_record_behind_the_cache_is_not_kept(tmp_path: Path) -> None:
    def changed(record: dict[str, int]) -> dict[str, int]:
        record["n"] += 100
        return record

    env = environment(tmp_path)
    cached = numbers(env, 2).map(lambda n: {"n": n}).cache()
    for _ in range(2):
        assert gathered(cached.map(changed)) == [{"n": 100}, {"n": 101}]


def test_streaming_job_passes_the_records_on_and_says_that_it_keeps_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = environment(tmp_path).set_runtime_mode(RuntimeExecutionMode.STREAMING)
    cached = numbers(env).map(note).cache()
    for times in (1, 2):
        assert gathered(cached) == list(range(10))
        assert set(SEEN.values()) == {times}
    assert "execution.runtime-mode to BATCH" in caplog.text
    assert not files(tmp_path)


def test_two_programs_at_once_keep_their_own(tmp_path: Path) -> None:
    first, second = environment(tmp_path), environment(tmp_path)
    one, other = numbers(first, 3).map(note).cache(), numbers(second, 5).map(note).cache()
    assert (gathered(one), gathered(other)) == ([0, 1, 2], [0, 1, 2, 3, 4])
    one.invalidate()
    assert gathered(other) == [0, 1, 2, 3, 4]
    assert SEEN["4"] == 1


def test_two_jobs_at_once_that_compute_one_stream_leave_one_copy(tmp_path: Path) -> None:
    env = environment(tmp_path)
    cached = numbers(env).map(note).cache()
    clients = []
    for _ in range(2):
        cached.print()
        clients.append(env.execute_async())
    for client in clients:
        client.get_job_execution_result().result()
    assert len({path.parent for path in files(tmp_path)}) == 1
    SEEN.clear()
    assert gathered(cached) == list(range(10))
    assert not SEEN


def test_what_a_dead_program_of_this_host_has_left_goes_with_the_next_one(tmp_path: Path) -> None:
    prefix = kept_places._prefix()
    for name in (f"{prefix}dead", "another_host-dead"):
        (tmp_path / ".caches" / name).mkdir(parents=True)
        (tmp_path / ".caches" / name / "lock").touch()
    gathered(numbers(environment(tmp_path)).cache())
    names = {path.name for path in (tmp_path / ".caches").iterdir()}
    assert f"{prefix}dead" not in names
    assert "another_host-dead" in names
    assert len(names) == 2


def test_program_without_checkpoint_directory_keeps_in_a_temporary_one() -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    cached = numbers(env).map(note).cache()
    for _ in range(2):
        assert gathered(cached) == list(range(10))
    assert set(SEEN.values()) == {1}
    (place,) = kept_places._places.values()
    directory = Path(place.storage.full_path(""))
    assert directory.name.startswith("penstock-caches-")
    kept_places.remove_places()
    assert not directory.exists()


def test_streams_that_cannot_be_cached_say_what_to_do(tmp_path: Path) -> None:
    env = environment(tmp_path)
    stream = numbers(env)
    for refused in (stream.rebalance(), stream.union(stream)):
        with pytest.raises(UnsupportedOperationError, match="call it on the stream that the operator returned"):
            refused.cache()
    with pytest.raises(UnsupportedOperationError, match=r"Cache for KeyedStream.*before key_by"):
        stream.key_by(lambda n: n).cache()
    cached = stream.cache()
    assert cached.cache() is cached
    with pytest.raises(UnsupportedOperationError, match=r"Set name for CachedDataStream.*before cache\(\)"):
        cached.name("mine")
