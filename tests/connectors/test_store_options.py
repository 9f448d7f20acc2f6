"""File sources and sinks on S3 reach it by the keys of their job, as its checkpoints do: without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import obstore
import pytest
from obstore.store import MemoryStore

from penstock._connectors.files import stores
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.storage.opening import open_storage
from penstock._files import stores as opening
from penstock._files.job_options import reaching_stores_by, store_options
from penstock.common import Configuration, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.errors import PathError
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYS = {
    "s3.endpoint": "http://minio:9000",
    "s3.region": "eu-west-1",
    "s3.access-key": "penstock",
    "s3.secret-key": "hush",
    "s3.path.style.access": "true",
}


class Servers:
    """Servers by their endpoint, each with one bucket; takes the place of the library's function."""

    def __init__(self) -> None:
        self.stores: dict[str, MemoryStore] = {}
        self.asked: list[dict[str, Any]] = []

    def __call__(self, root: str, **how: Any) -> MemoryStore:
        self.asked.append(how)
        return self.of(how["config"]["aws_endpoint"])

    def of(self, endpoint: str) -> MemoryStore:
        return self.stores.setdefault(endpoint, MemoryStore())

    def lines(self, endpoint: str, below: str) -> list[str]:
        store = self.of(endpoint)
        paths = [meta["path"] for batch in obstore.list(store, below) for meta in batch]
        return sorted(line for path in paths for line in bytes(obstore.get(store, path).bytes()).decode().split())


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    servers = Servers()
    monkeypatch.setattr(opening, "from_url", servers)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_ALLOW_HTTP"):
        monkeypatch.delenv(name, raising=False)
    stores._opened.cache_clear()
    yield servers
    stores._opened.cache_clear()


def start(place: Path, endpoint: str, *, fails: bool = False) -> Any:
    """Start a job from one prefix of a bucket to another one, with real threads."""

    def each(line: str) -> str:
        if fails:
            raise ValueError(line)
        return line.upper()

    configuration = Configuration.from_dict({**KEYS, "s3.endpoint": endpoint, "restart-strategy.type": "none"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "s3://bucket/in").build()
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").map(each)
    lines.sink_to(FileSink.for_row_format("s3://bucket/out", Encoder.simple_string_encoder()).build())
    environment = RuntimeEnvironment(InProcessEpochRunner(workers=2), 2, place / "state")
    driver, loop = assemble(build_job_graph(env._stream_graph("s3")), configuration, None, environment)
    driver.start(loop)
    return driver


def test_jobs_side_by_side_reach_each_their_own_server(servers: Servers, tmp_path: Path) -> None:
    endpoints = [f"http://minio-{number}:9000" for number in range(2)]
    for number, endpoint in enumerate(endpoints):
        for part in range(3):
            obstore.put(servers.of(endpoint), f"in/{part}", f"a{number}{part}\nb{number}{part}\n".encode())
    drivers = [start(tmp_path / str(number), endpoint) for number, endpoint in enumerate(endpoints)]
    for driver in drivers:
        driver.result.result(60)
    for number, endpoint in enumerate(endpoints):
        assert servers.lines(endpoint, "out") == sorted(f"{name}{number}{part}" for name in "AB" for part in range(3))
    assert {how["credential_provider"]()["secret_access_key"] for how in servers.asked} == {"hush"}
    assert all(how["config"]["aws_region"] == "eu-west-1" for how in servers.asked)
    assert all(how["client_options"]["allow_http"] for how in servers.asked)
    assert dict(store_options()) == {}


def test_what_a_failed_job_has_staged_is_deleted_from_its_own_server(servers: Servers, tmp_path: Path) -> None:
    obstore.put(servers.of(KEYS["s3.endpoint"]), "in/1", b"one\n")
    error = start(tmp_path, KEYS["s3.endpoint"], fails=True).result.exception(60)
    assert "ValueError" in str(error)
    assert list(servers.stores) == [KEYS["s3.endpoint"]]
    assert servers.lines(KEYS["s3.endpoint"], "out") == []


def test_keys_that_contradict_each_other_are_told_with_the_path(servers: Servers) -> None:
    with reaching_stores_by({"s3.access-key": "half"}), pytest.raises(PathError, match=r"s3\.secret-key") as caught:
        stores.store_of("s3://bucket")
    assert caught.value.path == "s3://bucket"
    assert servers.asked == []


def test_other_stores_and_other_keys_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(opening, "from_url", lambda _, **how: asked.append(how))
    stores._opened.cache_clear()
    with reaching_stores_by({**KEYS, "penstock.state.private": "true"}):
        stores.store_of("gs://bucket")
    with reaching_stores_by({"penstock.state.private": "true"}):
        stores.store_of("s3://bucket")
    stores._opened.cache_clear()
    assert [set(how) for how in asked] == [{"client_options", "retry_config"}] * 2


@pytest.mark.parametrize(("scheme", "prefix"), [("s3", "AWS_"), ("gs", "GOOGLE_"), ("az", "AZURE_")])
def test_checkpoints_and_files_reach_a_store_in_one_way(
    monkeypatch: pytest.MonkeyPatch, scheme: str, prefix: str
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(opening, "from_url", lambda _, **how: asked.append(how))
    monkeypatch.setenv(f"{prefix}PROXY_URL", "http://proxy:3128")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    stores._opened.cache_clear()
    with reaching_stores_by({"s3.region": "eu-west-1"}):
        stores.store_of(f"{scheme}://bucket")
    stores._opened.cache_clear()
    open_storage(f"{scheme}://bucket/checkpoints", {"s3.region": "eu-west-1"})
    file, checkpoint = asked
    assert file.get("config") == checkpoint.get("config")
    for how in asked:
        assert how["client_options"]["proxy_url"] == "http://proxy:3128"
        assert how["client_options"].get("allow_http") is (True if scheme == "s3" else None)
