"""The places that built-in connectors name, which a job on a cluster tries before it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.common.serialization import Encoder
from penstock.datastream.connectors.base import Sink
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.datastream.connectors.hybrid_source import HybridSource
from penstock.datastream.connectors.iceberg import IcebergSink, IcebergSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource

if TYPE_CHECKING:
    from pathlib import Path


def lines(*paths: str) -> FileSource:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), *paths).build()


def test_files_are_named_and_globs_by_the_folder_in_which_they_begin(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").touch()  # an existing path is no glob
    named = lines("/in", "/in/2024-*/x.csv", "/in/2024-*/y.csv", "s3://bucket/in/?.csv", f"{tmp_path}/a[1].txt")
    assert named.storage_paths() == ("/in", "s3://bucket/in", f"{tmp_path}/a[1].txt")


def test_hybrid_source_names_those_of_its_sources_that_are_known() -> None:
    source = HybridSource.builder(lines("/one")).add_source(lines("/two")).build()
    assert source.storage_paths() == ("/one", "/two")


def test_sinks_name_their_folder_and_others_none() -> None:
    sink = FileSink.for_row_format("/out", Encoder.simple_string_encoder()).build()
    assert sink.storage_paths() == ("/out",)
    assert Sink[int].from_function(print).storage_paths() == ()
    assert NumberSequenceSource(0, 1).storage_paths() == ()


def test_tables_name_their_folder_and_an_iceberg_catalog_its_warehouse(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    assert DeltaSink(f"{tmp_path}/items", schema).storage_paths() == (f"{tmp_path}/items",)
    assert DeltaSink("s3://bucket/items", schema).storage_paths() == ()
    for warehouse, paths in (("file:///data/t", ("/data/t",)), ("/data/t", ("/data/t",)), ("s3://b/t", ()), (None, ())):
        catalog = {"type": "rest", "uri": "http://catalog"} | ({} if warehouse is None else {"warehouse": warehouse})
        assert IcebergSink("shop.items", catalog).storage_paths() == paths
        assert IcebergSource("shop.items", catalog).storage_paths() == paths
