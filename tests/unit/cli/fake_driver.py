"""A driver's REST server with one job, for the command: real HTTP on a port of its own, Flink's paths and fields."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from penstock._engine.processes.registry import JobRegistry, RegistryEntry, default_directory

if TYPE_CHECKING:
    from collections.abc import Generator

TRIGGER = "f" * 32
IN_PROGRESS = {"status": {"id": "IN_PROGRESS"}, "operation": None}


def completed(operation: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"id": "COMPLETED"}, "operation": operation}


@dataclass
class FakeDriver:
    """What the server says, and what it was asked."""

    job_id: str = "ab" * 16
    name: str = "prices"
    state: str = "RUNNING"
    #: What polls are answered with, in this order; the last one stays.
    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    #: What a PATCH makes of the state.
    state_after_cancel: str = "CANCELED"
    #: Whether operations are unknown to it when a client waits for them no more.
    forgets: bool = False
    token: str | None = None
    keeps_checkpoints: bool = True
    #: What the job has counted, as REST shows it.
    accumulators: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    #: What its sinks have lost, as REST shows it.
    given_up: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    recovery: dict[str, Any] = field(default_factory=dict[str, Any])
    address: str = ""
    #: (method, path, body) of all requests but GET.
    asked: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])

    def respond(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return status and content for a request."""
        base = f"/v1/jobs/{self.job_id}"
        if method != "GET":
            self.asked.append((method, path.removeprefix(base), body))
        if path == "/v1/jobs/overview":
            return 200, {"jobs": [self.row()]}
        if not path.startswith(base):
            return 404, {"errors": [f"Job {path.split('/')[3]} not found"]}
        return self._about_job(method, path.removeprefix(base))

    def _about_job(self, method: str, path: str) -> tuple[int, Any]:
        if method == "PATCH":
            self.state = self.state_after_cancel
            return 202, {}
        if method == "POST":
            return 202, {"request-id": TRIGGER}
        if method == "DELETE":
            return (404, {"errors": ["There is no such operation."]}) if self.forgets else (200, {})
        if path.endswith(TRIGGER):
            return 200, self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if path == "/checkpoints" and not self.keeps_checkpoints:
            return 404, {"errors": [f"Checkpointing has not been enabled for job {self.job_id}."]}
        contents = {
            "": self.details(),
            "/checkpoints": self.checkpoints(),
            "/exceptions": self.exceptions(),
            "/accumulators": {"user-task-accumulators": self.accumulators},
        }
        return 200, contents[path]

    def row(self) -> dict[str, Any]:
        return {
            "jid": self.job_id,
            "name": self.name,
            "state": self.state,
            "start-time": 1_795_229_585_144,
            "end-time": -1,
            "duration": 61_000,
            "tasks": {"total": 2, "running": 2},
            "pending-operators": 0,
        }

    def details(self) -> dict[str, Any]:
        vertex = {
            "id": "ab" * 16,
            "name": "Source: numbers -> Map",
            "parallelism": 2,
            "status": "RUNNING",
            "metrics": {"read-records": 0, "write-records": 12_345},
        }
        return {
            **self.row(),
            "vertices": [vertex],
            "penstock": {"given_up_committables": self.given_up, "recovery": self.recovery},
        }

    def checkpoints(self) -> dict[str, Any]:
        last = {"id": 4, "external_path": "/checkpoints/chk-4", "latest_ack_timestamp": 1_795_229_591_851}
        counts = {"completed": 4, "failed": 1, "restored": 2, "total": 5, "in_progress": 0}
        return {"counts": counts, "latest": {"completed": last, "savepoint": None, "failed": None, "restored": None}}

    def exceptions(self) -> dict[str, Any]:
        entry = {
            "exceptionName": "ValueError",
            "stacktrace": "ValueError: bad\n  in operator 'parse'",
            "timestamp": 1_795_229_591_000,
        }
        return {"exceptionHistory": {"entries": [entry], "truncated": False}}


@contextmanager
def serving(driver: FakeDriver, *, registered: bool = True) -> Generator[FakeDriver]:
    """Let a driver answer on a port of this machine, and make it known."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, content = 401, {"errors": ["no token"]}
            if driver.token is None or self.headers.get("Authorization") == f"Bearer {driver.token}":
                path = self.path.partition("?")[0]
                status, content = driver.respond(self.command, path, json.loads(body) if body else None)
            answer = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_one

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    driver.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    registry = JobRegistry(default_directory())
    if registered:
        registry.add(RegistryEntry.of_this_process(driver.job_id, driver.name, driver.address, 1, driver.token))
    try:
        yield driver
    finally:
        registry.clear()
        server.shutdown()
        server.server_close()
        thread.join()
