"""The HTTP server: uvicorn on a listening socket, with limits on the time and the number of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock._engine.rest.guard import Guard
from penstock._engine.rest.handshakes import Handshakes
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.routing import error_response

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from penstock._engine.rest.settings import RestSettings

#: The time limits of a client in seconds: for sending a whole request, and for taking the whole answer.
REQUEST_TIMEOUT_S: Final = 15.0
_ANSWER_TIMEOUT_S: Final = 60.0
_KEEP_ALIVE_S: Final = 30
#: The maximum number of connections. A process has some 1,000 descriptors, and its jobs need the rest. For a turn of
#: the loop there may be twice as many: it accepts all that wait before it closes any.
MAX_CONNECTIONS: Final = 256
#: The limits on the head of a request: its bytes and its lines. Browsers send some 20 lines.
_MAX_HEAD: Final = 32 << 10
_MAX_HEAD_LINES: Final = 100
_METRICS: Final = "/metrics"
#: Scripts and styles come from this server alone, no text is ever taken for HTML, and no page may frame it.
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
#: Browsers store nothing: so no old module is used after an upgrade, and no disk keeps figures.
_SECURITY_HEADERS: Final = (
    ("cache-control", "no-store"),
    ("content-security-policy", _POLICY),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
)


class LimitedProtocol(H11Protocol):
    """Closes connections of clients that send or receive too slowly, and connections beyond the maximum number."""

    request_timeout_s = REQUEST_TIMEOUT_S
    _deadline: asyncio.TimerHandle | None = None
    #: When the connection was made, or had its last answer, by the clock of the loop.
    _last_served: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request; beyond the maximum, close the connection whose last answer is the oldest."""
        super().connection_made(transport)
        self._last_served = self.loop.time()
        self._within(self.request_timeout_s)
        if len(self.connections) > MAX_CONNECTIONS:
            # Closing connections count until the loop has closed them.
            every = cast("set[LimitedProtocol]", self.connections)
            others = [one for one in every if not one.transport.is_closing()]
            if len(others) > MAX_CONNECTIONS:
                min(others, key=lambda one: one._last_served).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; the time runs from its first byte to its last."""
        if self._deadline is None:
            self._within(self.request_timeout_s)
        super().data_received(data)
        if self.conn.their_state in {h11.DONE, h11.MUST_CLOSE}:
            self._within(_ANSWER_TIMEOUT_S)

    def handle_events(self) -> None:
        """Parse the received data; a head of too many lines is refused before it is parsed."""
        if self.conn.their_state is h11.IDLE:
            waiting, _ = self.conn.trailing_data
            if waiting.count(b"\n") > _MAX_HEAD_LINES and _head(waiting).count(b"\n") > _MAX_HEAD_LINES:
                self.send_400_response(f"A request has at most {_MAX_HEAD_LINES} lines before its body.")
                return
        super().handle_events()

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is no HTTP request, with the headers of all answers."""
        usual = ((b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"))
        head = h11.Response(
            status_code=400, headers=[*self.server_state.default_headers, *usual], reason=b"Bad Request"
        )
        for event in (head, h11.Data(data=msg.encode("ascii", "replace")), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def on_response_complete(self) -> None:
        """Let the next request take its own time; uvicorn closes connections that stay idle."""
        self._last_served = self.loop.time()
        self._within(None)
        super().on_response_complete()
        if self.conn.their_state is not h11.IDLE:  # it had sent the next request already
            self._within(_ANSWER_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time limit."""
        self._within(None)
        super().connection_lost(exc)

    def _within(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


def _head(data: bytes) -> bytes:
    return data.partition(b"\r\n\r\n")[0]


class MetricsPort:
    """Serves nothing but the metrics on one port, and everything on the others.

    Args:
        app: The application.
        port: The port.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["server"][1] == self._port:
            if scope["path"] not in {"/", _METRICS}:
                await error_response(HttpError(404, f"On this port there is {_METRICS} alone."))(scope, receive, send)
                return
            scope = {**scope, "path": _METRICS, "raw_path": _METRICS.encode()}
        await self._app(scope, receive, send)


def serve(
    application: ASGIApp,
    settings: RestSettings,
    listening: socket.socket,
    metrics: socket.socket | None,
    started: Callable[[uvicorn.Server], Any],
) -> None:
    """Serve until the server is told to exit.

    Args:
        application: What answers, behind the checks of the guard.
        settings: Hold the tokens and TLS.
        listening: The socket.
        metrics: A socket for metrics alone; None without one.
        started: Gets the server before it runs.
    """
    app: ASGIApp = Guard(application, settings.access)
    if metrics is not None:
        app = MetricsPort(app, metrics.getsockname()[1])
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        headers=list(_SECURITY_HEADERS),
        proxy_headers=False,  # the address of a client is not used
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=1,
        limit_concurrency=None,
        backlog=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=_MAX_HEAD,
    )
    config.load()
    if settings.tls is not None:  # its files were read at the start; they may be replaced or deleted
        config.http_protocol_class = cast("Any", Handshakes(settings.tls.context, LimitedProtocol))
    server = uvicorn.Server(config)
    started(server)
    server.run(sockets=[listening] if metrics is None else [listening, metrics])
