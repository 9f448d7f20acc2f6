"""The file connectors against an S3 server."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from obstore.exceptions import GenericError
from pyarrow.fs import S3FileSystem
from tests.services.proxy import UNAVAILABLE, Proxy

from penstock._connectors.files import opening, stores
from penstock._connectors.files.object_store import ObjectFileSystem
from penstock.common.serialization import Encoder
from penstock.common.types import Row
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from penstock.datastream.formats.avro import AvroFormat
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.datastream.formats.parquet import ParquetFormat
from penstock.testing.sink_contract import SinkRun
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3

MEBI = 1 << 20


@pytest.fixture(autouse=True)
def _reached(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {**server.variables, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    stores._opened.cache_clear()
    yield
    stores._opened.cache_clear()


CSV = CsvReaderFormat.for_schema(CsvSchema.builder().add_string_column("a").build())


@pytest.mark.parametrize(
    ("file_format", "content", "records"),
    [
        (StreamFormat.text_line_format(), b"x\ny\n", ["x", "y"]),
        (StreamFormat.text_line_format("utf-16"), "x\ny\n".encode("utf-16"), ["x", "y"]),
        (CSV, b"x\ny\n", [Row(a="x"), Row(a="y")]),
        (AvroFormat(), None, []),
        (ParquetFormat(), None, []),
    ],
    ids=["lines", "UTF-16", "CSV", "Avro", "Parquet"],
)
@pytest.mark.parametrize("path", ["in", "in/*", "in/empty"])
def test_folders_that_were_made_in_a_store_are_no_files(
    server: S3Server, bucket: str, *, file_format: Any, content: bytes | None, records: list[Any], path: str
) -> None:
    keys = server.variables
    store = S3FileSystem(
        access_key=keys["AWS_ACCESS_KEY_ID"],
        secret_key=keys["AWS_SECRET_ACCESS_KEY"],
        endpoint_override=keys["AWS_ENDPOINT_URL"],
        region=keys["AWS_REGION"],
        scheme="http",
    )
    for folder in ("in", "in/sub", "in/empty"):  # as the consoles of stores do, Hadoop and Arrow
        store.create_dir(f"{bucket}/{folder}")
    if content is not None:
        with store.open_output_stream(f"{bucket}/in/sub/a.csv") as file:
            file.write(content)
    begin = FileSource.for_bulk_file_format if content is None else FileSource.for_record_stream_format
    source = begin(file_format, f"s3://{bucket}/{path}").build()
    assert SourceRun(source).run_to_end() == ([] if path == "in/empty" else records)


@pytest.mark.parametrize("segments", [1, 2])
def test_what_is_too_large_for_one_copy_is_published_in_parts(
    server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, segments: int
) -> None:
    filesystem = ObjectFileSystem(largest_copy=6 * MEBI)

    def same(_: str) -> ObjectFileSystem:
        return filesystem

    monkeypatch.setattr(opening, "filesystem_of", same)
    content = bytes(range(256)) * 4096 * 20  # 20 MiB: more than one part of an upload
    staged = [f"s3://{bucket}/out/.s{number}" for number in range(segments)]
    for path in staged:
        stream = filesystem.create(path)
        stream.write(content)
        filesystem.finish(path, stream)
    target = f"s3://{bucket}/out/part-0"
    assert filesystem.publish(staged, target)
    assert server.objects(bucket)["out/part-0"] == content * segments
    assert not filesystem.publish(staged, target)


#: What a store copies in one request, and what goes through this process; both end with a request that takes long.
WAYS = pytest.mark.parametrize("largest_copy", [12 * MEBI, 0], ids=["copied", "in parts"])


def _is_last_request(head: str) -> bool:
    line = head.partition("\r\n")[0]
    return "x-amz-copy-source" in head.lower() or (line.startswith("POST") and "uploadId=" in line)


@pytest.fixture
def staged(server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, str]]:
    """A store with half a second for each request, and two for 12 MiB; and a staged object of that size in it."""
    monkeypatch.setattr(stores, "_USUAL_S", 0.5)
    monkeypatch.setattr(stores, "_SLOWEST_BYTES", 8 * MEBI)
    with Proxy(server.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        obstore.put(server.bucket(bucket), "out/.staged", bytes(12 * MEBI))
        yield proxy, f"s3://{bucket}/out"


@WAYS
def test_a_store_has_the_time_that_a_large_object_takes(staged: tuple[Proxy, str], largest_copy: int) -> None:
    proxy, place = staged
    proxy.hold(_is_last_request, 1)
    assert ObjectFileSystem(largest_copy).publish([f"{place}/.staged"], f"{place}/part")
    assert len(proxy.held) == 1  # and was not asked again


@WAYS
def test_an_object_is_published_whose_answer_was_lost(staged: tuple[Proxy, str], largest_copy: int) -> None:
    proxy, place = staged
    proxy.lose(lambda head: not proxy.lost and _is_last_request(head), UNAVAILABLE)
    filesystem = ObjectFileSystem(largest_copy)
    assert filesystem.publish([f"{place}/.staged"], f"{place}/part")
    assert filesystem.size_of(f"{place}/part") == 12 * MEBI
    assert len(proxy.lost) == 1


def test_a_part_whose_answer_comes_too_late_is_sent_again(staged: tuple[Proxy, str]) -> None:
    proxy, place = staged
    proxy.hold(lambda head: not proxy.held and head.startswith("PUT") and "partNumber=" in head, 2.2)
    assert ObjectFileSystem(0).publish([f"{place}/.staged"], f"{place}/part")
    assert len(proxy.held) == 1
    assert ObjectFileSystem().size_of(f"{place}/part") == 12 * MEBI


@pytest.mark.parametrize("name", ["AWS_TIMEOUT", "AWS_CONNECT_TIMEOUT"])
def test_what_the_environment_says_of_connections_counts_for_large_objects(
    bucket: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "soon")
    with pytest.raises(GenericError, match='failed to parse "soon" as Duration'):
        stores.store_of(f"s3://{bucket}", 1 << 30)


#: Publishes an object that the store may not copy, and prints by how many MiB memory has grown, and the longest time in
#: ms in which another thread stood still.
PUBLISH = """
import resource, sys, threading, time
from penstock._connectors.files.object_store import ObjectFileSystem
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
gaps, done = [0.0], threading.Event()
def beat():
    last = time.monotonic()
    while not done.wait(0.01):
        gaps.append(time.monotonic() - last)
        last = time.monotonic()
filesystem, before = ObjectFileSystem(largest_copy=0), peak()
beating = threading.Thread(target=beat)
beating.start()
assert filesystem.publish([f"{sys.argv[1]}/.staged"], f"{sys.argv[1]}/part")
done.set()
beating.join()
print(peak() - before, int(max(gaps) * 1000))
"""


def test_what_goes_through_the_driver_takes_little_memory_and_no_other_threads_time(
    server: S3Server, bucket: str
) -> None:
    size = 192 * MEBI
    obstore.put(stores.store_of(f"s3://{bucket}"), ".staged", bytes(size))
    command = [sys.executable, "-c", PUBLISH, f"s3://{bucket}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    grown, gap_ms = map(int, said.split())
    assert grown < size // MEBI * 3 // 4  # the parts of an upload that wait, 8 MiB each
    assert gap_ms < 2000
    assert obstore.head(stores.store_of(f"s3://{bucket}"), "part")["size"] == size


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_records_of_many_buckets_are_there_once_by_each_spelling(server: S3Server, bucket: str, scheme: str) -> None:
    class ByNumber(BucketAssigner):
        def get_bucket_id(self, element: str, timestamp: int | None, processing_time_ms: int) -> str:
            return f"k=a%2F b{int(element) % 5}"

    place = f"{scheme}://{bucket}//out/"
    builder = FileSink.for_row_format(place, Encoder.simple_string_encoder()).with_bucket_assigner(ByNumber())
    run = SinkRun(builder.with_max_open_buckets(2).build())
    run.commit(run.epoch([str(number) for number in range(20)], end_of_input=True))
    run.close()
    assert {key.rpartition("/")[0] for key in server.objects(bucket)} == {f"out/k=a%2F b{n}" for n in range(5)}
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), place, f"s3://{bucket}/out").build()
    assert sorted(map(int, SourceRun(source).run_to_end())) == list(range(20))
