"""The same random program in both modes gives the same final result, that of plain Python, in a tiny sort as well.

In batch mode there are no updates: the last one of a key in streaming mode is its only result. Late records and the
order of records without timestamps over several senders are what modes may differ in; programs here depend on neither.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.without_spark import Cluster
from tests.property.mode_programs import PROGRAMS, UNSTAMPED
from tests.property.mode_windows import STAMPED, Record

from penstock._engine.runtime import results
from penstock.common import Configuration
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.testing.in_process import Chaos

SORT_BYTES = ("1 b", "2 kb", "128 mb")


@dataclass(frozen=True)
class Case:
    """A program, its input, and the circumstances."""

    records: list[Record]
    stamped: bool
    parallelism: int
    sort: str
    combine: bool
    #: The bytes of input for each subtask of a vertex that says nothing of its parallelism.
    volume: str
    file_bytes: int
    retries: float
    seed: int
    program: str = ""


RECORD = st.tuples(st.integers(0, 5), st.integers(0, 60), st.integers(0, 99))
CASES = st.builds(
    Case,
    records=st.lists(RECORD, max_size=60),
    stamped=st.booleans(),
    parallelism=st.integers(1, 3),
    sort=st.sampled_from(SORT_BYTES),
    combine=st.booleans(),
    volume=st.sampled_from(["1 b", "150 b", "16 mb"]),
    file_bytes=st.sampled_from([1, 200, 1 << 20]),
    retries=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 99),
)


def run(case: Case, mode: str) -> list[Any]:
    configuration = Configuration.from_dict(
        {
            "execution.sorted-inputs.memory": case.sort,
            "penstock.batch.combine": str(case.combine).lower(),
            "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task": case.volume,
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(case.parallelism).set_runtime_mode(RuntimeExecutionMode[mode])
    stream: Any = env.from_collection(case.records)
    if case.stamped or case.program not in UNSTAMPED:
        stream = stream.assign_timestamps_and_watermarks(STAMPED)
    return list(PROGRAMS[case.program][0](stream.rebalance()).execute_and_collect())


def final(results: list[Any]) -> dict[Any, Any]:
    """Return the last result of each key."""
    return {result[0]: result[1] for result in results}


@pytest.mark.parametrize("program", sorted(PROGRAMS))
@settings(max_examples=max(3, settings().max_examples // 20), deadline=None, suppress_health_check=list(HealthCheck))
@given(case=CASES)
@pytest.mark.behaviour(155)
def test_both_modes_give_the_final_result_of_plain_python(program: str, case: Case) -> None:
    case = replace(case, program=program)
    place = Path(tempfile.mkdtemp())
    patch = pytest.MonkeyPatch()
    try:
        patch.setattr(results, "FILE_BYTES", case.file_bytes)
        Cluster(place, chaos=Chaos(retries=case.retries), seed=case.seed).patch(patch)
        expected = PROGRAMS[case.program][1](case.records)
        batch = run(case, "BATCH")
        assert final(batch) == expected
        assert len(batch) == len(expected)  # no updates
        assert final(run(case, "STREAMING")) == expected
    finally:
        patch.undo()
        shutil.rmtree(place)
