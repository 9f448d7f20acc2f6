"""Batch jobs with recovery, without Spark: drivers that die at every step, and what the next one still has to do."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kit.clock import CLOCK, Threads
from tests.kit.notes import NotedCounts
from tests.unit.driver.test_batch_jobs import Killed, published

from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble, recovers_from_lost_drivers
from penstock._engine.driver.stages.program import program_of
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.combining import with_combiners
from penstock._engine.graph.job_graph import JobType
from penstock._engine.graph.uids import assign_uids
from penstock._engine.operators.factories.sources_and_sinks import CollectFactory
from penstock._engine.savepoints.leftovers import find_leftovers, remove_leftovers
from penstock._engine.savepoints.survey import LeftoverKind, LeftoverPlaces
from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.errors import ChangedProgramError, FencedError, UndeliveredResultsError
from penstock.testing.in_process import InProcessEpochRunner
from penstock.testing.sources import ListSource

#: How often each record was mapped, by the name of the function.
CALLS: NotedCounts[str] = NotedCounts()


def counted(name: str, value: Any) -> Any:
    CALLS[name] += 1
    return value


def graph_of(place: Path, changed: str = "", **settings: str) -> tuple[Any, Configuration]:
    """Return a job of five vertices: two sources, a union of them by key, a sort of sums, a sink."""
    settings = {
        "execution.checkpointing.dir": str(place / "checkpoints"),
        "execution.batch.job-recovery.enabled": "true",
        "execution.batch.job-recovery.operator-coordinator-snapshot.min-pause": "0 ms",
        "execution.batch.adaptive.auto-parallelism.enabled": "false",
        **settings,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    left = env.from_source(
        ListSource([0, 1], [2, 3], [4], happened_in=str(place)), WatermarkStrategy.no_watermarks(), "left"
    ).uid("left")
    right = env.from_source(
        ListSource([5], [6, 7], [8, 9], happened_in=str(place)), WatermarkStrategy.no_watermarks(), "right"
    ).uid("right")
    both = left.map(lambda value: counted("left", value)).union(right.map(lambda value: counted("right", value)))
    pairs = both.rebalance().map(lambda value: counted("pairs", (value % 3, value)))
    sums = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    if changed:
        last = sums.rebalance().map(lambda pair: counted("last", json.dumps([*pair])))
    else:
        last = sums.rebalance().map(lambda pair: counted("last", json.dumps(pair)))
    last.sink_to(FileSink.for_row_format(str(place / "sums"), Encoder.simple_string_encoder()).build()).uid("sums")
    graph = with_combiners(build_job_graph(env._stream_graph("killed")))
    return graph, Configuration(env._configuration)


#: Every so many steps a driver dies; the campaign takes each of them.
STRIDE = int(os.environ.get("PENSTOCK_RECOVERY_STRIDE", "19"))
SUMS = Counter(json.dumps([key, sum(range(key, 10, 3))]) for key in range(3))
WHOLE = Counter({"left": 5, "right": 5, "pairs": 10, "last": 3})


def driver_of(place: Path, threads: Threads | None = None, **settings: str) -> tuple[Any, Any]:
    graph, configuration = graph_of(place, **settings)
    threads = threads or Threads()
    world = RuntimeEnvironment(InProcessEpochRunner(), 2, place / "state", (), threads, threads)
    return assemble(graph, configuration, None, world)


def flush(loop: Any) -> None:
    """Let the event store write what it has."""
    work = loop._background._work
    while work:
        work.pop(0)()


def run(place: Path, *, kill_after: int = 0, **settings: str) -> tuple[int, bool, Any]:
    """Run one driver; return the number of its instructions, whether it came to its end, and the driver."""
    driver, loop = driver_of(place, **settings)
    perform, count = loop.perform, 0

    def counting(instruction: Any) -> None:
        nonlocal count
        count += 1
        perform(instruction)
        if count == kill_after:
            raise Killed

    loop.perform = counting
    if not kill_after:
        driver.run(loop)
        assert driver.result.exception() is None
        return count, True, driver
    try:
        outcome = loop.run()  # not driver.run: a killed process cleans nothing up
    except Killed:
        return count, False, driver
    assert outcome.error is None
    return count, True, driver


def left_behind(place: Path) -> list[Path]:
    return [path for kind in ("results", "finished", "events") for path in place.glob(f"checkpoints/*/{kind}/*")]


@pytest.mark.behaviour(142)
@pytest.mark.behaviour(144)
@pytest.mark.behaviour(153)
def test_a_driver_that_dies_at_any_step_leaves_what_had_finished_to_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    CALLS.clear()
    steps, _, _ = run(tmp_path / "whole")
    assert published(tmp_path / "whole", "sums") == SUMS
    assert WHOLE == CALLS
    assert left_behind(tmp_path / "whole") == []
    for step in range(steps - 2, 0, -STRIDE):
        place = tmp_path / f"{step}"
        place.mkdir()
        CALLS.clear()
        run(place, kill_after=step, **{"execution.state-recovery.path": "latest"})
        assert published(place, "sums") in (SUMS, Counter()), step
        run(place, **{"execution.state-recovery.path": "latest"})
        assert published(place, "sums") == SUMS, step
        assert left_behind(place) == [], step
        # At most one stage runs twice: the one that ran, or whose events were not stored yet.
        assert len(CALLS - WHOLE) <= 1, (step, CALLS - WHOLE)


def kill_before_the_last_stage_but_one(place: Path, **settings: str) -> None:
    """Kill the driver where the events of all stages before that one are stored."""
    _, loop = driver_of(place, **settings)
    perform = loop.perform

    def killing(instruction: Any) -> None:
        if isinstance(instruction, do.RunEpoch) and max(vertex for vertex, _ in instruction.dispatches) == 3:
            flush(loop)
            raise Killed
        perform(instruction)

    loop.perform = killing
    with pytest.raises(Killed):
        loop.run()


@pytest.mark.behaviour(150)
@pytest.mark.behaviour(151)
def test_finished_vertices_do_not_run_again_and_no_record_is_lost_with_the_driver(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    CALLS.clear()
    kill_before_the_last_stage_but_one(tmp_path)
    assert CALLS["left"] == 5
    before = Counter(CALLS)
    with caplog.at_level(logging.INFO, "penstock"):
        _, _, driver = run(tmp_path)
    assert "Resuming a batch job: " in caplog.text
    assert published(tmp_path, "sums") == SUMS
    assert {name: CALLS[name] for name in ("left", "right")} == {name: before[name] for name in ("left", "right")}
    assert driver.view.recovery is not None
    assert driver.view.recovery.recovered_subtasks >= 4
    assert driver.view.recovery.repeated_subtasks == 0


def figures(driver: Any) -> tuple[int, list[int]]:
    """Return the number of records of the job, and how many each vertex has read."""
    return driver.view.progress.records, [sum(part.io.records_in for part in row) for row in driver.view.subtasks]


def test_figures_count_what_was_recovered_once(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("whole", "killed", "restarted")]
    for place in places:
        place.mkdir()
    _, _, whole = run(places[0])
    kill_before_the_last_stage_but_one(places[1])
    _, _, recovered = run(places[1])
    driver, loop = driver_of(places[2])
    perform, is_lost = loop.perform, False

    def losing(instruction: Any) -> None:
        """Lose a result, so that the driver restarts the job and recovers the rest of it."""
        nonlocal is_lost
        if isinstance(instruction, do.RunEpoch) and not is_lost and (3, 0) in instruction.dispatches:
            next(path for path in places[2].glob("checkpoints/*/results/*") if "-2-0-" in path.name).unlink()
            is_lost = True
        perform(instruction)

    loop.perform = losing
    driver.run(loop)
    assert driver.view.recovery.repeated_subtasks == 1
    assert figures(whole)[0] == 10
    assert figures(recovered) == figures(driver) == figures(whole)


@pytest.mark.behaviour(151)
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_driver_waits_for_results_until_all_are_there_or_its_time_is_over(tmp_path: Path, comes_back: bool) -> None:
    kill_before_the_last_stage_but_one(tmp_path)
    missing = [path for path in tmp_path.glob("checkpoints/*/results/*") if "-2-" in path.name]
    for path in missing:
        path.rename(tmp_path / path.name)
    driver, loop = driver_of(tmp_path, **{"execution.batch.job-recovery.previous-worker.recovery.timeout": "1 h"})
    perform, looks, statuses = loop.perform, list[int](), set[str]()

    def looking(instruction: Any) -> None:
        if isinstance(instruction, do.ListPartitions):
            looks.append(CLOCK.passed_ms())
            statuses.add(driver.status.name)
            if comes_back and len(looks) == 3:
                for path in missing:
                    (tmp_path / path.name).rename(path)
        perform(instruction)

    loop.perform = looking
    CALLS.clear()
    driver.run(loop)
    assert published(tmp_path, "sums") == SUMS
    assert statuses == {"RECONCILING"}
    waited_ms = looks[-1] - looks[0]
    assert (waited_ms < 5_000, CALLS["pairs"]) == (True, 0) if comes_back else (waited_ms >= 3_600_000, 10)


@pytest.mark.behaviour(145)
@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_result_that_is_lost_between_two_runs_is_made_again(tmp_path: Path, damage: str) -> None:
    settings = {"execution.batch.job-recovery.previous-worker.recovery.timeout": "1 s"}
    kill_before_the_last_stage_but_one(tmp_path, **settings)
    lost = next(path for path in sorted(tmp_path.glob("checkpoints/*/results/*")) if "-2-0-" in path.name)
    if damage == "gone":
        lost.unlink()
    else:
        data = bytearray(lost.read_bytes())
        data[3] ^= 1
        lost.write_bytes(data)
    CALLS.clear()
    _, _, driver = run(tmp_path, **settings)
    assert published(tmp_path, "sums") == SUMS
    assert CALLS["left"] == CALLS["right"] == 0
    assert driver.view.recovery.repeated_subtasks >= 1


def test_an_older_driver_is_fenced_and_the_younger_one_finishes(tmp_path: Path) -> None:
    _, loop = driver_of(tmp_path)
    perform, others = loop.perform, list[Any]()

    def overtaken(instruction: Any) -> None:
        is_late = isinstance(instruction, do.RunEpoch) and max(vertex for vertex, _ in instruction.dispatches) == 2
        if is_late and not others:
            others.append(run(tmp_path))
        perform(instruction)

    loop.perform = overtaken
    outcome = loop.run()
    assert isinstance(outcome.error, FencedError)
    assert published(tmp_path, "sums") == SUMS


def test_a_start_that_another_one_has_overtaken_does_not_run_the_finished_job_again(tmp_path: Path) -> None:
    driver, loop = driver_of(tmp_path)
    perform, others = loop.perform, list[Any]()

    def overtaken(instruction: Any) -> None:
        if isinstance(instruction, do.PutChainEntry) and not others:
            others.append(run(tmp_path))
        perform(instruction)

    loop.perform = overtaken
    driver.run(loop)
    assert driver.result.exception() is None
    assert others[0][1]
    assert published(tmp_path, "sums") == SUMS


@pytest.mark.behaviour(142)
def test_a_fenced_driver_leaves_all_files_to_the_younger_one(tmp_path: Path) -> None:
    driver, loop = driver_of(tmp_path)
    perform, left = loop.perform, list[Path]()

    def overtaken(instruction: Any) -> None:
        is_late = isinstance(instruction, do.RunEpoch) and max(vertex for vertex, _ in instruction.dispatches) == 2
        if is_late and not left:
            kill_before_the_last_stage_but_one(tmp_path)  # the younger one
            left.extend(left_behind(tmp_path))
        perform(instruction)

    loop.perform = overtaken
    driver.run(loop)
    assert isinstance(driver.result.exception(), FencedError)
    assert set(left) <= set(left_behind(tmp_path))
    _, _, last = run(tmp_path)
    assert published(tmp_path, "sums") == SUMS
    assert last.view.recovery.repeated_subtasks == 0


@pytest.mark.behaviour(143)
def test_a_job_with_recovery_and_no_directory_runs_without_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graph, configuration = graph_of(tmp_path)
    configuration.remove_config("execution.checkpointing.dir")
    threads = Threads()
    world = RuntimeEnvironment(InProcessEpochRunner(), 2, tmp_path / "state", (), threads, threads)
    driver, loop = assemble(graph, configuration, None, world)
    with caplog.at_level(logging.WARNING, "penstock"):
        driver.run(loop)
    assert driver.result.exception() is None
    assert driver.view.recovery is None
    assert published(tmp_path, "sums") == SUMS
    [said] = [text for text in caplog.messages if "runs without recovery" in text]
    assert "execution.checkpointing.dir" in said
    caplog.clear()
    assert not recovers_from_lost_drivers(replace(graph, job_type=JobType.STREAMING), configuration)
    assert "runs in STREAMING mode" in caplog.text


@pytest.mark.behaviour(143)
def test_another_program_is_refused_by_name_and_leaves_everything_as_it_is(tmp_path: Path) -> None:
    _, loop = driver_of(tmp_path)
    perform, runs = loop.perform, 0

    def stopping(instruction: Any) -> None:
        nonlocal runs
        runs += isinstance(instruction, do.RunEpoch)
        if runs == 3:
            raise Killed
        perform(instruction)

    loop.perform = stopping
    with pytest.raises(Killed):
        loop.run()
    before = sorted(left_behind(tmp_path))
    driver, loop = driver_of(tmp_path, changed="true")
    driver.run(loop)
    error = driver.result.exception()
    assert isinstance(error, ChangedProgramError)
    assert "a function of operator 'Map'" in str(error)
    assert sorted(left_behind(tmp_path)) == before
    driver, loop = driver_of(tmp_path, **{"pipeline.max-parallelism": "16"})  # divides the keys otherwise
    driver.run(loop)
    error = driver.result.exception()
    assert isinstance(error, ChangedProgramError)
    assert "the max parallelism of operator 'Source: left' (uid 'left') is 16, and was 128" in str(error)
    run(tmp_path, changed="true", **{"penstock.batch.accept-changed-functions": "true"})
    assert published(tmp_path, "sums") == SUMS


def test_a_cached_stream_is_the_same_program_in_each_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def program() -> Any:
        _, configuration = graph_of(tmp_path)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.from_collection([1]).map(str).cache().print()
        graph = env._stream_graph("cached")
        env._caches.write(graph, configuration)
        return program_of(build_job_graph(graph))

    first, second = program(), program()
    assert second.difference(first, accept_changed_functions=False) == ""
    assert "cache() keeps nothing in job cached" in caplog.text


WEEK_MS, HOUR_MS = 7 * 86_400_000, 3_600_000


def leftovers(place: Path, after_ms: int, **others: Any) -> list[Path]:
    """Return the leftovers that a search finds some time after the last change."""
    places = LeftoverPlaces((str(place / "checkpoints"),), local=False, **others)
    newest_ms = max(int(path.stat().st_mtime * 1000) for path in left_behind(place))
    found = find_leftovers(places, now_ms=newest_ms + after_ms)
    kinds = (LeftoverKind.STAGE_RESULT, LeftoverKind.JOB_EVENTS)
    return sorted(Path(leftover.path) for leftover in found.leftovers if leftover.kind in kinds)


def test_results_and_events_of_a_job_that_is_not_resumed_are_left_over_after_a_week(tmp_path: Path) -> None:
    run(tmp_path, kill_after=30)
    [job_id] = {path.parent.parent.name for path in left_behind(tmp_path)}
    left = sorted(left_behind(tmp_path))
    assert {path.parent.name for path in left} == {"results", "finished", "events"}
    assert leftovers(tmp_path, WEEK_MS - 1000) == []
    assert leftovers(tmp_path, WEEK_MS + 1000, running_jobs=frozenset({job_id})) == []
    assert leftovers(tmp_path, WEEK_MS + 1000) == left
    assert leftovers(tmp_path, HOUR_MS + 1000, ended_jobs=frozenset({job_id})) == left  # the user knows it

    found = find_leftovers(
        LeftoverPlaces((str(tmp_path / "checkpoints"),), local=False), abandoned_age_ms=-1000, min_age_ms=-1000
    )
    assert remove_leftovers(found.leftovers).failed == ()
    assert left_behind(tmp_path) == []
    run(tmp_path)
    assert published(tmp_path, "sums") == SUMS


def test_events_of_a_job_whose_driver_was_lost_at_its_end_stay_for_the_next_start(tmp_path: Path) -> None:
    steps, _, _ = run(tmp_path)
    place = tmp_path / "killed"
    place.mkdir()
    run(place, kill_after=steps)
    left = leftovers(place, HOUR_MS + 1000)
    assert {path.parent.name for path in left} == {"results"}
    assert leftovers(place, WEEK_MS + 1000) == sorted(left_behind(place))


@pytest.mark.behaviour(142)
@pytest.mark.parametrize("sinks", [False, True])
def test_what_a_program_has_collected_goes_with_it_and_the_next_start_computes_it_again_or_says_so(
    tmp_path: Path, sinks: bool
) -> None:
    def start() -> tuple[Any, Any, str]:
        settings = {
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "execution.batch.job-recovery.enabled": "true",
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        numbers = env.from_collection([1, 2, 3]).map(lambda value: value * 2)
        if sinks:
            sink = FileSink.for_row_format(str(tmp_path / "sums"), Encoder.simple_string_encoder()).build()
            numbers.map(str).sink_to(sink).uid("sums")
        node = numbers._add(CollectFactory(None, as_text=False), "Collect", keep_size=True)
        stream_graph = env._stream_graph("collecting")
        uid = assign_uids(stream_graph)[node.id]
        threads = Threads()
        graph, configuration = build_job_graph(stream_graph), Configuration(env._configuration)
        world = RuntimeEnvironment(InProcessEpochRunner(), 1, tmp_path / "state", (), threads, threads)
        return *assemble(graph, configuration, None, world), uid

    _, loop, _ = start()
    assert loop.run().error is None  # not driver.run: a killed process cleans nothing up
    driver, loop, uid = start()
    driver.run(loop)
    if sinks:
        with pytest.raises(UndeliveredResultsError, match=r"'collecting'.* has finished in an earlier run"):
            driver.result.result(0)
        assert published(tmp_path, "sums") == Counter(["2", "4", "6"])
    else:
        assert driver.result.exception() is None
        assert loop._performers.results.next_block(uid) == [2, 4, 6]


def test_the_view_has_the_stage_that_runs_and_what_was_recovered(tmp_path: Path) -> None:
    driver, loop = driver_of(tmp_path)
    perform, statuses = loop.perform, list[list[str]]()

    def looking(instruction: Any) -> None:
        perform(instruction)
        if isinstance(instruction, do.RunEpoch):
            statuses.append([driver.view.task_status(vertex, 0).name for vertex in range(5)])

    loop.perform = looking
    driver.run(loop)
    assert statuses[0] == ["RUNNING", *["CREATED"] * 4]
    assert statuses[-1] == [*["FINISHED"] * 4, "RUNNING"]


def test_a_recovered_vertex_that_ran_fewer_subtasks_has_finished(tmp_path: Path) -> None:
    settings = {"execution.batch.adaptive.auto-parallelism.enabled": "true"}
    kill_before_the_last_stage_but_one(tmp_path, **settings)
    driver, loop = driver_of(tmp_path, **settings)
    perform, statuses = loop.perform, list[list[str]]()

    def looking(instruction: Any) -> None:
        perform(instruction)
        if isinstance(instruction, do.RunEpoch):
            statuses.append(
                [driver.view.task_status(vertex, subtask).name for vertex in range(5) for subtask in (0, 1)]
            )

    loop.perform = looking
    driver.run(loop)
    assert published(tmp_path, "sums") == SUMS
    assert statuses[0][:6] == ["FINISHED"] * 6  # the third of them ran one
