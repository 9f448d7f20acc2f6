"""Small programs in PyFlink's style, for what its examples and the conformance programs leave out, in both modes.

They run without Spark. What they give was compared with PyFlink 2.3.0, which ran the same files with its own imports.
Where it gives something else, the expected records follow Flink's rules, as its Java operators do:

- ``continuous``: a timer that a trigger sets while a watermark fires others comes too late in PyFlink's worker;
- ``custom_partitions``: PyFlink asks the partitioner for a part of -1 subtasks;
- what fires in batch mode, timers and windows: in PyFlink's worker it may meet the state of the next key, or is lost.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.compat.small import state, streams, windows
from tests.kit.without_spark import Cluster

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable

#: By program: what it gives, and in batch mode where that differs, as records follow each other in order of time there.
EXPECTED: dict[str, dict[str, list[str]]] = json.loads((Path(__file__).parent / "small" / "expected.json").read_text())
#: Results that depend on the time of day.
NOT_IN_BATCH = {"processing_time_that_never_comes"}
PROGRAMS = [program for module in (state, windows, streams) for program in module.PROGRAMS]


def test_each_program_has_its_expected_records() -> None:
    assert sorted(program.__name__ for program in PROGRAMS) == sorted(EXPECTED)


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program_gives_what_flinks_rules_say(
    program: Callable[[Any], Any], mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "BATCH" and program.__name__ in NOT_IN_BATCH:
        return
    Cluster(tmp_path).patch(monkeypatch)
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.runtime-mode": mode, "parallelism.default": "1"})
    )
    with program(env).execute_and_collect() as records:
        given = sorted(map(repr, records))
    expected = EXPECTED[program.__name__]
    assert given == expected.get(mode, expected["STREAMING"])
