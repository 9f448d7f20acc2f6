"""HTTP responses that the application and its guard share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response

from penstock._engine.rest.http_error import ErrorResponseBody

if TYPE_CHECKING:
    from penstock._engine.rest.http_error import HttpError

JSON: Final = "application/json; charset=UTF-8"


def error_response(error: HttpError) -> Response:
    """Return the response that is no success."""
    body = msgspec.json.encode(ErrorResponseBody([error.text]))
    return Response(body, error.status, headers=error.headers, media_type=JSON)
