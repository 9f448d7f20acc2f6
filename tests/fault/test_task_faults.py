"""Spark runs tasks again, mixes their attempts or loses them, and functions raise: the files hold the truth."""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.fault.job import NAME, NUMBERS, SteadyRunner, is_truth, numbers, published
from tests.fault.support import crash, run_here
from tests.kit.driving import CrashError

from penstock._engine.graph.chaining import build_job_graph
from penstock.common import Encoder, Types, WatermarkStrategy
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.functions import KeyedProcessFunction, MapFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import JobExecutionError
from penstock.testing.in_process import Chaos
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock._engine.graph.job_graph import JobGraph
    from penstock.datastream import DataStream
    from penstock.datastream.functions import RuntimeContext

SEED = 20131


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


def write(stream: DataStream, folder: Path) -> None:
    """Write a stream to files, one for each writer and epoch."""
    sink = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    stream.sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())


def graph_of(env: StreamExecutionEnvironment) -> JobGraph:
    return build_job_graph(env._stream_graph(NAME))


# ------------------------------------------------------------------------------------------------ tasks that run twice


@pytest.mark.both_exchanges
@pytest.mark.parametrize(
    ("workers", "chaos"),
    [
        pytest.param(1, Chaos(retries=1.0), id="every finished subtask again in its own worker"),
        pytest.param(3, Chaos(retries=0.5), id="again in any worker"),
        pytest.param(2, Chaos(mixtures=0.15), id="readers of two attempts"),
        pytest.param(2, Chaos(losses=0.15), id="lost epochs"),
        pytest.param(3, Chaos(retries=0.2, mixtures=0.05, losses=0.05), id="all of it"),
    ],
)
def test_tasks_that_run_again_apply_nothing_twice(tmp_path: Path, workers: int, chaos: Chaos) -> None:
    runner = SteadyRunner(workers=workers, hosts=min(workers, 2), chaos=chaos, seed=SEED)
    driver = run_here(tmp_path, runner=runner)
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert is_truth(tmp_path)


class Unrepeatable(MapFunction):
    """Marks what each attempt at a task reads, so that no two attempts give the same records."""

    def map(self, value: int) -> tuple[int, str]:
        return value, secrets.token_hex(4)


@pytest.mark.both_exchanges
def test_task_run_twice_with_different_records_counts_once_for_all_its_readers(tmp_path: Path) -> None:
    env = environment()
    stream = numbers(env).map(Unrepeatable())
    write(stream.key_by(lambda record: record[1]).map(str, Types.STRING()), tmp_path / "out" / "by mark")
    write(stream.key_by(lambda record: record[0]).map(str, Types.STRING()), tmp_path / "out" / "by number")
    runner = SteadyRunner(workers=2, chaos=Chaos(retries=0.3, mixtures=0.15), seed=SEED)
    driver = run_here(tmp_path, graph=graph_of(env), runner=runner)
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    seen = Counter(published(tmp_path))
    assert set(seen.values()) == {2}  # both sinks have the records of the same attempt
    assert sorted(int(line[1:].split(",")[0]) for line in seen) == list(range(NUMBERS))


# ------------------------------------------------------------------------------------------------- functions that raise


@dataclass
class Fragile(MapFunction):
    """Notes in a file how often it saw the record at which it raises, the first times."""

    notes: Path
    raises: int

    def map(self, value: int) -> int:
        if value == 123:
            with self.notes.open("a") as notes:
                notes.write("seen\n")
            if len(self.notes.read_text().split()) <= self.raises:
                raise ValueError(value)
        return value


def fragile_graph(directory: Path, raises: int) -> JobGraph:
    env = environment()
    stream = numbers(env).map(Fragile(directory / "notes", raises))
    write(stream.map(str, Types.STRING()), directory / "out")
    return graph_of(env)


def times_seen(directory: Path) -> int:
    return len((directory / "notes").read_text().split())


def test_function_that_raises_has_run_once_when_the_job_fails_with_it(tmp_path: Path) -> None:
    driver = run_here(tmp_path, graph=fragile_graph(tmp_path, raises=99), restart="none")
    error = driver.result.exception()
    assert isinstance(error, JobExecutionError)
    assert isinstance(error.__cause__, ValueError)
    assert times_seen(tmp_path) == 1
    before = Counter(published(tmp_path))
    assert max(before.values(), default=1) == 1

    driver = run_here(tmp_path, graph=fragile_graph(tmp_path, raises=1), restart="none")
    assert driver.status is JobStatus.FINISHED
    assert Counter(published(tmp_path)) == Counter(map(str, range(NUMBERS)))


@pytest.mark.both_exchanges
def test_function_that_raises_runs_once_more_for_each_restart(tmp_path: Path) -> None:
    driver = run_here(tmp_path, graph=fragile_graph(tmp_path, raises=3))
    assert driver.status is JobStatus.FINISHED
    assert driver.progress.restarts == 3
    assert times_seen(tmp_path) == 4
    assert Counter(published(tmp_path)) == Counter(map(str, range(NUMBERS)))


# ----------------------------------------------------------------------------------------------------------- equal keys


def restless() -> SteadyRunner:
    return SteadyRunner(workers=3, hosts=2, chaos=Chaos(retries=0.2, losses=0.05), seed=SEED)


class Numbered(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self.count.update((self.count.value() or 0) + 1)
        yield f"{'text' if isinstance(value, str) else 'number'} {self.count.value()}"


@pytest.mark.both_exchanges
def test_keys_that_python_calls_equal_are_one_key_in_every_worker_and_after_a_crash(tmp_path: Path) -> None:
    texts = ["".join(parts) for parts in [("one",), ("o", "ne"), ("on", "e")]]  # equal, each an object of its own
    assert len(set(map(id, texts))) == 3
    keys = [1, True, 1.0, *texts] * 20
    env = environment()
    source = ListSource(keys, keys, happened_in=str(tmp_path), records_per_poll=7)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "keys")
    write(stream.key_by(lambda key: key).process(Numbered(), Types.STRING()), tmp_path / "out")
    graph = graph_of(env)
    with pytest.raises(CrashError):
        run_here(tmp_path, graph=graph, runner=restless(), actions={"put_chain_entry-3-after": crash})
    driver = run_here(tmp_path, graph=graph, runner=restless())
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    counts = defaultdict[str, list[int]](list)
    for line in published(tmp_path):
        kind, count = line.split()
        counts[kind].append(int(count))
    assert {kind: sorted(of_kind) for kind, of_kind in counts.items()} == {
        "number": list(range(1, 121)),
        "text": list(range(1, 121)),
    }
