"""The file connectors against an S3 server."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import obstore
import pytest

from penstock._connectors.files import object_store, opening
from penstock._connectors.files.object_store import ObjectFileSystem
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
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
    object_store._store.cache_clear()
    yield
    object_store._store.cache_clear()


@pytest.mark.parametrize("segments", [1, 2])
def test_what_is_too_large_for_one_copy_is_published_in_parts(
    server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, segments: int
) -> None:
    filesystem = ObjectFileSystem(largest_copy=6 * MEBI)
    monkeypatch.setattr(opening, "filesystem_of", lambda _: filesystem)
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
    obstore.put(object_store._store(f"s3://{bucket}"), ".staged", bytes(size))
    command = [sys.executable, "-c", PUBLISH, f"s3://{bucket}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    grown, gap_ms = map(int, said.split())
    assert grown < size // MEBI * 3 // 4  # the parts of an upload that wait, 8 MiB each
    assert gap_ms < 2000
    assert obstore.head(object_store._store(f"s3://{bucket}"), "part")["size"] == size


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
