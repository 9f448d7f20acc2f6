"""A server that speaks the bulk requests of Elasticsearch, and fails as its script says."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request.

    Attributes:
        status: The answer has this status, and nothing is done.
        pause: The answer asks to wait so many seconds.
        refused: These actions get that status, by their places; the others are done.
        refused_with: The status.
        text: The answer is this, though all is done.
        kept: So much of the answer is sent, as a part of it; then the connection is cut. Negative: not even the body
            is read to its end, and nothing is done.
        fewer: So many items are missing in the answer.
        is_slow: No answer comes, though all is done.
    """

    status: int | None = None
    pause: str | None = None
    refused: tuple[int, ...] = ()
    refused_with: int = 429
    text: str | None = None
    kept: float | None = None
    fewer: int = 0
    is_slow: bool = False


class ScriptedCluster:
    """Keeps documents in memory; an index whose name begins with ``strict`` takes numbers alone.

    Args:
        tls: A file with key and certificate, where it speaks TLS.
        most_bytes: A larger request is refused.
    """

    def __init__(self, tls: Path | None = None, most_bytes: int = 1 << 20) -> None:
        self.most_bytes = most_bytes
        self.indices: dict[str, dict[str, dict[str, Any]]] = {}
        self.versions: dict[tuple[str, str], int] = {}
        #: The indices of each alias; the last one is written into.
        self.aliases: dict[str, list[str]] = {}
        self.may_search = True
        #: What indices answer to each action: a status, and the type of the error.
        self.blocked: dict[str, tuple[int, str]] = {}
        self.script: list[Fault | None] = []
        #: The paths and headers of requests, and their actions.
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.requests: list[list[tuple[str, dict[str, Any]]]] = []
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.cluster, self._server.connections = self, []
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.01))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def documents(self, index: str) -> dict[str, dict[str, Any]]:
        """Return the documents of an index."""
        return self.indices.get(index, {})

    @property
    def targets(self) -> set[str]:
        """The names of indices and aliases."""
        return {*self.indices, *self.aliases}

    def all_documents(self, target: str) -> set[str] | None:
        """Return the ids of the documents in all indices of an index or alias; None if there is none."""
        if target not in self.targets:
            return None
        return {name for index in self.aliases.get(target, [target]) for name in self.documents(index)}

    def next_fault(self) -> Fault:
        """Return what is to happen with the next request."""
        with self._lock:
            return (self.script.pop(0) if self.script else None) or Fault()

    def bulk(self, body: bytes, fault: Fault) -> dict[str, Any]:
        """Carry a request out, and return the answer."""
        lines = iter(body.decode().splitlines())
        with self._lock:
            actions = []
            items = []
            for number, line in enumerate(lines):
                [(kind, meta)] = json.loads(line).items()
                source = {} if kind == "delete" else json.loads(next(lines))
                actions.append((kind, {**meta, **source}))
                error = {"type": "es_rejected_execution_exception", "reason": "the queue is full"}
                status = fault.refused_with
                if number not in fault.refused:
                    status, error = self._done(kind, meta, source)
                item = {"_id": meta["_id"], "status": status, **({"error": error} if error else {})}
                items.append({kind: item})
            self.requests.append(actions)
        return {"errors": any("error" in item for one in items for item in one.values()), "items": items}

    def _done(self, kind: str, meta: dict[str, Any], source: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        index = self.aliases.get(meta["_index"], [meta["_index"]])[-1]
        if index in self.blocked:
            status, kind_of_error = self.blocked[index]
            return status, {"type": kind_of_error, "reason": f"index [{index}] is blocked"}
        documents = self.indices.setdefault(index, {})
        name = meta["_id"]
        fields = source["doc"] if kind == "update" else source
        if meta["_index"].startswith("strict") and any(type(value) is not int for value in fields.values()):
            cause = {"reason": "For input string"}
            return 400, {"type": "mapper_parsing_exception", "reason": "failed to parse", "caused_by": cause}
        version = meta.get("version")
        if (kind == "create" and name in documents) or (
            version is not None and version < self.versions.get((meta["_index"], name), 0)
        ):
            return 409, {"type": "version_conflict_engine_exception", "reason": "conflict"}
        if version is not None:
            self.versions[meta["_index"], name] = version
        if kind == "delete":
            return (200 if documents.pop(name, None) is not None else 404), {}
        documents[name] = {**(documents.get(name, {}) if kind == "update" else {}), **fields}
        return 200, {}


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    cluster: ScriptedCluster
    connections: list[socket.socket]

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def server_close(self) -> None:
        """Cut what clients have left open, as their threads wait for more."""
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20  # head and body in one packet
    server: _Server

    def do_HEAD(self) -> None:
        self._answer(200 if self.path[1:] in self.server.cluster.targets else 404, b"")

    def do_POST(self) -> None:
        cluster = self.server.cluster
        if "/_bulk" not in self.path:
            self._look()
            return
        fault = cluster.next_fault()
        length = int(self.headers["Content-Length"])
        cluster.paths.append(self.path)
        cluster.headers.append(dict(self.headers))
        if fault.kept is not None and fault.kept < 0:
            self.rfile.read(length // 2)
            self.close_connection = True
            return
        body = self.rfile.read(length)
        if length > cluster.most_bytes:
            self._answer(413, b"")
        elif fault.status is not None:
            error = {"error": {"type": "trouble", "reason": "as the script says"}, "status": fault.status}
            self._answer(fault.status, json.dumps(error).encode(), fault.pause)
        else:
            self._done(body, fault)

    def _look(self) -> None:
        """Refresh or search, whatever the script says."""
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        target = self.path.split("/")[1]
        found = self.server.cluster.all_documents(target)
        if not self.server.cluster.may_search:
            self._answer(403, b"{}")
        elif not question:
            self._answer(200 if found is not None else 404, b"{}")
        else:
            hits = [{"_id": name} for name in question["query"]["ids"]["values"] if name in (found or ())]
            self._answer(200, json.dumps({"hits": {"hits": hits}} if hits else {}).encode())

    def _done(self, body: bytes, fault: Fault) -> None:
        answer = self.server.cluster.bulk(body, fault)
        if fault.fewer:
            del answer["items"][-fault.fewer :]
        if fault.is_slow:
            self.server.cluster.over.wait(30)
            self.close_connection = True
            return
        content = json.dumps(answer).encode() if fault.text is None else fault.text.encode()
        self._answer(200, content, kept=fault.kept)

    def _answer(self, status: int, content: bytes, pause: str | None = None, kept: float | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if pause is not None:
            self.send_header("Retry-After", pause)
        self.end_headers()
        with contextlib.suppress(OSError):  # the client may be gone
            self.wfile.write(content if kept is None else content[: int(len(content) * kept)])
        if kept is not None:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def values(documents: dict[str, dict[str, Any]]) -> list[Any]:
    """Return documents without their ids, in a stable order."""
    return sorted(documents.values(), key=repr)


def numbered(count: int, first: int = 0) -> Iterable[dict[str, Any]]:
    """Return records with a key and a number."""
    return [{"id": f"k{number}", "n": number} for number in range(first, first + count)]
