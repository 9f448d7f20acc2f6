"""The source behind from_collection passes the contract of all sources."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock._connectors.collection import CollectionSource
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import DeclaredTypeError
from penstock.testing.source_contract import SourceContract, SourceRun


def source(records: list[Any]) -> CollectionSource:
    return CollectionSource(pickle.dumps(records))


@pytest.mark.parametrize("records", [[], [None], [1, 1, 2], list(range(20_000))])
def test_contract(records: list[Any]) -> None:
    SourceContract(lambda: source(records), records).check_all()


def test_records_that_a_function_changed_are_read_again_as_they_were() -> None:
    shared = source([{"n": 1}])
    for _ in range(2):
        run = SourceRun(shared)
        [record] = run.run_to_end()
        assert record == {"n": 1}
        record["n"] = 2


def test_value_that_does_not_fit_its_type_is_told_with_what_can_be_changed() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(DeclaredTypeError, match=r"Change the value, declare another type") as caught:
        env.from_collection([1, "two"], Types.INT())
    assert "function" not in str(caught.value)
