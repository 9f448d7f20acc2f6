"""States of savepoints as Spark DataFrames, and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

PROGRAM = """
import json
from dataclasses import dataclass
from pyspark.sql import SparkSession
from penstock._engine.spark.session import get_session
from penstock.state import Savepoint, SavepointWriter

@dataclass
class Account:
    owner: str
    cents: int

handle = get_session(2)
spark = handle.session
accounts = {number: Account(f"owner {number}", 100 * number) for number in range(5_000)}
first = SavepointWriter.new(parallelism=3).set_keyed_state("op", "accounts", accounts).write("first")
frame = Savepoint.open(first).keyed_state("op", "accounts").to_spark(spark)
rows = frame.selectExpr("key", "value.owner", "value.cents").where("cents >= 499000").orderBy("key").collect()
second = SavepointWriter.new().set_keyed_state("op", "cents", frame.selectExpr("key", "value.cents as value"))
cents = {entry.key: entry.value for entry in Savepoint.open(second.write("second")).keyed_state("op", "cents")}
print(json.dumps({
    "schema": frame.schema.simpleString(), "partitions": frame.rdd.getNumPartitions(), "count": frame.count(),
    "rows": [list(row) for row in rows], "same": cents == {key: a.cents for key, a in accounts.items()},
}))
handle.stop()
"""


def test_tasks_read_the_state_and_a_frame_is_written_as_state(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200,
        env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "schema": "struct<key:bigint,value:struct<owner:string,cents:bigint>>",
        "partitions": 3,
        "count": 5_000,
        "rows": [[number, f"owner {number}", 100 * number] for number in range(4_990, 5_000)],
        "same": True,
    }
