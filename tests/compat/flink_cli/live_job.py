"""Jobs that run in this process, without Spark, with REST over them; and a proxy that notes requests."""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
from tests.kit.driving import Driven

from penstock._engine.driver.mailbox import SystemClock
from penstock._engine.protocol.control import StopMode
from penstock._engine.rest.directories import places
from penstock._engine.rest.server import RestServer
from penstock._engine.rest.settings import RestSettings
from penstock._engine.savepoints.disposal import dispose
from penstock.common.configuration import Configuration
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, GeneratorFunction, RateLimiterStrategy
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver
    from penstock.datastream import DataStream

_numbers = itertools.count(1)


class Same(GeneratorFunction[int]):
    def map(self, value: int) -> int:
        return value


def numbers(env: StreamExecutionEnvironment, count: int | None, per_second: int) -> DataStream[int]:
    """Return the numbers from 0 on, so many and so many a second."""
    source = DataGeneratorSource(Same(), count, RateLimiterStrategy.per_second(per_second))
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def endless(env: StreamExecutionEnvironment) -> None:
    """Make a job that runs for ever."""
    sums = numbers(env, None, 200).key_by(lambda number: number % 5).reduce(lambda one, other: one + other)
    sums.filter(lambda _: False).print()


class Cluster:
    """A process with REST, to which jobs can be added."""

    def __init__(self, place: Path, **settings: str) -> None:
        self.place = place
        self.keys = {
            "execution.checkpointing.interval": "300 ms",
            "execution.checkpointing.dir": str(place / "checkpoints"),
            "execution.checkpointing.savepoint-dir": str(place / "savepoints"),
            "penstock.rest.registry-dir": str(place / "registry"),
            "penstock.rest.token": "none",
            "rest.port": "0",
            **settings,
        }
        self.keys = {key: value for key, value in self.keys.items() if value}
        self.server = RestServer(RestSettings.read(Configuration.from_dict(self.keys)), dispose=dispose)
        self.server.start(2)
        #: As Flink's command line takes it.
        self.at = self.server.address.removeprefix("http://")
        #: What opens the server; None where nothing is needed.
        self.token = self.server._settings.access.token
        self.headers = {"Authorization": f"Bearer {self.token}"}
        self.runners: list[InProcessEpochRunner] = []
        self.jobs: list[JobDriver] = []

    def job(self, build: Callable[[StreamExecutionEnvironment], None] = endless, **settings: str) -> JobDriver:
        """Start a job, and return once its first checkpoint has completed.

        Args:
            build: Makes the job; by default one that runs for ever.
            settings: Settings by key, beside those of the process.
        """
        configuration = Configuration.from_dict({**self.keys, **settings})
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        build(env)
        runner = InProcessEpochRunner()
        number = next(_numbers)
        driven = Driven(env, self.place / "state", runner, SystemClock(), name=f"count {number}")
        driver, loop = driven.driver, driven.loop
        completed = threading.Event()
        driver.watch.on_named.append(self.server.job_named)
        driver.watch.on_end.append(self.server.job_ended)
        driver.watch.on_end.append(lambda _: completed.set())
        loop.add_listener(self.server)
        loop.add_listener(_Completed(completed))
        self.server.add(driver, places(driver, configuration, {}))
        self.runners.append(runner)
        self.jobs.append(driver)
        driver.start(loop)
        assert completed.wait(60)
        return driver

    def savepoint(self, job: JobDriver) -> str:
        """Make a savepoint, and return its path."""
        return job.savepoint(str(self.place / "made"), StopMode.NO).result(60)

    def close(self) -> None:
        """End all jobs, and the server without waiting for clients."""
        for driver in self.jobs:
            driver.cancel()
        for driver in self.jobs:
            driver.result.exception(60)
        for runner in self.runners:
            runner.close()
        httpx.delete(f"{self.server.address}/cluster", headers=self.headers)
        self.server.close()


class _Completed:
    def __init__(self, completed: threading.Event) -> None:
        self._completed = completed

    def on_status(self, status: Any) -> None:
        pass

    def on_progress(self, progress: Any) -> None:
        self._completed.set()

    def on_failure(self, failure: Any) -> None:
        pass


@contextmanager
def recorder(address: str, requests: list[dict[str, Any]]) -> Generator[str]:
    """Stand before a server and write down what it is asked; yields the address to ask."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kept = {name.lower(): value for name, value in self.headers.items() if name.lower() in _KEPT}
            answer = httpx.request(self.command, f"{address}{self.path}", content=body, headers=kept)
            requests.append(
                {
                    "method": self.command,
                    "path": self.path,
                    "headers": kept,
                    "body": body.decode(),
                    "status": answer.status_code,
                }
            )
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers["content-type"])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the method above
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


_KEPT = {"content-type", "accept", "authorization", "expect"}
