"""Tables of Delta Lake and Iceberg, by their sinks and sources."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path as File
from typing import Any

import pyarrow as pa
from tests.values.batches import NUMBER, batched
from tests.values.paths.columnar_files import schema_of
from tests.values.table import Path
from tests.values.values import FIELD

from penstock.datastream.connectors.delta import DeltaSink, DeltaSource
from penstock.datastream.connectors.iceberg import IcebergSink, IcebergSource
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for
from penstock.testing.source_contract import SourceRun

_numbers = itertools.count()


class _Lake:
    """A table, written and read by connectors.

    Args:
        folder: Its folder, which goes with it.
        sink: The sink.
        source: Makes the source.
    """

    def __init__(self, folder: File, sink: Any, source: Any) -> None:
        self._folder, self._sink, self._source = folder, sink, source
        self._committer = sink.create_global_committer(TestCommitterContext())
        self._writer = self._new_writer()
        self._staged: list[Any] = []

    def _new_writer(self) -> Any:
        return self._sink.create_writer(TestWriterContext(attempt_token=f"token{next(_numbers)}"))

    def write(self, records: list[dict[str, Any]]) -> None:
        try:
            self._writer.write_all(records)
            self._writer.flush(end_of_input=False)
            self._staged += self._writer.prepare_commit()
        except Exception:
            self._writer.close()
            self._writer = self._new_writer()
            raise

    def read(self) -> list[dict[str, Any]]:
        if not self._staged:
            return []
        self._committer.commit(requests_for(self._staged))
        return SourceRun(self._source()).run_to_end()

    def close(self) -> None:
        self._writer.close()
        self._committer.close()
        shutil.rmtree(self._folder)


def _schema(kind: Any) -> Any:
    return pa.schema([(NUMBER, pa.int64()), (FIELD, kind)])


def _delta(kind: Any) -> _Lake:
    folder = File(tempfile.mkdtemp())
    sink = DeltaSink(str(folder / "t"), _schema(kind))
    return _Lake(folder, sink, lambda: DeltaSource(str(folder / "t")))


def _iceberg(kind: Any) -> _Lake:
    folder = File(tempfile.mkdtemp())
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/tables"}
    sink = IcebergSink("shop.t", catalog, _schema(kind))
    return _Lake(folder, sink, lambda: IcebergSource("shop.t", catalog))


def _type(value: Any) -> Any:
    return schema_of(value).field(FIELD).type


PATHS = (
    Path("Delta", "Tables of Delta Lake, by `DeltaSink` and `DeltaSource`.", batched(_type, _delta)),
    Path("Iceberg", "Tables of Iceberg, by `IcebergSink` and `IcebergSource`.", batched(_type, _iceberg)),
)
