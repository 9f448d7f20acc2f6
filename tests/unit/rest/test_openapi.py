"""The OpenAPI document: complete, and true when somebody sends what it allows and what it does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance, unsupported_method
from tests.unit.rest.fakes import JOB, READ, Api, FakeControl

from penstock._engine.rest.app import ROUTES
from penstock._engine.rest.openapi import document

if TYPE_CHECKING:
    from schemathesis import Case

DOCUMENT = document(ROUTES)
#: Values that exist, which nobody finds by chance.
KNOWN = {"jobid": JOB, "vertexid": READ, "checkpointid": 4, "subtaskindex": 0}


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


schema = schemathesis.openapi.from_dict({**DOCUMENT, "servers": [{"url": "/v1"}]})


@schema.parametrize()
@hypothesis.settings(max_examples=5, suppress_health_check=list(hypothesis.HealthCheck))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nothing_that_is_sent_breaks_a_handler(case: Case) -> None:
    # A path with another method may fit another route, whose complaint comes first; and what the document allows may
    # still be refused, as Flink refuses to rescale.
    excluded = [unsupported_method, positive_data_acceptance]
    _check(case, excluded)
    case.path_parameters = {name: KNOWN.get(name, value) for name, value in (case.path_parameters or {}).items()}
    _check(case, [*excluded, negative_data_rejection])  # what was wrong in the path is right now


def _check(case: Case, excluded: list[Any]) -> None:
    request = case.as_transport_kwargs()
    answer = Api(FakeControl()).ask(request.pop("method"), request.pop("url"), **request)
    assert answer.status_code < 500, answer.text
    case.validate_response(answer, excluded_checks=excluded)
