"""The context that every function is opened with."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from penstock._api.state.kinds import KeyedStateStore
from penstock._shelf import show

if TYPE_CHECKING:
    from penstock.common.accumulators import Accumulator, DoubleCounter, Histogram, IntCounter
    from penstock.metrics.metricbase import MetricGroup


class RuntimeContext(KeyedStateStore):
    """The context that a function is opened with: its subtask, state, metrics and accumulators.

    Keyed state needs a keyed stream; elsewhere the state methods raise. Accumulators, as in Flink's Java API, appear in
    the job's result: each belongs to an operator, and is merged over its subtasks and over all operators that have one
    of that name. An epoch's additions count once its checkpoint has completed.

    Source: org.apache.flink.api.common.functions.RuntimeContext.
    """

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the name of the chain of operators that the function runs in."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups, which is the largest parallelism that the operator can get."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the index of the subtask, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return how often the job was restarted, from 0."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Return the task's name with its subtask, such as ``"Map (1/4)#0"``; the index counts from 1."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a parameter of the job that ``ExecutionConfig.set_global_job_parameters`` set."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Return the group of the function's own metrics."""

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Register an accumulator, which begins empty.

        Args:
            name: Its name in the job's result.
            accumulator: A new accumulator, which the function keeps and adds to.

        Raises:
            UnsupportedOperationError: The operator has an accumulator of that name, or this is the context of a key
                selector or a partitioner.
        """

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator[Any, Any] | None:
        """Return an accumulator of the operator; None if it has none of that name."""

    @abstractmethod
    def get_int_counter(self, name: str) -> IntCounter:
        """Return a counter of integers; a new one if the operator has none of that name.

        Raises:
            AccumulatorTypeError: The operator has another kind of accumulator of that name.
        """

    @abstractmethod
    def get_double_counter(self, name: str) -> DoubleCounter:
        """Return a counter of floats, as ``get_int_counter`` does."""

    @abstractmethod
    def get_histogram(self, name: str) -> Histogram[Any]:
        """Return a histogram, as ``get_int_counter`` does."""


show("penstock.datastream.functions", RuntimeContext)
