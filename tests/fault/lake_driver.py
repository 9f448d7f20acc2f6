"""A driver whose job appends to a Delta table and an Iceberg table, and that kills itself at a point of its work.

Usage: python -m tests.fault.lake_driver DIRECTORY [--kill POINT]

Steps are the coordinator's instructions, tasks, the commits of both sinks (``commit_delta``, ``commit_iceberg``), and
what changes the tables in them (``version``, ``catalog``). All points that were passed stand in DIRECTORY/points.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from tests.connectors.catalogs import NAME, options
from tests.fault.job import SteadyRunner, assembled, numbers
from tests.fault.points import Points

from penstock._connectors.lake.delta_sink import _DeltaCommitter
from penstock._connectors.lake.iceberg_sink import _IcebergCommitter
from penstock._engine.graph.chaining import build_job_graph
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink

SCHEMA = pa.schema([("id", pa.int64())])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kill")
    given = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    rows = numbers(env).map(lambda number: {"id": number})
    rows.sink_to(DeltaSink(str(given.directory / "delta"), SCHEMA)).uid("delta")
    rows.sink_to(IcebergSink(NAME, options(given.directory / "iceberg"), SCHEMA)).uid("iceberg")
    driver, loop = assembled(build_job_graph(env._stream_graph("lake")), given.directory)
    points = Points({given.kill: partial(os.kill, os.getpid(), signal.SIGKILL)}, given.directory / "points")
    points.watch(loop)
    steps: tuple[tuple[Any, str, str], ...] = (
        (SteadyRunner, "_run_task", "task"),
        (_DeltaCommitter, "commit", "commit_delta"),
        (_IcebergCommitter, "commit", "commit_iceberg"),
        (DeltaTable, "create_write_transaction", "version"),
        (SqlCatalog, "commit_table", "catalog"),
    )
    for owner, method, name in steps:
        setattr(owner, method, points.around(getattr(owner, method), lambda *_, name=name: name))
    driver.run(loop)
    driver.result.result()


if __name__ == "__main__":
    sys.exit(main())
