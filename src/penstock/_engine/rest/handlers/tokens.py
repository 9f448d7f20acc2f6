"""Exchanges the one-time code of a link for the token."""

from __future__ import annotations

from typing import Final

import msgspec

from penstock._engine.rest.access import Role
from penstock._engine.rest.http_error import HttpError
from penstock._engine.rest.routing import HandlerRequest, Route

#: The path that a page uses before it has a token.
TOKEN_PATH: Final = "/penstock/token"  # noqa: S105 - a path


class TokenRequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """The code of a link."""

    code: str


class TokenResponse(msgspec.Struct):
    """The bearer token of a client."""

    token: str


class CodeResponse(msgspec.Struct):
    """A code for a link, good once and for an hour."""

    code: str


def give_token(request: HandlerRequest) -> TokenResponse:
    """Give the operator's token for the code of a link, once."""
    body: TokenRequestBody = request.body
    if not request.context.codes.redeem(body.code):
        raise HttpError(401, "This link was used already, or is too old: penstock dashboard prints a new one.")
    return TokenResponse(_token(request))


def new_code(request: HandlerRequest) -> CodeResponse:
    """Make a code for one more link."""
    assert _token(request)
    return CodeResponse(request.context.codes.new())


def _token(request: HandlerRequest) -> str:
    if request.context.token is None:
        raise HttpError(404, "This server takes no token, so there is none to give.")
    return request.context.token


_NO_TOKEN = {404: "The server takes no token."}

ROUTES = (
    Route(
        *("POST", TOKEN_PATH, give_token, TokenResponse),
        body=TokenRequestBody,
        role=Role.ANYBODY,
        errors={401: "The code is good no more.", **_NO_TOKEN},
    ),
    Route("POST", "/penstock/code", new_code, CodeResponse, errors=_NO_TOKEN),
)
