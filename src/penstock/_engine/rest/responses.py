"""HTTP responses that the application and its guard share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response

from penstock._engine.rest.http_error import ErrorResponseBody
from penstock.common.user_values import encoded

if TYPE_CHECKING:
    from penstock._engine.rest.http_error import HttpError

JSON: Final = "application/json; charset=UTF-8"


def json_of(answer: Any) -> bytes:
    """Return an answer as JSON; lone surrogates, which a user's text may have, are escaped."""
    return encoded(answer, msgspec.json.encode)


def error_response(error: HttpError) -> Response:
    """Return the response for an error."""
    return Response(json_of(ErrorResponseBody([error.text])), error.status, headers=error.headers, media_type=JSON)
