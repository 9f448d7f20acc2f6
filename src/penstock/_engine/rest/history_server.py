"""Serves the history of jobs: the paths of Flink's history server, and the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from penstock._engine.protocol.clocks import Moment
from penstock._engine.rest.access import OneTimeCodes
from penstock._engine.rest.address import listen
from penstock._engine.rest.app import make_app
from penstock._engine.rest.context import Jobs, RestContext
from penstock._engine.rest.directories import DirectoryPolicy
from penstock._engine.rest.handlers import cluster, tokens
from penstock._engine.rest.history import OVERVIEW
from penstock._engine.rest.http import serve
from penstock._engine.rest.http_error import HttpError, job_not_found
from penstock._engine.rest.routing import JSON, HandlerRequest, Route, error_response
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request

    from penstock._engine.rest.history import History
    from penstock._engine.rest.settings import RestSettings

_NONE: Final = "There is nothing of this path in the archive of the job."


def serve_history(
    history: History,
    settings: RestSettings,
    announce: Callable[[str], None],
    started: Callable[[uvicorn.Server], Any] = lambda _: None,
) -> None:
    """Serve until the process is interrupted.

    Args:
        history: The jobs.
        settings: Address, access and TLS.
        announce: Gets the link to the page, with a code where the server takes a token.
        started: Gets the server before it runs.

    Raises:
        ConfigurationError: It cannot listen at the configured address.
    """
    listening = listen(settings.bind_address)
    address, codes = settings.url(listening.getsockname()[1]), OneTimeCodes(Moment.now)
    announce(address if settings.access.token is None else f"{address}/#code={codes.new()}")
    with listening:
        serve(history_app(history, settings.access.token, codes), settings, listening, None, started)


def history_app(history: History, token: str | None, codes: OneTimeCodes) -> Starlette:
    """Return the application over a history."""
    nothing = cast("Any", None)
    context = RestContext(
        *(
            Jobs(0, Moment.now),
            nothing,
            Moment.now,
            tuple,
            dict[str, str](),
            DirectoryPolicy(()),
            nothing,
            codes,
            token,
            nothing,
        )
    )

    def archived(request: Request) -> Response:
        path, query = f"/{request.path_params['path']}", request.query_params
        try:
            return Response(_answer(history, path, query.get("get")), media_type=JSON)
        except CheckpointStorageError as error:
            return error_response(HttpError(503, f"The archives cannot be read: {error}"))

    routes = (Route("GET", "/config", _dashboard, cluster.DashboardConfiguration), *tokens.ROUTES)
    return make_app(context, routes, [StarletteRoute("/jobs/{path:path}", archived, methods=["GET"])])


def _dashboard(request: HandlerRequest) -> cluster.DashboardConfiguration:
    """The settings of the web page, which shows jobs that have ended."""
    features = cluster.DashboardFeatures(web_cancel=False, web_history=True)
    return msgspec.structs.replace(cluster.dashboard(request), features=features)


def _answer(history: History, path: str, names: str | None) -> bytes:
    """Return the answer of a path below ``/jobs``; raises HttpError for an unknown one, CheckpointStorageError."""
    if path == OVERVIEW.removeprefix("/jobs"):
        return msgspec.json.encode({"jobs": history.lines()})
    run, slash, below = path.removeprefix("/").partition("/")
    found = history.find(run)
    if found is None:
        raise job_not_found(run)
    answer = found.answer(f"{slash}{below}", run)
    if answer is None:
        raise HttpError(404, _NONE)
    known = msgspec.json.decode(answer)
    if "errors" in known:
        raise HttpError(404, known["errors"][0])
    if names is not None:
        return msgspec.json.encode([one for one in known if one["id"] in names.split(",")])
    return answer
