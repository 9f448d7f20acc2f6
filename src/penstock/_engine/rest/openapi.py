"""The OpenAPI document, generated from the routes and their types, and an offline page that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import __version__
from penstock._engine.rest.http_error import ErrorResponseBody
from penstock._engine.rest.routing import NAMES, NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._engine.rest.routing import QueryParameter, Route

DOCUMENT_PATH: Final = "/openapi.json"
PAGE_PATH: Final = "/api"

_REFERENCE: Final = "#/components/schemas/{name}"
_USUAL: Final = {
    400: "Something in the request cannot be.",
    401: "A token is needed.",
    403: "The token is not enough for it, or the request comes from a page or by a name that is not known.",
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of some routes."""
    known = list(routes)
    types = [kind for route in known for kind in (route.answer, route.body) if kind is not None]
    schemas, components = msgspec.json.schema_components([*types, ErrorResponseBody], ref_template=_REFERENCE)
    schema_of = {repr(kind): schema for kind, schema in zip(types, schemas, strict=False)}
    paths: dict[str, dict[str, Any]] = {}
    for route in known:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock: Flink's REST API",
            "version": __version__,
            "description": "Every path is there below /v1, too. Members named penstock are not Flink's.",
        },
        "servers": [{"url": "/v1"}, {"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route, schema_of: dict[str, Any]) -> dict[str, Any]:
    summary = (route.handler.__doc__ or "").partition("\n")[0]
    kind = "text/plain" if route.answer is str else "application/json"
    errors = _USUAL | dict(route.errors)
    operation: dict[str, Any] = {
        "summary": summary,
        "operationId": _operation_id(route),
        "tags": [route.handler.__module__.rpartition(".")[2]],
        "parameters": [*map(_path_parameter, route.parameters), *map(_query_parameter, route.query)],
        "responses": {
            str(route.code): {"description": summary, "content": {kind: {"schema": schema_of[repr(route.answer)]}}},
            **{str(code): _refusal(meaning) for code, meaning in sorted(errors.items())},
        },
    }
    if route.body is not None:
        content = {"application/json": {"schema": schema_of[repr(route.body)]}}
        operation["requestBody"] = {"required": False, "content": content}
    return operation


def _operation_id(route: Route) -> str:
    words = [part.strip("{}") for part in route.path.split("/") if part]
    return "_".join([route.method.lower(), *words]).replace("-", "_")


def _refusal(meaning: str) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(name=ErrorResponseBody.__name__)}
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}


def _path_parameter(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
    if name in NUMBERS:
        schema = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
    elif name in NAMES:
        schema = {"type": "string", "minLength": 1, "maxLength": 255}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameter(query: QueryParameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if query.number:
        schema = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
    elif query.choices:
        schema["enum"] = list(query.choices)
    if query.default is not None:
        schema["default"] = query.default
    return {"name": query.name, "in": "query", "required": False, "description": query.description, "schema": schema}
