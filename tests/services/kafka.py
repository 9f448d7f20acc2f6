"""A real Kafka broker on this machine, of one node, from Maven Central's jars; ``make tools`` gets them.

One server serves all tests of a run: the first process that needs it starts it, and the last one that is done ends it.
It has four listeners: plain; plain at the address of a proxy that a test may start; SASL over TLS; the controller's.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import tempfile
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.services.cache import kept, run
from tests.services.maven import fetch
from tests.services.process import ServerProcess, free_port
from tests.services.shared import shared

if TYPE_CHECKING:
    from collections.abc import Generator

_VERSION: Final = "4.3.0"
_ARTIFACTS: Final = (
    ("org.apache.kafka", "kafka_2.13", _VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),  # without one the broker logs nothing
)
_DIGEST: Final = "334f3559b7094cc60a6579054e2529d9c5cfbf3f6aacccdad3b7831e31449338"
USER, PASSWORD = "writer", "quite-secret-7"


def why_missing() -> str | None:
    """Return what this machine lacks; None where it has all."""
    lacking = [program for program in ("java", "mvn") if shutil.which(program) is None]
    return f"the Kafka server of the tests needs {' and '.join(lacking)} (Java 17 and Maven)" if lacking else None


def jars() -> Path:
    """Return the directory of the broker's jars, which are fetched now if need be: 120 MB."""
    return kept(f"kafka-{_VERSION}", partial(fetch, "Kafka's jars", _ARTIFACTS, _DIGEST))


class KafkaServer:
    """One broker and controller on loopback.

    Args:
        place: Its directory; a new one if left out, which goes with it.
        settings: Properties of the broker that differ.
    """

    def __init__(self, place: Path | None = None, settings: dict[str, Any] | None = None) -> None:
        self._jars = jars()
        self.place = place or Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
        self.place.mkdir(exist_ok=True)
        self._settings = settings or {}
        self._controller, self.port, self.proxied_port, self.sasl_port = (free_port() for _ in range(4))
        self.proxy_port = free_port()
        self.process = ServerProcess("The Kafka server", self.place)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def let_go(self) -> dict[str, Any]:
        """Leave it to others to end it, by its number; return what they need to know."""
        ports = {"proxied_port": self.proxied_port, "proxy_port": self.proxy_port, "sasl_port": self.sasl_port}
        return {"bootstrap": self.bootstrap, "pid": self.process.let_go(), "place": str(self.place), **ports}

    def _java(self, heap_mb: int, *arguments: str | Path) -> list[str | Path]:
        options = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
        memory = (f"-Xmx{heap_mb}m", f"-Djava.io.tmpdir={self.place}", "-Djava.awt.headless=true")
        log = f"-Dlog4j2.configurationFile={self.place}/log4j2.properties"
        return ["java", *memory, *options, log, "-cp", self._jars / "*", *arguments]

    def _write(self) -> None:
        tls = _certificate(self.place)
        listeners = {
            "PLAINTEXT": self.port,
            "PROXIED": self.proxied_port,
            "SASLTLS": self.sasl_port,
            "CONTROLLER": self._controller,
        }
        shown = {"PLAINTEXT": self.port, "PROXIED": self.proxy_port, "SASLTLS": self.sasl_port}
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        properties = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in shown.items()),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,SASLTLS:SASL_SSL,CONTROLLER:PLAINTEXT"
            ),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.sasltls.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasltls.plain.sasl.jaas.config": f'{plain} user_{USER}="{PASSWORD}";',
            "listener.name.sasltls.ssl.keystore.type": "PEM",
            "listener.name.sasltls.ssl.keystore.location": tls,
            "log.dirs": self.place / "data",
            # One node: each internal topic has one copy, and few partitions, as each is files.
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            # One that was killed is let back in when its old session ends, by default after 9 s.
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 2000,
            "auto.create.topics.enable": "false",
            "num.network.threads": 1,
            "num.io.threads": 2,
            "background.threads": 1,
            "log.cleaner.enable": "false",
            "log.retention.ms": -1,  # times of tests are long past
            **self._settings,
        }
        (self.place / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        (self.place / "log4j2.properties").write_text(
            "status=error\nappender.c.type=Console\nappender.c.name=c\nappender.c.layout.type=PatternLayout\n"
            "appender.c.layout.pattern=%d %p %m (%c{1})%n\nrootLogger.level=warn\nrootLogger.appenderRef.c.ref=c\n"
            "logger.s.name=kafka.server.KafkaRaftServer\nlogger.s.level=info\n"
        )

    def start(self) -> None:
        """Start it, or start it again, and wait until it answers."""
        if not (self.place / "data").exists():
            self._write()
            # Its first letter is not the "-" that a number may have: the tool would take it for an option.
            cluster = "K" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
            tool = ("kafka.tools.StorageTool", "format", "-t", cluster, "-c", self.place / "server.properties")
            run("Making Kafka's directory", *self._java(128, *tool))
        log = self.process.log
        before = log.stat().st_size if log.exists() else 0
        command = self._java(384, "kafka.Kafka", self.place / "server.properties")
        self.process.start(command, lambda: b"Kafka Server started" in log.read_bytes()[before:])

    def kill(self) -> None:
        """Kill it with SIGKILL, as a crash would."""
        self.process.end()


@contextlib.contextmanager
def new_server() -> Generator[KafkaServer]:
    """Start a broker of its own, and remove it with its directory."""
    server = KafkaServer()
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.place)


def _certificate(place: Path) -> Path:
    """Make a key and a certificate of its own for loopback, and return the file with both."""
    key, certificate, both = place / "key.pem", place / "certificate.pem", place / "server.pem"
    subject = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", key, "-out", certificate, "-days", "30")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run("Making a certificate", "openssl", "req", "-x509", *kind, *files, *subject)
    both.write_text(key.read_text() + certificate.read_text())
    return both


class SharedServer:
    """The server of a run of tests, as its processes see it."""

    def __init__(self, address: dict[str, Any]) -> None:
        self.bootstrap: str = address["bootstrap"]
        self.proxied_port: int = address["proxied_port"]
        self.proxy_port: int = address["proxy_port"]
        self.sasl_bootstrap = f"127.0.0.1:{address['sasl_port']}"
        self.certificate = Path(address["place"]) / "certificate.pem"


@contextlib.contextmanager
def shared_server() -> Generator[SharedServer]:
    """Have the server of this run of tests."""
    with shared("kafka", _started) as found:
        yield SharedServer(found)


def _started(place: Path) -> dict[str, Any]:
    server = KafkaServer(place)
    server.start()
    return server.let_go()
