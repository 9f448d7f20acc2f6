from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark import programs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

JOB = """
from penstock._engine.spark.session import get_session

def doubled(batches):
    import pyarrow as pa
    for batch in batches:
        yield pa.record_batch([pa.array([2 * value for value in batch.column(0).to_pylist()])], names=["id"])

handle = get_session(1)
rows = handle.session.range(3).mapInArrow(doubled, "id long").collect()
print([row.id for row in rows], handle.session._jvm.System.getProperty("java.version").split(".")[0])
"""


def test_job_runs_on_a_machine_without_java_and_prints_nothing_else(tmp_path: Path) -> None:
    printed, errors = programs.output(JOB, programs.environment(tmp_path))
    assert printed == "[0, 2, 4] 21\n"
    assert errors == ""
    (user_directory,) = tmp_path.glob("penstock-*")
    assert [path.name for path in user_directory.iterdir()] == ["logs"], "the run directory stays behind"
