"""Requests that no client should send, each of a kind, so that what was sent can be told from what was answered."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
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
#: What is refused for its path, its ids, its query or its method alone.
NO_PATHS: Final = ("/jobs/JOB/nothing", "/v2/jobs", "/v1/v1/jobs", "/nothing", "/wp-login.php", "/" + "a/" * 500)
BAD_IDS: Final = (
    "/jobs/zzz", "/v1/jobs/%00", "/jobs/" + "9" * 2_000, "/jobs/JOB/checkpoints/details/-1",
    f"/jobs/{UNKNOWN}", f"/jobs/{UNKNOWN}/plan", "/jobs/JOB/vertices/x", "/jobs/JOB/vertices/JOB/subtasks/-1",
    "/jobs/..%2f..%2fetc%2fpasswd", "/jobs/JOB/checkpoints/details/99999999999999999999",
)  # fmt: skip
BAD_QUERIES: Final = (
    "/jobs/JOB/exceptions?maxExceptions=-1", "/jobs/JOB/exceptions?maxExceptions=1e3",
    "/jobs/JOB/exceptions?maxExceptions=" + "9" * 2_000,
)  # fmt: skip
WRONG_METHODS: Final = (
    ("DELETE", "/jobs/overview"), ("PUT", "/v1/jobs/JOB"), ("BREW", "/config"), ("POST", "/overview"),
    ("PATCH", "/jobs/JOB/plan"), ("GET", "/jobs/JOB/stop"), ("DELETE", "/jobs/JOB/savepoints"), ("get", "/jobs"),
)  # fmt: skip
#: Where a body is read. What the job is asked for there cannot be, wherever a member is understood.
READERS: Final = (
    "/jobs/JOB/savepoints", "/jobs/JOB/stop", "/v1/jobs/JOB/checkpoints", "/savepoint-disposal",
    f"/jobs/{UNKNOWN}/savepoints", f"/jobs/{UNKNOWN}/stop", f"/jobs/{UNKNOWN}/checkpoints",
)  # fmt: skip
NO_JSON: Final = (
    b"{", b"\xff\xfe\x00", b"{}" * 2, b"[" * 30_000, b'{"a":' * 9_000, b"nan", b"{'a': 1}", b'{"triggerId":"\xc3\x28"}',
)  # fmt: skip
WRONG_MEMBERS: Final = (
    b"[]", b"null", b'"x"', b"9" * 60_000, b'{"triggerId":"x"}', b'{"triggerId":7}', b'{"triggerId":"\\ud800"}',
    b'{"triggerId":[],"target-directory":{},"targetDirectory":{},"savepoint-path":[],"checkpointType":1}',
)  # fmt: skip
#: Where nothing can be written, and where there is no savepoint.
DIRECTORIES: Final = (
    "\0", "/\0/x", "/dev/null/x", "/dev/full/x", "/dev/null" + "/a" * 2_000, "a" * 5_000, "nosuch://x/y",
    "http://[", "s3://", "\ud800",
)  # fmt: skip
FOREIGN: Final = (
    b"Host: evil.example", b"Host:", b"Host: [", b"Host: [::1", b"Host: 127.0.0.1:x", b"Host: a@b",
    b"Host: \xff\xfe", b"Origin: http://evil.example", b"Origin: null", b"Origin: http://[",
    b"Origin: http://[v9.x]", b"Origin: \xff", b"Origin: http://127.0.0.1\xbf", b"Sec-Fetch-Site: cross-site",
)  # fmt: skip
#: Of which some mean nothing here, so that they are let pass.
HEADERS: Final = (
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
IN_A_ROW: Final = 20


@dataclass(frozen=True)
class Shot:
    """What is sent at once."""

    kind: str
    data: bytes
    #: Requests in it.
    requests: int = 1
    #: Whether nothing comes after it: the client says so by closing its half.
    ends: bool = False


class Hostile:
    """Makes requests, always the same ones in the same order.

    Args:
        seed: Of the choices.
        job_id: The job that is at stake.
    """

    def __init__(self, seed: int, job_id: str) -> None:
        self._random = random.Random(seed)
        self._job_id = job_id
        self._kept: tuple[Callable[[], Shot], ...] = (
            *(self._no_path, self._bad_id, self._bad_query, self._wrong_method, self._no_json, self._wrong_member),
        )
        self._alone: tuple[Callable[[], Shot], ...] = (
            *(self._odd_target, self._impossible_directory, self._foreign, self._bad_header, self._bad_chunk),
            *(self._noise, self._in_a_row, self._garbage, self._wrong_type, self._cut_off),
        )

    def kept(self) -> Shot:
        """Return a request that is refused by an answer after which the connection serves the next one."""
        return self._random.choice(self._kept)()

    def alone(self) -> Shot:
        """Return a request, or some in a row, for a connection of its own, which the server closes."""
        return self._random.choice(self._alone)()

    def _request(self, method: str, path: str, body: bytes = b"", *headers: bytes, keep: bool = False) -> bytes:
        target = path.replace("JOB", self._job_id).encode()
        given = b"\r\n".join(headers)
        lines = [f"{method} ".encode() + target + b" HTTP/1.1"]
        lines += [] if b"host:" in given.lower() else [b"Host: localhost"]
        framed = b"content-length:" in given.lower() or b"transfer-encoding:" in given.lower()
        lines += [] if framed or not body else [b"Content-Length: %d" % len(body)]
        closing = [] if keep or b"connection:" in given.lower() else [b"Connection: close"]
        return b"\r\n".join([*lines, *headers, *closing, b"", body])

    # ---------------------------------------------------------------------------------------- on a kept connection

    def _no_path(self) -> Shot:
        return Shot("no such path", self._request("GET", self._random.choice(NO_PATHS), keep=True))

    def _bad_id(self) -> Shot:
        return Shot("bad id", self._request("GET", self._random.choice(BAD_IDS), keep=True))

    def _bad_query(self) -> Shot:
        return Shot("bad query", self._request("GET", self._random.choice(BAD_QUERIES), keep=True))

    def _wrong_method(self) -> Shot:
        return Shot("wrong method", self._request(*self._random.choice(WRONG_METHODS), keep=True))

    def _no_json(self) -> Shot:
        body = self._random.choice(NO_JSON)
        return Shot("no JSON", self._request("POST", self._random.choice(READERS), body, keep=True))

    def _wrong_member(self) -> Shot:
        body = self._random.choice(WRONG_MEMBERS)
        return Shot("wrong members", self._request("POST", self._random.choice(READERS), body, keep=True))

    # -------------------------------------------------------------------------------------- on one that closes then

    def _odd_target(self) -> Shot:
        # Nothing in here may end the job: it would be a success.
        method, path = self._random.choice(METHODS), self._random.choice(PATHS)
        method = "GET" if (method, path) == ("PATCH", "/v1/jobs/JOB") else method
        return Shot("odd target", self._request(method, path))

    def _impossible_directory(self) -> Shot:
        path = self._random.choice(READERS).replace("/v1/jobs/JOB/checkpoints", "/jobs/JOB/stop")
        members = dict.fromkeys(
            ("target-directory", "targetDirectory", "savepoint-path"), self._random.choice(DIRECTORIES)
        )
        return Shot("impossible directory", self._request("POST", path, json.dumps(members).encode()))

    def _foreign(self) -> Shot:
        return Shot("foreign", self._request("GET", "/jobs/overview", b"", self._random.choice(FOREIGN)))

    def _bad_header(self) -> Shot:
        return Shot("bad header", self._request("GET", "/jobs/overview", b"", self._random.choice(HEADERS)))

    def _bad_chunk(self) -> Shot:
        path, chunk = self._random.choice(READERS), self._random.choice(CHUNKS)
        return Shot("bad chunks", self._request("POST", path, chunk, b"Transfer-Encoding: chunked"), ends=True)

    def _noise(self) -> Shot:
        return Shot("noise", self._random.randbytes(self._random.randrange(1, 2_000)) + b"\r\n\r\n\r\n")

    def _garbage(self) -> Shot:
        return Shot("no request", self._random.choice(GARBAGE))

    def _wrong_type(self) -> Shot:
        kind = self._random.choice((b"text/plain", b"multipart/form-data; boundary=x", b"application/xml", b"\xff"))
        path = self._random.choice(READERS)
        return Shot("wrong type", self._request("POST", path, b"a=b", b"Content-Type: " + kind))

    def _cut_off(self) -> Shot:
        path = self._random.choice(READERS)
        return Shot("cut off", self._request("POST", path, b'{"targ', b"Content-Length: 100"), ends=True)

    def _in_a_row(self) -> Shot:
        parts = [self._random.choice(self._kept)().data for _ in range(IN_A_ROW - 1)]
        last = self._random.choice((self._bad_header, self._noise, self._garbage))()
        return Shot("many in a row", b"".join([*parts, last.data]), requests=IN_A_ROW, ends=True)
