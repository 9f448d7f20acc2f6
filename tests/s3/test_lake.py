"""Tables in S3, reached by the job's keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.connectors.catalogs import NAME, start_threads

from penstock._files.job_options import reaching_stores_by
from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.datastream.connectors.iceberg import IcebergSink, IcebergSource
from penstock.testing.sink_contract import SinkRun
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = [{"id": number, "name": f"n{number}"} for number in range(6)]


def append(sink: Any) -> None:
    """Write two checkpoints, and commit the second one twice."""
    run = SinkRun(sink)
    run.commit(run.epoch(ROWS[:3]))
    last = run.epoch(ROWS[3:], end_of_input=True)
    run.commit(last)
    run.commit(last)


def read(source: Any) -> list[dict[str, Any]]:
    return sorted(SourceRun(source, 2).run_to_end(), key=lambda row: row["id"])


def test_a_delta_table_is_written_and_read_by_the_keys_of_the_job(server: S3Server, bucket: str) -> None:
    table = f"s3://{bucket}/tables/items"
    with reaching_stores_by(server.settings):
        append(DeltaSink(table, SCHEMA))
        assert read(DeltaSource(table)) == ROWS
    options = {**server.variables, "AWS_ALLOW_HTTP": "true"}
    assert DeltaTable(table, storage_options=options).version() == 2


def test_an_iceberg_table_is_written_and_read_by_the_keys_of_the_job(
    server: S3Server, bucket: str, tmp_path: Path
) -> None:
    start_threads()
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"s3://{bucket}/tables"}
    with reaching_stores_by(server.settings):
        append(IcebergSink(NAME, catalog, SCHEMA))
        assert read(IcebergSource(NAME, catalog)) == ROWS
