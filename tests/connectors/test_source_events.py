"""The source of the documentation whose enumerator stops its readers by an event."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import CrashError, Driven, Epochs
from tests.kit.program import Program

from penstock._engine.coordinator import instructions as do
from penstock.common import Encoder
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.connectors.file_system import FileSink
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = Path(__file__).parents[2] / "docs" / "own-source.md"


@pytest.fixture
def numbers() -> Iterator[Any]:
    """The program of the documentation, as a module."""
    programs = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    [code] = [program for program in programs if "class Stop" in program]
    module = sys.modules["stopped_source"] = ModuleType("stopped_source")
    exec(compile(code, str(DOCUMENT), "exec"), vars(module))
    yield module.NumbersUntil
    del sys.modules["stopped_source"]


@pytest.mark.behaviour(87)
def test_an_event_stops_all_readers_those_without_a_split_too(tmp_path: Path, numbers: Any) -> None:
    run = SourceRun(numbers(str(tmp_path / "stop")), 3)
    for _ in range(3):
        run.context.run_async_calls()
        run.epoch(polls=5)
    assert not any(run.ended)
    read = len(run.records)
    (tmp_path / "stop").touch()
    run.context.run_async_calls()
    run.epoch(polls=5)
    assert run.finished
    assert len(run.records) == read
    run.close()


@pytest.mark.behaviour(87)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_that_is_killed_while_it_stops_ends_with_each_record_once(
    tmp_path: Path, numbers: Any, parallelism: int
) -> None:
    stop = tmp_path / "stop"

    def job(**settings: str) -> Driven:
        program = Program(tmp_path, parallelism, checkpoints=str(tmp_path / "checkpoints"), interval="1 s", **settings)
        stream = program.env.from_source(numbers(str(stop)), WatermarkStrategy.no_watermarks(), "numbers")
        stream.uid("numbers").sink_to(
            FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder()).build()
        ).uid("out")
        return Driven(program.env, tmp_path / "state", Epochs(6))

    first = job()

    def watch(step: Any) -> None:
        if isinstance(step, do.RunEpoch):
            stops = [one for part in step.dispatches.values() for one in part.operators["numbers"].events]
            if stop.exists() and stops:
                raise CrashError
            if len(first.of(do.RunEpoch)) == 3:
                stop.touch()

    first.watchers.append(watch)
    with pytest.raises(CrashError):
        first.run()
    again = job(recover="latest")
    again.run()
    assert again.driver.status is JobStatus.FINISHED, again.driver.result.exception()
    lines = [line for path in (tmp_path / "out").rglob("part-*") for line in path.read_text().splitlines()]
    odd, even = ([n for n in map(int, lines) if n % 2 == rest] for rest in (1, 0))
    assert sorted(odd) == list(range(1, 2 * len(odd), 2))
    assert sorted(even) == list(range(0, 2 * len(even), 2))
