"""A program whose package stands beside its script, on a Spark whose workers do not have this machine's folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit import brought
from tests.spark import programs

pytestmark = pytest.mark.spark

PACKAGE = """
class Point:
    def __init__(self, x):
        self.x = x

def doubled(point):
    return Point(2 * point.x)
"""

SCRIPT = """
import os
from pyspark.sql import SparkSession
from geometry.points import Point, doubled
from helpers import describe
from pathlib import Path
import what_is_brought as brought
from penstock.datastream import StreamExecutionEnvironment

conf = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    "spark.driver.memory": "1g",
}
session = SparkSession.builder.master("local-cluster[1,2,1024]").config(map=conf).getOrCreate()
env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
points = env.from_collection([Point(1), Point(2), Point(3)])
described = points.map(doubled).key_by(lambda point: point.x).map(describe)
print(sorted(described.execute_and_collect()))

exec(brought.FINDS)
brought.bring(env, Path("brought").resolve())
print(list(env.from_collection([1]).map(finds).execute_and_collect()))
session.stop()
"""


def test_modules_beside_the_script_and_what_it_brings_are_there_on_executors_of_a_cluster(tmp_path: Path) -> None:
    beside, elsewhere = tmp_path / "program", tmp_path / "elsewhere"
    (beside / "geometry").mkdir(parents=True)
    elsewhere.mkdir()
    (beside / "geometry" / "__init__.py").touch()
    (beside / "geometry" / "points.py").write_text(PACKAGE)
    (beside / "helpers.py").write_text("def describe(point):\n    return f'{point.x} on a line'\n")
    (beside / "program.py").write_text(SCRIPT)
    (beside / "what_is_brought.py").write_text(Path(brought.__file__).read_text())
    brought.make(elsewhere / "brought")
    command = [sys.executable, str(beside / "program.py")]
    env = programs.java_environment(tmp_path) | {"PYSPARK_PYTHON": sys.executable}
    result = subprocess.run(command, cwd=elsewhere, env=env, capture_output=True, text=True, timeout=400, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"['2 on a line', '4 on a line', '6 on a line']\n[{brought.FOUND}]\n"
