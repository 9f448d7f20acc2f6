"""The files of the dashboard and of the page about the API; their scripts are ordinary clients of the API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.responses import FileResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from penstock._engine.rest.openapi import PAGE_PATH

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

STATIC: Final = Path(__file__).parent / "static"


async def _index(_: Request) -> Response:
    return FileResponse(STATIC / "index.html")


async def _reference(_: Request) -> Response:
    return FileResponse(STATIC / "api.html")


ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/", _index),
    Route(PAGE_PATH, _reference),
    Mount("/assets", StaticFiles(directory=STATIC / "assets")),
)
