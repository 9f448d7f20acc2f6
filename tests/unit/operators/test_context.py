"""What a function is told by the context that it is opened with."""

from __future__ import annotations

from typing import Any

import pytest

from penstock._engine.operators.context import EngineRuntimeContext
from penstock._engine.operators.stateless import MapOperator
from penstock.common.configuration import Configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.common.time import Time
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor
from penstock.errors import UnsupportedOperationError
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


class Expiring(KeyedProcessFunction):
    """Asks for a state whose values are to expire."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("seen")
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(5)).build())
        runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        """Do nothing."""


def test_state_that_is_to_expire_is_refused_rather_than_kept_for_ever() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"time to live of the state 'seen'.*clear them in on_timer"):
        OperatorHarness.for_keyed_process(Expiring(), lambda value: value).open()
