"""Requests that no client should send, each as the bytes of one connection; each is to be answered at once."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

UNKNOWN: Final = "0123456789abcdef0123456789abcdef"
METHODS: Final = (
    "GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "BREW", "get", "X" * 500,
)  # fmt: skip
#: Of which some exist; JOB stands for the job's id.
PATHS: Final = (
    "/", "/api", "/v1", "/v1/", "/v1/v1/jobs", "//jobs", "/jobs/", "/jobs/overview", "/v1/jobs/JOB",
    "/jobs/JOB/nothing", "/jobs/%00", "/jobs/%ff%fe", "/jobs/..%2f..%2fetc%2fpasswd", f"/jobs/{UNKNOWN}",
    "/jobs/JOB/checkpoints/details/-1", "/jobs/JOB/checkpoints/details/99999999999999999999",
    "/jobs/JOB/vertices/JOB/subtasks/999999999999999999", "/assets/%00", "/assets/../../server.py",
    "/assets/%2e%2e/%2e%2e/server.py", "/assets/" + "a" * 5_000, "/assets/", "/assets/app.js/x",
    "/assets//etc/passwd", "/assets/\\..\\..\\server.py", "/assets/%2500", "/assets", "/index.html",
    "/jobs/JOB/metrics?get=" + "a," * 2_000, "/jobs/JOB/metrics?" + "get=a&" * 2_000, "/metrics?%00", "?",
    "/?" + "=&" * 999, "http://127.0.0.1/jobs", "http://[/jobs", "jobs", "*", "127.0.0.1:80", "/jobs#x",
    "/jobs;x=1", "/" + "/" * 3_000, "/jobs/JOB/yarn-cancel/x", "/savepoint-disposal/x", "/jobs/JOB/stop/x",
    "/jobs/\u0661" * 3, "/jobs/metrics?agg=no", "/jobs/JOB/exceptions?maxExceptions=" + "9" * 5_000,
    "/jobs/JOB/exceptions?maxExceptions=-1", "/%", "/%zz", "/jobs?%",
)  # fmt: skip
#: Where a body is read. What the job is asked for there cannot be, wherever a member is understood.
READERS: Final = (
    "/jobs/JOB/savepoints", "/jobs/JOB/stop", "/v1/jobs/JOB/checkpoints", "/savepoint-disposal",
    f"/jobs/{UNKNOWN}/savepoints", f"/jobs/{UNKNOWN}/stop", f"/jobs/{UNKNOWN}/checkpoints",
)  # fmt: skip
BODIES: Final = (
    b"{", b"[]", b"null", b'"x"', b"\xff\xfe\x00", b"{}" * 2, b"[" * 30_000, b'{"a":' * 9_000, b"9" * 60_000,
    b"nan", b'{"triggerId":"x"}', b'{"triggerId":7}', b'{"triggerId":"\\ud800"}', b'{"triggerId":"\xc3\x28"}',
    b'{"target-directory":{},"targetDirectory":{},"savepoint-path":[],"checkpointType":1}', b"x" * 70_000,
)  # fmt: skip
#: Where nothing can be written, and where there is no savepoint.
DIRECTORIES: Final = (
    "\0", "/\0/x", "/dev/null/x", "/dev/full/x", "/dev/null" + "/a" * 2_000, "a" * 5_000, "nosuch://x/y",
    "http://[", "s3://", "\ud800",
)  # fmt: skip
HEADERS: Final = (
    b"Host: evil.example", b"Host:", b"Host: [", b"Host: [::1", b"Host: 127.0.0.1:x", b"Host: a@b",
    b"Host: \xff\xfe", b"Origin: http://evil.example", b"Origin: null", b"Origin: http://[",
    b"Origin: http://[v9.x]", b"Origin: \xff", b"Origin: http://127.0.0.1\xbf", b"Sec-Fetch-Site: cross-site",
    b"Authorization: Bearer \xff", b"Content-Length: -1", b"Content-Length: " + b"9" * 5_000,
    b"Content-Length: 1, 2", b"Content-Length: 1e3", b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Expect: 200-maybe",
    b"Upgrade: websocket\r\nConnection: upgrade, close\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==",
    b"X: " + b"x" * 40_000, b"\r\n".join(b"X-%d: x" % n for n in range(1_500)), b" folded: x", b"no colon", b": x",
    b"X:\0", b"Range: bytes=0-,-1,9999999999999999999-", b"Range: bytes=" + b"0-1," * 999,
    b"If-Modified-Since: never", b"If-None-Match: \xff", b"Cookie: " + b"a=b;" * 999, b"Content-Type: \xff",
    b"Accept: */*;q=9;q",
)  # fmt: skip
GARBAGE: Final = (
    b"\r\n" * 2_000 + b"\0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 300 + b"\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /\r\n\r\n", b"GET  / HTTP/1.1\r\n\r\n",
    b"\xff" * 99 + b"\r\n\r\n", b"GET / HTTP/1.1\nHost: localhost\n\n\0", b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    b"G" * 70_000, b"GET /" + b"a" * 70_000, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
)  # fmt: skip
CHUNKS: Final = (b"zz\r\n", b"-1\r\n\r\n", b"5\r\nab\r\n0\r\n\r\n", b"2;" + b"x" * 40_000, b"2\r\n{}xx")


class Hostile:
    """Makes requests, always the same ones in the same order.

    Args:
        seed: Of the choices.
        job_id: The job that is at stake.
    """

    def __init__(self, seed: int, job_id: str) -> None:
        self._random = random.Random(seed)
        self._job_id = job_id
        self._kinds: tuple[Callable[[], bytes], ...] = (
            *(self._bad_target, self._bad_body, self._bad_directory, self._bad_header, self._bad_chunk),
            *(self._noise, self._pipeline, lambda: self._random.choice(GARBAGE)),
        )

    def next(self) -> bytes:
        """Return the next request, or requests in a row."""
        return self._random.choice(self._kinds)()

    def _request(self, method: str, path: str, body: bytes = b"", *headers: bytes) -> bytes:
        target = path.replace("JOB", self._job_id).encode()
        given = b"\r\n".join(headers)
        lines = [f"{method} ".encode() + target + b" HTTP/1.1"]
        lines += [] if b"host:" in given.lower() else [b"Host: localhost"]
        framed = b"content-length:" in given.lower() or b"transfer-encoding:" in given.lower()
        lines += [] if framed or not body else [b"Content-Length: %d" % len(body)]
        closing = [] if b"connection:" in given.lower() else [b"Connection: close"]
        return b"\r\n".join([*lines, *headers, *closing, b"", body])

    def _bad_target(self) -> bytes:
        # Nothing in here may end the job: it would be a success.
        method, path = self._random.choice(METHODS), self._random.choice(PATHS)
        return self._request("GET" if (method, path) == ("PATCH", "/v1/jobs/JOB") else method, path)

    def _bad_body(self) -> bytes:
        return self._request("POST", self._random.choice(READERS), self._random.choice(BODIES))

    def _bad_directory(self) -> bytes:
        path = self._random.choice(READERS).replace("/v1/jobs/JOB/checkpoints", "/jobs/JOB/stop")
        members = dict.fromkeys(
            ("target-directory", "targetDirectory", "savepoint-path"), self._random.choice(DIRECTORIES)
        )
        return self._request("POST", path, json.dumps(members).encode())

    def _bad_header(self) -> bytes:
        return self._request("GET", "/jobs/overview", b"", self._random.choice(HEADERS))

    def _bad_chunk(self) -> bytes:
        path, chunk = self._random.choice(READERS), self._random.choice(CHUNKS)
        return self._request("POST", path, chunk, b"Transfer-Encoding: chunked")

    def _noise(self) -> bytes:
        return self._random.randbytes(self._random.randrange(1, 2_000)) + b"\r\n\r\n\r\n"

    def _pipeline(self) -> bytes:
        parts = [
            self._request("GET", self._random.choice(PATHS[:9]), b"", b"Connection: keep-alive") for _ in range(20)
        ]
        return b"".join([*parts, self._random.choice((self._bad_header, self._bad_chunk, self._bad_target))()])
