"""The OpenAPI document and its page."""

from __future__ import annotations

import json

from tests.unit.rest.fakes import Api

from penstock._engine.rest.app import ROUTES
from penstock._engine.rest.openapi import document

DOCUMENT = document(ROUTES)


def test_every_route_is_in_the_document() -> None:
    described = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    assert len(
        {operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()}
    ) == (len(ROUTES))


def test_every_handler_says_what_it_is() -> None:
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            assert operation["summary"].endswith((".", "…")), operation["operationId"]


def test_the_document_is_served_and_its_page_needs_nothing_from_elsewhere() -> None:
    api = Api()
    assert api.get("/openapi.json") == json.loads(json.dumps(DOCUMENT))
    page = api.ask("GET", "/api")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "http://" not in page.text
    assert "https://" not in page.text
