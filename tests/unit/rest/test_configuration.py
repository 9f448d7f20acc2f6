"""Where the values of a job's configuration come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.rest.fakes import JOB, Api, FakeControl, job

if TYPE_CHECKING:
    import pytest


def test_each_value_says_where_it_was_set_and_secrets_stay_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PARALLELISM__DEFAULT", "2")
    monkeypatch.setenv("PENSTOCK_REST__TOKEN", "a-token-that-nobody-sees")
    monkeypatch.setenv("PENSTOCK_PIPELINE__NAME", "of the environment")
    configuration = {
        "parallelism.default": "2",
        "penstock.rest.token": "******",
        "pipeline.name": "of the program",
        "own.key": "1",
    }
    rows = Api(FakeControl(job(configuration=configuration))).get(f"/v1/jobs/{JOB}/penstock/configuration")
    told = {row["key"]: (row["value"], row["origin"]) for row in rows}
    assert told["parallelism.default"] == ("2", "the environment variable PENSTOCK_PARALLELISM__DEFAULT")
    assert told["penstock.rest.token"] == ("******", "the environment variable PENSTOCK_REST__TOKEN")
    assert told["pipeline.name"] == ("of the program", "the program")
    assert told["own.key"] == ("1", "the program")
    defaults = {row["key"]: row["default"] for row in rows if row["origin"] == "default"}
    assert defaults["jobstore.expiration-time"] == "1 h"
    assert len(defaults) > 50
