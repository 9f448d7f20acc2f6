"""Batch jobs whose driver or worker is killed in the middle of its work: all or nothing, and nothing left behind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.clock import Threads
from tests.unit.driver.test_batch_jobs import ALL, SUMS, Killed, check, environment, graph_of, published

from penstock._connectors.files.committer import FileCommitter
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.combining import with_combiners
from penstock._engine.operators.functions.reduce import ReduceOperator
from penstock._engine.operators.partitions.column_sort import ColumnSorter
from penstock._engine.operators.sorting import external_sort
from penstock._engine.operators.sorting.external_sort import ExternalSorter
from penstock._engine.runtime.results import ResultReader, ResultWriter
from penstock._engine.runtime.worker_cache import WorkerCache
from penstock.common import Configuration, Encoder, Order, Row, Types
from penstock.common.interrupts import _Noted
from penstock.datastream.connectors.file_system import FileSink
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: What is done where a process is killed, and how often it is done before that.
POINTS: dict[str, tuple[Any, str, int]] = {
    "while it reads a result": (ResultReader, "_section", 1),
    "before the sort": (ExternalSorter, "add", 0),
    "while a run is spilled": (external_sort, "_write_frame", 1),
    "while runs are merged": (ExternalSorter, "_merged", 0),
    "after the sort": (ReduceOperator, "finish", 0),
    "before a result is written": (ResultWriter, "_write", 1),
    "after a result is written": (ResultWriter, "finish", 2),
}
COMMITS: dict[str, tuple[Any, str, int]] = {
    "between the last task and the commit": (FileCommitter, "commit", 0),
    "between two commits": (FileCommitter, "commit", 1),
}


class Lost(KeyboardInterrupt):
    """The worker's process is gone."""


class Trap:
    """Kills a process at a point, once; what would clean up behind an exception does nothing in a dead process."""

    def __init__(self, patch: pytest.MonkeyPatch, point: tuple[Any, str, int], death: type[BaseException]) -> None:
        self.is_sprung = False
        self._patch, self._point = patch, point
        place, name, before = point
        act, count = getattr(place, name), 0

        def acting(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            if count == before + 1 and not self.is_sprung:
                self.is_sprung = True
                self._patch.setattr(_Noted, "came", True)  # so that no guard takes it for an error of user code
                raise death
            return act(*arguments)

        patch.setattr(place, name, acting)
        for sorter in (ExternalSorter, ColumnSorter):
            patch.setattr(sorter, "close", self._closing(sorter.close))

    def _closing(self, close: Callable[[Any], None]) -> Callable[[Any], None]:
        def closing(sorter: Any) -> None:
            if not self.is_sprung:
                close(sorter)
            sorter._files.close_files()  # the system closes what a dead process had open

        return closing

    def remove(self) -> None:
        """Let processes live from now on."""
        assert self.is_sprung, "the point was never reached"
        self._patch.undo()


class Workers(InProcessEpochRunner):
    """Runs a task again in a new worker when that of its first attempt is killed, as Spark does."""

    trap: Trap

    def _attempt(self, task: Any, rows: Any) -> Any:
        try:
            return super()._attempt(task, rows)
        except Lost:
            self.trap.remove()
            self.workers[:] = [WorkerCache(worker.clock) for worker in self.workers]
            return super()._attempt(task, rows)


ROW = Types.ROW_NAMED(["n"], [Types.LONG()])
#: Of the sorts of partitions, whose memory is a byte.
SORTS: dict[str, tuple[Any, str, int]] = {
    "before the sort": (ExternalSorter, "add_all", 0),
    "while a run is spilled": (external_sort, "_write_frame", 3),
    "while runs are merged": (ExternalSorter, "_merged", 0),
    "while runs are read": (ExternalSorter, "_read", 2),
    "before the sort of columns": (ColumnSorter, "add", 0),
    "while a run of columns is spilled": (ColumnSorter, "_write", 1),
    "while runs of columns are merged": (ColumnSorter, "_merged", 0),
    "while runs of columns are read": (ColumnSorter, "_read", 2),
}


def sorting_graph_of(place: Path, **settings: str) -> tuple[Any, Configuration]:
    """Return a job with two sorts of partitions on the disk: of records, and of columns."""
    settings |= {"execution.sort-partition.memory": "1 b", "execution.checkpointing.dir": str(place / "checkpoints")}
    env = environment(2, **settings, **{"execution.state-recovery.path": "latest"})
    numbers = [env.from_collection([(7 * start + 3 * number) % 50 for number in range(25)]) for start in range(2)]
    rows = numbers[0].union(numbers[1]).map(lambda number: Row(n=number), ROW).rebalance().full_window_partition()
    for name, stream in (
        ("rows", rows.sort_partition("n", Order.DESCENDING)),
        ("columns", rows.sort_partition_batches([("n", Order.DESCENDING)])),
    ):
        sink = FileSink.for_row_format(str(place / name), Encoder.simple_string_encoder()).build()
        stream.map(lambda row: str(row[0])).sink_to(sink).uid(name)
    graph = with_combiners(build_job_graph(env._stream_graph("killed")))
    return graph, Configuration(env._configuration)


def drive(
    place: Path, runner: InProcessEpochRunner, run: Callable[[Any, Any], None], build: Callable[..., Any] = graph_of
) -> None:
    graph, configuration = build(place, **{"execution.sorted-inputs.memory": "1 b"})
    threads = Threads()
    world = RuntimeEnvironment(runner, 2, place / "state", (), threads, threads)
    run(*assemble(graph, configuration, None, world))


def to_its_end(driver: Any, loop: Any) -> None:
    driver.run(loop)
    assert driver.result.exception() is None


def spilled(place: Path) -> list[Path]:
    return [path for path in (place / "state").rglob("*") if path.is_file() and path.parent.name.startswith("sort-")]


@pytest.mark.behaviour(143)
@pytest.mark.behaviour(153)
@pytest.mark.parametrize("point", [*POINTS, *COMMITS])
def test_a_driver_that_is_killed_in_the_middle_leaves_all_or_nothing(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        trap = Trap(patch, (POINTS | COMMITS)[point], Killed)
        with pytest.raises(Killed):
            drive(tmp_path, InProcessEpochRunner(), lambda _, loop: loop.run())
        trap.remove()
    if point in POINTS:
        assert (published(tmp_path, "all"), published(tmp_path, "sums")) == ({}, {})
    else:
        assert published(tmp_path, "all") in (ALL, {})
        assert published(tmp_path, "sums") in (SUMS, {})
    drive(tmp_path, InProcessEpochRunner(), to_its_end)
    check(tmp_path)
    assert spilled(tmp_path) == []


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Workers(workers=2)
    with monkeypatch.context() as patch:
        runner.trap = Trap(patch, POINTS[point], Lost)
        drive(tmp_path, runner, to_its_end)
    assert runner.trap.is_sprung
    check(tmp_path)
    assert spilled(tmp_path) == []


@pytest.mark.behaviour(132)
@pytest.mark.parametrize("death", [Killed, Lost])
@pytest.mark.parametrize("point", SORTS)
def test_a_sort_of_a_partition_that_dies_loses_nothing_and_leaves_no_file(
    point: str, death: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Workers(workers=2)
    with monkeypatch.context() as patch:
        runner.trap = Trap(patch, SORTS[point], death)
        if death is Lost:
            drive(tmp_path, runner, to_its_end, sorting_graph_of)
        else:
            with pytest.raises(Killed):
                drive(tmp_path, runner, lambda _, loop: loop.run(), sorting_graph_of)
    assert runner.trap.is_sprung
    assert spilled(tmp_path) == []
    if death is Killed:
        assert (published(tmp_path, "rows"), published(tmp_path, "columns")) == ({}, {})
        drive(tmp_path, InProcessEpochRunner(), to_its_end, sorting_graph_of)
    for name in ("rows", "columns"):
        assert published(tmp_path, name) == Counter(
            str((7 * start + 3 * number) % 50) for start in range(2) for number in range(25)
        )
    assert spilled(tmp_path) == []
