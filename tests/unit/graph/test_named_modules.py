"""The modules that a task has to import for a job's functions."""

from __future__ import annotations

import pickle

import cloudpickle
import numpy as np
import pytest
from tests.kit import cells

from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.named_modules import modules_of, named_modules
from penstock.datastream import StreamExecutionEnvironment


def of_this_module(value: int) -> int:
    return value


def by_value() -> object:
    def function(value: int) -> object:
        return np.array([value]), cells, cells.cells

    function.__module__ = "__main__"
    return function


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_functions_by_name_and_modules_that_functions_use_are_found(protocol: int) -> None:
    twice = by_value()
    functions = {"a": [twice, twice], "b": of_this_module, "c": twice}
    pickled = cloudpickle.dumps(functions, protocol=protocol)  # pyright: ignore[reportUnknownMemberType]
    assert {of_this_module.__module__, "numpy", "tests.kit.cells"} <= set(named_modules(pickled))


def test_modules_that_each_worker_has_and_texts_are_left_out() -> None:
    pickled = pickle.dumps([pickle.dumps, StreamExecutionEnvironment, "tests.kit.cells", {"numpy": "subimport"}])
    assert list(named_modules(pickled)) == []


def test_those_of_all_operators_and_partitioners_of_a_job_are_found() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1, 2]).map(of_this_module)
    numbers.partition_custom(lambda key, n: int(np.uint8(key)) % n, lambda value: value).print()
    assert {of_this_module.__module__, "numpy"} <= set(modules_of(build_job_graph(env._stream_graph("job"))))
