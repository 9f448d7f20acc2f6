"""A real Elasticsearch or OpenSearch server on this machine, of one node, from Maven Central's jars.

Maven Central has no distribution that could be unpacked, but the jars of the server. A small class of Java starts the
server's own node with its HTTP module; there are no users and no TLS in it. ``make tools`` gets and compiles all of it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.services.cache import kept, run
from tests.services.maven import fetch
from tests.services.process import ServerProcess, free_port
from tests.services.shared import shared

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from pathlib import Path


class Engine(NamedTuple):
    """A server's name, which is also the last part of its group and package in Java."""

    name: str
    version: str
    log4j: str
    digest: str


ELASTICSEARCH: Final = Engine(
    "elasticsearch", "7.17.27", "2.17.1", "8f7c78f28944bc8bf0c12b74981c165f10ba6931216461872207d0fa6f17fc94"
)
OPENSEARCH: Final = Engine(
    "opensearch", "2.19.1", "2.21.0", "a9fa094d79de45e2a6fdc753d3565318c195f09815a9ef449b6d1f06f9bbbb5a"
)

_LAUNCHER: Final = """
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import PACKAGE.common.settings.Settings;
import PACKAGE.env.Environment;
import PACKAGE.node.InternalSettingsPreparer;
import PACKAGE.node.Node;
import PACKAGE.transport.Netty4Plugin;

public class Launcher extends Node {
    Launcher(Environment environment) {
        super(environment, List.of(Netty4Plugin.class), false);
    }

    public static void main(String[] settings) throws Exception {
        Settings.Builder builder = Settings.builder();
        for (String setting : settings) {
            builder.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        }
        Path config = Path.of(builder.get("path.home"), "config");
        Files.createDirectories(config);
        Settings all = builder.build();
        new Launcher(InternalSettingsPreparer.prepareEnvironment(all, Map.of(), config, () -> "tests")).start();
        Thread.currentThread().join();
    }
}
"""


def why_missing() -> str | None:
    """Return what this machine lacks; None where it has all."""
    lacking = [program for program in ("java", "javac", "mvn") if shutil.which(program) is None]
    return f"the search servers of the tests need {' and '.join(lacking)} (a JDK 17 and Maven)" if lacking else None


def classes(engine: Engine) -> Path:
    """Return the directory of a server's jars and of its launcher, which are got now if need be: 50 MB."""
    source = _LAUNCHER.replace("PACKAGE", f"org.{engine.name}")
    tag = hashlib.sha256(source.encode()).hexdigest()[:8]
    return kept(f"{engine.name}-{engine.version}-{tag}", lambda place: _make(engine, source, place))


def _make(engine: Engine, source: str, place: Path) -> None:
    artifacts = (
        (f"org.{engine.name}", engine.name, engine.version),
        (f"org.{engine.name}.plugin", "transport-netty4-client", engine.version),
        ("org.apache.logging.log4j", "log4j-core", engine.log4j),
    )
    fetch(f"the jars of {engine.name}", artifacts, engine.digest, place)
    launcher = place / "Launcher.java"
    launcher.write_text(source)
    run("Compiling a launcher", "javac", "-nowarn", "-d", place, "-cp", place / "*", launcher)


class SearchServer:
    """One node on loopback, in a directory of its own; a restart keeps its port and its data.

    Args:
        engine: Which server.
        place: The directory.
        port: The port; by default a free one.
    """

    def __init__(self, engine: Engine, place: Path, port: int | None = None) -> None:
        self._engine, self._classes, self._place = engine, classes(engine), place
        self._place.mkdir(parents=True, exist_ok=True)
        self.port, self._transport = port or free_port(), free_port()
        self._process = ServerProcess(engine.name, place)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, or start it again, and wait until it answers."""
        settings: dict[str, object] = {
            "path.home": self._place,
            "path.data": self._place / "data",
            "path.logs": self._place / "logs",
            "node.name": "tests",
            "cluster.name": f"tests-{self.port}",
            "network.host": "127.0.0.1",
            "http.port": self.port,
            "transport.port": self._transport,
            "discovery.type": "single-node",
            "http.type": "netty4",
            "transport.type": "netty4",
            "http.max_content_length": "1mb",  # a larger request is refused
            "cluster.routing.allocation.disk.threshold_enabled": "false",  # a full disk of this machine locks no index
            "node.processors": 2,
        }
        log4j = self._place / "log4j2.properties"
        log4j.write_text(
            "status=error\nappender.c.type=Console\nappender.c.name=c\nappender.c.layout.type=PatternLayout\n"
            "appender.c.layout.pattern=%d %p %m (%c{1})%n\nrootLogger.level=warn\nrootLogger.appenderRef.c.ref=c\n"
        )
        options = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
        more = ("-Dio.netty.noUnsafe=true", "-Dlog4j2.disable.jmx=true", f"-Dlog4j2.configurationFile={log4j}")
        where = (f"-Djava.io.tmpdir={self._place}", "-cp", f"{self._classes}:{self._classes}/*")
        words = (f"{key}={value}" for key, value in settings.items())
        self._process.start(["java", *options, *more, *where, "Launcher", *words], self._answers)

    def _answers(self) -> bool:
        try:
            Cluster(self.url).ask("GET", "/_cluster/health?wait_for_status=yellow&timeout=1s")
        except (OSError, URLError):
            return False
        return True

    def kill(self) -> None:
        """Kill it with SIGKILL, as a crash would."""
        self._process.end()

    def let_go(self) -> dict[str, Any]:
        """Leave it to others to end it, by its number; return what they need to know."""
        return {"url": self.url, "pid": self._process.let_go()}


class Cluster:
    """Looks into a cluster, and makes indices in it.

    Args:
        url: Its address.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, content: object = None) -> Any:
        """Return the answer to a request."""
        body = None if content is None else json.dumps(content).encode()
        request = Request(self.url + path, body, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")

    def make(self, index: str, **fields: str) -> None:
        """Make an index with one shard and fields of types; other fields are refused."""
        properties = {name: {"type": kind} for name, kind in fields.items()}
        mappings = {"dynamic": "strict", "properties": properties} if fields else {}
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        self.ask("PUT", f"/{index}", {"settings": settings, "mappings": mappings})

    def documents(self, index: str) -> dict[str, dict[str, Any]]:
        """Return the documents of an index by their ids; none of an index that does not exist."""
        self.ask("POST", f"/{index}/_refresh?ignore_unavailable=true")
        path = f"/{index}/_search?size=10000&ignore_unavailable=true"
        hits = self.ask("GET", path)["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in hits}

    def delete(self, indices: Iterable[str]) -> None:
        """Delete indices."""
        for index in indices:
            self.ask("DELETE", f"/{index}?ignore_unavailable=true")


def shared_server(engine: Engine) -> AbstractContextManager[dict[str, Any]]:
    """Have a server of this run of tests, by its ``url``."""
    return shared(engine.name, lambda place: _started(engine, place))


def _started(engine: Engine, place: Path) -> dict[str, Any]:
    server = SearchServer(engine, place)
    server.start()
    return server.let_go()
