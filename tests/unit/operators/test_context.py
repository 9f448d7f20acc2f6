"""What a function is told by the context that it is opened with."""

from __future__ import annotations

from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.functions.stateless import MapOperator
from penstock.common.configuration import Configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.testing.harness import OperatorHarness


def test_functions_find_the_job_parameters_that_the_program_has_set() -> None:
    configuration = Configuration()
    ExecutionConfig(configuration).set_global_job_parameters({"region": "eu"})
    operator = MapOperator(str)
    OperatorHarness(operator).open()
    operator.context.configuration.update(configuration.to_dict())
    context = EngineRuntimeContext(operator.context)
    assert context.get_job_parameter("region", "us") == "eu"
    assert context.get_job_parameter("limit", "5") == "5"
