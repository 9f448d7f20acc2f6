"""HTTP responses that the application and its guard share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response

from penstock._engine.rest.refusal import Errors

if TYPE_CHECKING:
    from penstock._engine.rest.refusal import Refusal

JSON: Final = "application/json; charset=UTF-8"


def refuse(refusal: Refusal) -> Response:
    """Return the response that is no success."""
    body = msgspec.json.encode(Errors([refusal.text]))
    return Response(body, refusal.status, headers=refusal.headers, media_type=JSON)
