"""Routes declare path, query, body and role of a request; requests are read and checked by these declarations.

The OpenAPI document is generated from the same declarations, so the two cannot differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response

from penstock._engine.protocol.decoders import json_decoder
from penstock._engine.rest.access import Role
from penstock._engine.rest.http_error import ErrorResponseBody, HttpError, job_not_found
from penstock.common.user_values import encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._engine.gateway.job_control import JobControl
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.rest.context import RestContext


JSON: Final = "application/json; charset=UTF-8"


def json_of(answer: Any) -> bytes:
    """Return an answer as JSON; lone surrogates, which a user's text may have, are escaped."""
    return encoded(answer, msgspec.json.encode)


def error_response(error: HttpError) -> Response:
    """Return the response for an error."""
    return Response(json_of(ErrorResponseBody([error.text])), error.status, headers=error.headers, media_type=JSON)


_ID: Final = re.compile("[0-9a-f]{32}")
_WHOLE: Final = re.compile("[0-9]{1,18}")
#: Path parameters that are numbers. All parameters that are neither numbers nor names are ids.
NUMBERS: Final = frozenset({"checkpointid", "subtaskindex", "attempt"})
#: Path parameters that are names.
NAMES: Final = frozenset({"taskmanagerid", "jarid", "filename"})
_NAME: Final = re.compile("[^/]{1,255}")


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A query parameter."""

    name: str
    description: str
    #: The allowed values; empty if any text is allowed.
    choices: tuple[str, ...] = ()
    default: str | None = None
    number: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One path and method of the API."""

    method: str
    #: With parameters in braces, without the version.
    path: str
    handler: Callable[[HandlerRequest], Any]
    #: The type of the answer; `str` means plain text.
    answer: Any
    #: The status code of a success.
    code: int = 200
    #: The type of the body; None if the body is not read.
    body: Any = None
    query: tuple[QueryParameter, ...] = ()
    #: The other answers, by status code.
    errors: Mapping[int, str] = field(default_factory=dict[int, str])
    #: The role that a request needs; by default readers for GET, and operators for other methods.
    role: Role | None = None

    @property
    def parameters(self) -> list[str]:
        """The names of the path's parameters."""
        return re.findall(r"{(\w+)}", self.path)

    def check(self, role: Role) -> None:
        """Refuse a client without the role that the route needs; raises HttpError."""
        needed = self.role if self.role is not None else Role.READER if self.method == "GET" else Role.OPERATOR
        if role < needed:
            raise HttpError(403, f"The read-only token is not enough for {self.method} {self.path}.")


class HandlerRequest:
    """One request, as its handler sees it.

    Args:
        context: The context of the handlers.
        route: The route.
        path: The path's parameters as text.
        query: The query's parameters as text; the last one of a name counts.
        body: The request's body.

    Raises:
        HttpError: A part of the request is invalid.
    """

    def __init__(
        self, context: RestContext, route: Route, path: Mapping[str, str], query: Mapping[str, str], body: bytes
    ) -> None:
        self.context = context
        self._path = {name: _parameter(name, text) for name, text in path.items()}
        self._query = {parameter.name: _query_value(parameter, query) for parameter in route.query}
        #: The decoded body, of the type of the route's `body`; None without one.
        self.body: Any = None if route.body is None else _read(body, route.body)

    def id(self, name: str) -> str:
        """Return a path parameter that is an id."""
        return self._path[name]

    def number(self, name: str) -> int:
        """Return a path parameter that is a number."""
        return int(self._path[name])

    def query(self, name: str) -> str | None:
        """Return a query parameter, or its default."""
        return self._query[name]

    def names(self, name: str) -> list[str] | None:
        """Return a query parameter that is a list of names; None when it was left out."""
        value = self._query[name]
        return None if value is None else [part for part in value.split(",") if part]

    @property
    def control(self) -> JobControl:
        """The control of the job that the path names; raises HttpError for an unknown job."""
        job_id = self.id("jobid")
        control = self.context.jobs.find(job_id)
        if control is None:
            raise job_not_found(job_id)
        return control

    @property
    def job(self) -> JobView:
        """The current view of that job."""
        return self.control.view


def _parameter(name: str, text: str) -> str:
    pattern = _WHOLE if name in NUMBERS else _NAME if name in NAMES else _ID
    if pattern.fullmatch(text) is None:
        raise _unparsable("path", name, text)
    return text


def _query_value(parameter: QueryParameter, query: Mapping[str, str]) -> str | None:
    value = query.get(parameter.name, parameter.default)
    if value is None:
        return None
    if parameter.choices and value.lower() not in parameter.choices:
        raise _unparsable("query", parameter.name, value)
    if parameter.number and _WHOLE.fullmatch(value) is None:
        raise _unparsable("query", parameter.name, value)
    return value.lower() if parameter.choices else value


def _unparsable(kind: str, name: str, text: str) -> HttpError:
    reason = f'Cannot resolve {kind} parameter ({name}) from value "{text}".'
    return HttpError(400, f"Bad request, could not parse parameters: {reason}")


def _read(body: bytes, kind: Any) -> Any:
    """Read a body; an empty one has no members. Unknown members are ignored if the type allows it."""
    try:
        return json_decoder(kind).decode(body.strip() or b"{}")
    except msgspec.ValidationError as error:
        text = f"Request did not match expected format {getattr(kind, '__name__', kind)}: {error}."
        raise HttpError(400, text) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HttpError(400, f"Request did not match expected format {getattr(kind, '__name__', kind)}.") from None
