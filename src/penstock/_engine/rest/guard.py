"""Checks of every request before its handler runs: the client, its address, and the size of the request.

A page in a browser must not steer a job: neither by a form or a script (Origin, Sec-Fetch-Site), nor by a name of its
own that it lets stand for this machine (Host).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from penstock._engine.rest.access import Role
from penstock._engine.rest.handlers.refusals import JARS
from penstock._engine.rest.handlers.tokens import TOKEN_PATH
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.openapi import DOCUMENT_PATH, PAGE_PATH
from penstock._engine.rest.routing import error_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from penstock._engine.rest.access import AccessPolicy

#: Bytes of a body; the largest that a client of Flink sends has some hundred.
MAX_BODY: Final = 64 << 10
#: The maximum number of digits in Content-Length; Python refuses to convert very long numbers.
_MOST_DIGITS: Final = 18
_BODY_TIMEOUT_S: Final = 10.0
#: After this many failures of a client within this many seconds, its answers are delayed; each further failure doubles
#: the delay.
_REMEMBERED_S: Final = 60.0
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.1, 2.0
_PEERS: Final = 1_000
_JSON: Final = "application/json"
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_TOKEN_PATHS: Final = (TOKEN_PATH, f"/v1{TOKEN_PATH}")
#: Pages without figures: a browser has to load them before it can send a token.
_PUBLIC: Final = ("/", PAGE_PATH, DOCUMENT_PATH, *_TOKEN_PATHS)
_PUBLIC_BELOW: Final = "/assets/"


class FailureDelays:
    """The delays of answers to wrong tokens, by the address of the client.

    Answers to right tokens are never delayed, because all users of a machine share one address.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: By address: the number of failures, and the time of the last one.
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def after_failure(self, peer: str) -> float:
        """Note a failure, and return the delay of its answer in seconds."""
        now = self._clock()
        count, last = self._failures.pop(peer, (0, now))
        count = 1 if now - last > _REMEMBERED_S else count + 1
        self._failures[peer] = count, now
        if len(self._failures) > _PEERS:
            self._failures.popitem(last=False)
        return min(_FIRST_DELAY_S * 2 ** min(count - 1, 10), _LONGEST_DELAY_S)


class Guard:
    """Lets requests through to an application, or refuses them.

    Args:
        app: The application; it finds the client's role and the body in the scope, as ``penstock.role`` and
            ``penstock.body``.
        access: The tokens and the accepted names of the server.
        delays: The delays of answers to wrong tokens.
    """

    def __init__(self, app: ASGIApp, access: AccessPolicy, delays: FailureDelays | None = None) -> None:
        self._app = app
        self._access = access
        self._delays = delays or FailureDelays(time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; a body is read in any case, because Flink's client sends one with a GET, too."""
        headers = Headers(scope=scope)
        if "authorization" in headers or scope["path"] in _TOKEN_PATHS:
            send = self._delayed(send, scope)
        try:
            scope["penstock.role"] = self._check(scope["method"], scope["path"], headers)
            scope["penstock.body"] = body = await _body(Request(scope, receive))
            _check_kind(body, headers)
        except HttpError as error:
            # The rest of the body is not read, so the connection cannot be used again.
            error.headers["connection"] = "close"
            await error_response(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _delayed(self, send: Send, scope: Scope) -> Send:
        """Delay answers to wrong tokens without delaying other clients."""

        async def delayed(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                peer = scope.get("client")
                await asyncio.sleep(self._delays.after_failure(peer[0] if peer else ""))
            await send(message)

        return delayed

    def _check(self, method: str, path: str, headers: Headers) -> Role:
        """Return the role of the client; raise HttpError if it has none that the path needs."""
        host = headers.get("host", "")
        if not self._knows(host):
            raise HttpError(403, f"Host {host!r} is not a name of this server; rest.address can name one more.")
        origin = headers.get("origin")
        if origin is not None and _host_of(origin) != host.lower():
            raise HttpError(403, f"Requests from pages of {origin} are refused.")
        if headers.get("sec-fetch-site") in {"cross-site", "same-site"} and not _is_page(method, path, headers):
            raise HttpError(403, "Requests from pages of other sites are refused.")
        role = _role(self._access, headers.get("authorization", ""))
        if role is Role.ANYBODY and path not in _PUBLIC and not path.startswith(_PUBLIC_BELOW):
            text = (
                "A token is needed: send the header Authorization: Bearer <penstock.rest.token>. For a browser, "
                "penstock dashboard prints a link."
            )
            raise HttpError(401, text, {"WWW-Authenticate": "Bearer"})
        if _is_about_jars(path):  # before their bodies, which are longer than the limit
            raise HttpError(404, JARS)
        return role

    def _knows(self, host: str) -> bool:
        name = (urlsplit(f"//{host}").hostname or "") if _is_host(host) else ""
        return _is_address(name) or name == "localhost" or name in self._access.hosts


def _role(access: AccessPolicy, authorization: str) -> Role:
    """Return the role that an Authorization header gives; the time it takes tells nothing about the tokens."""
    if access.token is None:
        return Role.OPERATOR
    kind, _, given = authorization.partition(" ")
    sent = given.strip().encode() if kind.lower() == "bearer" else b""
    operates = hmac.compare_digest(sent, access.token.encode())
    reads = access.read_only_token is not None and hmac.compare_digest(sent, access.read_only_token.encode())
    if operates:
        return Role.OPERATOR
    return Role.READER if reads else Role.ANYBODY


async def _body(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    if "content-length" in request.headers and "transfer-encoding" in request.headers:
        # A proxy may read another end than we do.
        raise HttpError(400, "A request has a Content-Length or a Transfer-Encoding, not both.")
    if length.isdecimal() and (len(length) > _MOST_DIGITS or int(length) > MAX_BODY):
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S), contextlib.aclosing(request.stream()) as parts:
            async for part in parts:
                body += part
                if len(body) > MAX_BODY:
                    raise _too_large()
    except ClientDisconnect:
        raise HttpError(400, "The body ended too early.") from None
    except TimeoutError:
        raise HttpError(408, "The body did not arrive in time.") from None
    return bytes(body)


def _check_kind(body: bytes, headers: Headers) -> None:
    """Accept JSON only, because a browser's form has other types; a body without a type is taken for JSON."""
    kind = headers.get("content-type", _JSON).partition(";")[0].strip().lower()
    if body and kind != _JSON:
        raise HttpError(415, f"The body has to be {_JSON}, not {kind}.")


def _too_large() -> HttpError:
    return HttpError(413, f"The body is larger than {MAX_BODY} bytes.")


def _is_page(method: str, path: str, headers: Headers) -> bool:
    """Tell whether a browser follows a link to one of the pages, which is allowed from other sites."""
    navigates = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return method in _SAFE and navigates and not path.endswith("/yarn-cancel")


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_host(host: str) -> bool:
    try:
        urlsplit(f"//{host}").port  # noqa: B018 - raises for what is no port
    except ValueError:
        return False
    return bool(host) and not any(character in host for character in "/?#@\\ ")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_about_jars(path: str) -> bool:
    """Tell whether a request is about jars, whose bodies are longer than the limit."""
    bare = path.removeprefix("/v1")
    return bare == "/jars" or bare.startswith("/jars/")
