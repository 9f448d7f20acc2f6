"""The dashboard: one page with its modules, which use the API as any other client does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import FileResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

STATIC: Final = Path(__file__).parent / "static"

#: Scripts and styles come from this server alone, no text is ever taken for HTML, and no page may frame it.
POLICY: Final = "; ".join(
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
#: Browsers ask whether a file has changed each time: after an upgrade no old module meets a new one.
_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _Assets(StaticFiles):
    """Files below /assets/."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Return a file, or that it has not changed."""
        response = super().file_response(*arguments, **options)
        response.headers.update(_HEADERS)
        return response


async def _index(_: Request) -> Response:
    return FileResponse(STATIC / "index.html", headers=_HEADERS)


ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/", _index),
    Mount("/assets", _Assets(directory=STATIC / "assets")),
)
