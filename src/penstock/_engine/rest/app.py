"""The application: Flink's routes, with and without the version before them, the API's document, and the dashboard."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Mount
from starlette.routing import Route as StarletteRoute

from penstock._engine.rest import pages, prometheus
from penstock._engine.rest.handlers import (
    checkpoint_subtasks,
    checkpoints,
    cluster,
    configuration,
    exceptions,
    executors,
    jobs,
    log,
    metric_series,
    metrics,
    operations,
    refusals,
    steering,
    tokens,
    vertices,
)
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.openapi import DOCUMENT_PATH, document
from penstock._engine.rest.routing import JSON, HandlerRequest, Route, error_response, json_of
from penstock.common.redaction import hiding

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from penstock._engine.rest.context import RestContext

_log = hiding(logging.getLogger(__name__))

#: All routes. If two match a path, the one whose earlier segment is literal wins.
ROUTES: Final[tuple[Route, ...]] = (
    *cluster.ROUTES,
    *configuration.ROUTES,
    *metrics.ROUTES,
    *metric_series.ROUTES,
    *checkpoints.ROUTES,
    *checkpoint_subtasks.ROUTES,
    *jobs.ROUTES,
    *steering.ROUTES,
    *exceptions.ROUTES,
    *log.ROUTES,
    *operations.ROUTES,
    *vertices.ROUTES,
    *executors.ROUTES,
    *refusals.ROUTES,
    *tokens.ROUTES,
)


def make_app(context: RestContext, routes: Iterable[Route] = ROUTES, others: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the application for the jobs of a process.

    Args:
        context: The context of the handlers.
        routes: The routes of the API.
        others: Further ones, for paths that no route of the API has.
    """
    by_path: dict[str, dict[str, Route]] = {}
    for route in sorted(routes, key=lambda route: [part.startswith("{") for part in route.path.split("/")]):
        by_path.setdefault(route.path, {})[route.method] = route
    api = [StarletteRoute(path, _endpoint(context, routes), methods=[*routes]) for path, routes in by_path.items()]
    about = StarletteRoute(DOCUMENT_PATH, _document)
    return Starlette(
        routes=[Mount("/v1", routes=[*api, *others]), *api, about, *pages.ROUTES, *others],
        exception_handlers={HttpError: _refused, HTTPException: _no_route, Exception: _broken},  # type: ignore[dict-item]
    )


def _endpoint(context: RestContext, routes: Mapping[str, Route]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        body = request.scope["penstock.body"]
        route = routes["GET" if request.method == "HEAD" else request.method]
        route.check(request.scope["penstock.role"])
        handler_request = HandlerRequest(context, route, request.path_params, request.query_params, body)
        return _answer(route.code, route.handler(handler_request))

    return endpoint


async def _document(_: Request) -> Response:
    return Response(msgspec.json.encode(document(ROUTES)), media_type=JSON)


def _answer(code: int, answer: Any) -> Response:
    if isinstance(answer, str):
        return Response(answer, code, media_type=prometheus.CONTENT_TYPE)
    return Response(json_of(answer), code, media_type=JSON)


async def _refused(_: Request, error: HttpError) -> Response:
    return error_response(error)


async def _no_route(request: Request, error: HTTPException) -> Response:
    """Answer a request for an unknown path or method as Flink does."""
    target = request.url.path
    if error.status_code == 405:
        text = f"{request.method} is not possible for {target}"
    elif request.method in {"GET", "HEAD"}:
        text = f"Unable to load requested file {target}."
    else:
        text = f"Not found: {target}"
    return error_response(HttpError(error.status_code, text, dict(error.headers or {})))


async def _broken(request: Request, error: Exception) -> Response:
    _log.error("A bug of Penstock: %s %s failed", request.method, request.url.path, exc_info=error)
    return error_response(HttpError(500, "Internal server error."))
