"""Random requests: none breaks the server, readers cannot control jobs, and operators cannot exceed their rights."""

from __future__ import annotations

import asyncio
import json
import mimetypes
import os
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile.fuzzing import fuzzed, inside, odd_text, odd_values
from tests.hostile.hostile_requests import DIRECTORIES, METHODS, PATHS
from tests.unit.rest.fakes import COUNTED, JOB, READ, Api, FakeControl, job

from penstock._engine.rest.access import AccessPolicy, Role
from penstock._engine.rest.app import ROUTES, make_app
from penstock._engine.rest.directories import DirectoryPolicy, Disposals, JobPlaces
from penstock._engine.rest.guard import FailureDelays, Guard
from penstock._engine.rest.handlers.tokens import TOKEN_PATH
from penstock._engine.rest.openapi import DOCUMENT_PATH, PAGE_PATH
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXAMPLES: Final = 150
OPERATOR, READER = "operator-0123456789", "reader-0123456789"
ALLOWED: Final = "/allowed/sp"
#: The savepoint that the job knows of.
KNOWN_SAVEPOINT: Final = "/elsewhere/savepoint-1"

# -------------------------------------------------------------------------------------------------------------- inputs

_KNOWN: Final = {"jobid": JOB, "vertexid": READ, "checkpointid": "4", "subtaskindex": "0", "attempt": "0"}
_PARTS: Final = st.one_of(st.sampled_from([JOB, READ, *_KNOWN.values(), "jobs", "v1", "..", "%2e%2e", ""]), odd_text)


@st.composite
def targets(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a method and a path: those of a route with parameters that fit or not, odd ones, or any parts."""
    method = draw(st.sampled_from(["GET", "POST", *METHODS]))
    match draw(st.sampled_from(["fits", "fits", "fits", "route", "odd", "parts"])):
        case "fits":
            route = draw(st.sampled_from(ROUTES))
            method, path = route.method, route.path.format(**{name: _KNOWN.get(name, "0") for name in route.parameters})
        case "route":
            route = draw(st.sampled_from(ROUTES))
            values = {name: draw(st.just(_KNOWN.get(name, "0")) | _PARTS) for name in route.parameters}
            path = route.path.format(**{name: quote(value, safe="%") for name, value in values.items()})
        case "odd":
            path = draw(st.sampled_from(PATHS)).partition("?")[0].replace("JOB", JOB)
        case _:
            path = "/" + "/".join(quote(part, safe="%") for part in draw(st.lists(_PARTS, max_size=5)))
    path = draw(st.sampled_from(["", "", "", "", "/v1", "/", "/v1/v1"])) + path
    return method, quote(path, safe="/%?=&;@[]\\*:.").encode()


_DIRECTORIES: Final = st.one_of(
    st.sampled_from(
        [ALLOWED, f"{ALLOWED}/x", f"{ALLOWED}/../x", "/allowed/sp2", KNOWN_SAVEPOINT, "/etc", "~", "file:///etc"]
    ),
    st.sampled_from(DIRECTORIES),
    odd_text,
)
_MEMBERS: Final = st.sampled_from(
    ["target-directory", "targetDirectory", "savepoint-path", "cancel-job", "drain", "formatType", "triggerId", "code"]
)
bodies = st.one_of(
    st.just(b""),
    st.dictionaries(
        _MEMBERS | odd_text, st.one_of(_DIRECTORIES, st.booleans(), st.just("a" * 32), odd_values), max_size=4
    )
    .map(json.dumps)
    .map(lambda text: text.encode("utf-8", "surrogatepass")),
    odd_values.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=60),
    st.sampled_from([b"[" * 30_000, b'{"a":' * 9_000, b"9" * 66_000, b'{"triggerId":"\\ud800"}']),
)
_LATIN: Final = st.text(st.characters(min_codepoint=1, max_codepoint=255, exclude_characters="\r\n"), max_size=20)
headers = st.just(dict[str, str]()) | st.dictionaries(
    st.sampled_from(
        [
            *("origin", "host", "content-type", "content-length", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"),
            *("range", "if-modified-since", "if-none-match", "cookie", "x-forwarded-for", "penstock-lease", "accept"),
        ]
    ),
    st.sampled_from(["null", "http://127.0.0.1:8081", "127.0.0.1:8081", "[::1", "cross-site", "navigate", "document"])
    | st.sampled_from(["application/json", "text/plain", "bytes=0-,-1", "bytes=" + "0-1," * 99, "9" * 5_000, "-1"])
    | _LATIN,
    max_size=3,
)
queries = st.one_of(
    st.just(b""),
    st.lists(
        st.tuples(
            st.sampled_from(sorted({each.name for route in ROUTES for each in route.query})) | odd_text,
            st.sampled_from(["0", "-1", "true", "min,max", "records", "9" * 4_000]) | odd_text,
        ),
        max_size=4,
    ).map(lambda pairs: "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs).encode()),
    st.binary(max_size=30).map(lambda data: quote(data, safe="&=%+").encode()),
)


@dataclass(frozen=True)
class Sent:
    """A request."""

    #: The method and the path.
    target: tuple[str, bytes]
    query: bytes
    headers: dict[str, str]
    body: bytes

    @property
    def shown_path(self) -> str:
        return unquote(self.target[1].decode())

    def scope(self, token: str) -> dict[str, Any]:
        """Return it as the server hands it to the application."""
        headers = {"host": "127.0.0.1:8081", **self.headers}
        headers |= {"authorization": f"Bearer {token}"} if token else {}
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "state": {},
            "method": self.target[0],
            "path": self.shown_path,
            "raw_path": self.target[1],
            "query_string": self.query,
            "root_path": "",
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8081),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        }


#: Those that take a directory, with the name of the member.
_WRITING: Final = {
    f"/jobs/{JOB}/savepoints": "target-directory",
    f"/jobs/{JOB}/stop": "targetDirectory",
    "/savepoint-disposal": "savepoint-path",
}


def writing(path: str, directory: str) -> Sent:
    body = json.dumps({_WRITING[path]: directory}).encode("utf-8", "surrogatepass")
    return Sent(("POST", path.encode()), b"", {}, body)


any_request = st.builds(Sent, targets(), queries, headers, bodies)
requests = any_request | any_request | st.builds(writing, st.sampled_from(sorted(_WRITING)), _DIRECTORIES)


# -------------------------------------------------------------------------------------------------------------- server


class NoDelays(FailureDelays):
    """Answers wrong tokens at once."""

    def after_failure(self, peer: str) -> float:
        return 0.0


class Target:
    """A server with one job, and all that was asked of it."""

    def __init__(self) -> None:
        policy = DirectoryPolicy((ALLOWED,))
        self.disposed: list[str] = []
        self.control = FakeControl(job(**COUNTED), savepoint_directory=ALLOWED, savepoints=frozenset({KNOWN_SAVEPOINT}))
        self._disposals = Disposals(self._delete, policy, lambda _: True)
        self._disposals.add(JobPlaces(self.control, "/elsewhere/checkpoints", None, {}))
        access = AccessPolicy(frozenset(), OPERATOR, READER)
        self.api = Api(self.control, access=access, directories=policy)
        context = replace(self.api.context, dispose=self._dispose)
        self._app = Guard(make_app(context), access, NoDelays(lambda: 0.0))
        self._loop = asyncio.new_event_loop()
        mimetypes.init()  # reads files of the system, at the first file that is served

    def _delete(self, path: str, _: object, __: Mapping[str, str]) -> None:
        self.disposed.append(path)

    def _dispose(self, path: str) -> Future[None]:
        done: Future[None] = Future()
        try:
            done.set_result(self._disposals.dispose(path))
        except PenstockError as error:
            done.set_exception(error)
        return done

    @property
    def steered(self) -> list[Any]:
        """All that has changed anything."""
        return [*self.control.asked, *self.disposed, *([True] if self.api.was_shut_down else [])]

    @property
    def written_to(self) -> list[str]:
        """The directories that the job was told to write to."""
        named = {"savepoint", "cancel with savepoint"}
        return [asked[1] for asked in self.control.asked if asked[0] in named and asked[1]]

    def forget(self) -> None:
        """Forget what was asked; what is under way ends."""
        for answer in self.control.answers:
            answer.cancel()
        for seen in (self.control.answers, self.control.asked, self.disposed):
            seen.clear()
        self.api.was_shut_down = False

    def ask(self, sent: Sent, token: str) -> Answer:
        """Send one request; what the application raises is raised."""
        answer = Answer()
        coming = [{"type": "http.request", "body": sent.body, "more_body": False}]

        async def receive() -> Any:
            return coming.pop() if coming else {"type": "http.disconnect"}

        self._loop.run_until_complete(self._app(sent.scope(token), receive, answer.take))
        return answer

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class Answer:
    """What came back."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""

    async def take(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message["headers"])
        else:
            self.body += message.get("body", b"")

    def check(self) -> None:
        """Make sure that it is an answer of ours, whatever was asked."""
        assert 200 <= self.status < 500, (self.status, self.body)
        kind = dict(self.headers).get(b"content-type", b"")
        if kind.startswith(b"application/json") and self.body:
            json.loads(self.body)
        assert self.status < 400 or b"Traceback" not in self.body
        assert b"\x1b" not in self.body


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    made = Target()
    yield made
    made.close()


PUBLIC: Final = ("/", PAGE_PATH, DOCUMENT_PATH, TOKEN_PATH, f"/v1{TOKEN_PATH}")


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # some bodies are
@fuzzed(EXAMPLES)
@given(sent=requests)
def test_requests_without_and_with_each_token(sent: Sent, target: Target) -> None:
    for token in ("", "wrong-0123456789\xff", READER, OPERATOR):
        target.forget()
        with inside():
            answer = target.ask(sent, token)
        answer.check()
        if token != OPERATOR:
            assert target.steered == []
            assert OPERATOR.encode() not in answer.body
        if token not in {OPERATOR, READER} and answer.status == 200:
            path = sent.shown_path
            assert path in PUBLIC or path.startswith("/assets/"), path
    for directory in map(os.path.normpath, target.written_to):
        assert directory == ALLOWED or directory.startswith(f"{ALLOWED}/")
    for place in target.disposed:
        assert place == KNOWN_SAVEPOINT or os.path.normpath(place).startswith(f"{ALLOWED}/")


def test_each_route_that_changes_anything_is_an_operators() -> None:
    for_less = [
        route.path
        for route in ROUTES
        if route.method != "GET" and route.role is not None and route.role < Role.OPERATOR
    ]
    assert for_less == [TOKEN_PATH]  # for a code, which an operator has made
    steering = [route.path for route in ROUTES if route.method == "GET" and route.role is Role.OPERATOR]
    assert all(any(path.startswith(each) for path in steering) for each in ("/jobs/{jobid}/yarn-cancel",))
