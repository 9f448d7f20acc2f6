"""States of savepoints as Spark DataFrames, and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.savepoint_package.roads import KEYS

from penstock.datastream.time_domain import TimeDomain
from penstock.savepoint import KeyedEntry, Savepoint, SavepointWriter

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.spark.session import SparkHandle

pytestmark = pytest.mark.spark

PROGRAM = """
import json
from dataclasses import dataclass
from pyspark.sql import SparkSession
from penstock._engine.spark.session import get_session
from penstock.savepoint import Savepoint, SavepointWriter

@dataclass
class Account:
    owner: str
    cents: int

handle = get_session(2)
spark = handle.session
accounts = {number: Account(f"owner {number}", 100 * number) for number in range(5_000)}
first = SavepointWriter.new(parallelism=3).set_keyed_state("op", "accounts", accounts).write("first")
frame = Savepoint.open(first, classes=None).keyed_state("op", "accounts").to_spark(spark)
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
        "schema": "struct<key:bigint,value:struct<_python:string,owner:string,cents:bigint>>",
        "partitions": 3,
        "count": 5_000,
        "rows": [[number, f"owner {number}", 100 * number] for number in range(4_990, 5_000)],
        "same": True,
    }


@pytest.fixture(scope="module")
def of_all_types(tmp_path_factory: pytest.TempPathFactory) -> Savepoint:
    """An operator for each type of key: its name, a value state under it, and all other kinds under dataclasses."""
    writer = SavepointWriter.new()
    for name, key in KEYS.items():
        writer.set_keyed_state(name, "state", {key: (name, key)})
    key = KEYS["nested-dataclass"]
    writer.set_timers("timers", [(key, 10)]).set_timers("timers", [(key, 20)], TimeDomain.PROCESSING_TIME)
    writer.set_list_state("lists", "own", [key]).set_union_list_state("lists", "shared", [key, key])
    writer.set_broadcast_state("limits", "limits", {key: 1})
    for uid, kind, value in (("reduce", "window-reduce", None), ("sum", "window-aggregate", (None, 1))):
        writer.set_keyed_state(uid, "window-contents", [KeyedEntry(key, value, (0, 10))], kind=kind)
    writer.set_keyed_state("sum", "window-fired", [KeyedEntry(key, True, (0, 10))], kind="window-fired")
    return Savepoint.open(writer.write(str(tmp_path_factory.mktemp("types") / "first")), classes=None)


def texts(rows: Any) -> list[str]:
    return sorted(f"{entry!r} {type(getattr(entry, 'key', None))}" for entry in rows)


@pytest.mark.parametrize("name", KEYS)
def test_keys_and_values_come_back_from_spark_as_they_were(
    of_all_types: Savepoint, spark: SparkHandle, tmp_path: Path, name: str
) -> None:
    rows = of_all_types.keyed_state(name, "state")
    writer = SavepointWriter.new(classes=None).set_keyed_state(name, "state", rows.to_spark(spark.session))
    found = Savepoint.open(writer.write(str(tmp_path / "s")), classes=None).keyed_state(name, "state")
    assert texts(found) == texts(rows)


def test_all_kinds_of_state_come_back_from_spark_as_they_were(
    of_all_types: Savepoint, spark: SparkHandle, tmp_path: Path
) -> None:
    writer = SavepointWriter.new(classes=None)
    for uid, name in (kinds := {"reduce": "window-reduce", "sum": "window-aggregate"}).items():
        frame = of_all_types.windows(uid).to_spark(spark.session)
        writer.set_keyed_state(uid, "window-contents", frame, kind=name)
    fired = of_all_types.keyed_state("sum", "window-fired").to_spark(spark.session)
    writer.set_keyed_state("sum", "window-fired", fired, kind="window-fired")
    for domain in TimeDomain:
        writer.set_timers("timers", of_all_types.timers("timers", domain).to_spark(spark.session), domain)
    writer.set_list_state("lists", "own", of_all_types.list_state("lists", "own").to_spark(spark.session))
    writer.set_union_list_state("lists", "shared", of_all_types.list_state("lists", "shared").to_spark(spark.session))
    limits = of_all_types.broadcast_state("limits", "limits").to_spark(spark.session)
    writer.set_broadcast_state("limits", "limits", limits)
    found = Savepoint.open(writer.write(str(tmp_path / "s")), classes=None)
    for read in (
        *(lambda savepoint, uid=uid: savepoint.windows(uid) for uid in kinds),
        lambda savepoint: savepoint.keyed_state("sum", "window-fired"),
        *(lambda savepoint, domain=domain: savepoint.timers("timers", domain) for domain in TimeDomain),
        *(lambda savepoint, name=name: savepoint.list_state("lists", name) for name in ("own", "shared")),
        lambda savepoint: savepoint.broadcast_state("limits", "limits"),
    ):
        assert texts(read(found)) == texts(read(of_all_types)) != []
