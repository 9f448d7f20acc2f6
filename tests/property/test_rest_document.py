"""What the OpenAPI document allows and what not, sent to the API: nothing breaks, and all answers are as it says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance, unsupported_method
from tests.unit.rest.fakes import COUNTED, JOB, READ, Api, FakeControl, job

from penstock._engine.rest.app import ROUTES
from penstock._engine.rest.openapi import document

if TYPE_CHECKING:
    from schemathesis import Case

#: For each operation of the API.
EXAMPLES = hypothesis.settings().max_examples // 16
#: Values that exist, which nobody finds by chance.
KNOWN = {"jobid": JOB, "vertexid": READ, "checkpointid": 4, "subtaskindex": 0}

schema = schemathesis.openapi.from_dict({**document(ROUTES), "servers": [{"url": "/v1"}]})


@schema.parametrize()
@hypothesis.settings(max_examples=EXAMPLES, suppress_health_check=list(hypothesis.HealthCheck))
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
    answer = Api(FakeControl(replace(job(), **COUNTED))).ask(request.pop("method"), request.pop("url"), **request)
    assert answer.status_code < 500, answer.text
    case.validate_response(answer, excluded_checks=excluded)
