"""HTTP responses that the application and its guard share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from starlette.responses import Response

from penstock._engine.rest.http_error import ErrorResponseBody
from penstock._errors.text import printable

if TYPE_CHECKING:
    from penstock._engine.rest.http_error import HttpError

JSON: Final = "application/json; charset=UTF-8"


def json_of(answer: Any) -> bytes:
    """Return an answer as JSON; lone surrogates, which a user's text may have, are escaped."""
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:  # else one such text would break the answers about all jobs
        return msgspec.json.encode(_printable(msgspec.to_builtins(answer)))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_printable(name): _printable(item) for name, item in cast("dict[Any, Any]", value).items()}
    return value


def error_response(error: HttpError) -> Response:
    """Return the response for an error."""
    return Response(json_of(ErrorResponseBody([error.text])), error.status, headers=error.headers, media_type=JSON)
