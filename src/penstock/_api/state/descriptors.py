"""State descriptors: the name and the settings of a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock._api.functions.basic import AggregateFunction, ReduceFunction
from penstock._api.state.ttl import StateTtlConfig
from penstock._shelf import show
from penstock.common.names import checked_name
from penstock.common.typeinfo import TypeInformation, Types

if TYPE_CHECKING:
    from collections.abc import Callable


class StateDescriptor:
    """The name and the type of a state.

    The name identifies the state after a failure and in a savepoint; it is unique within one function.

    Args:
        name: The name.
        type_info: The type of its values; optional.

    Raises:
        TypeError: The type is none.
        UnsupportedOperationError: The name has line breaks or other characters that cannot be shown, or more than 500.

    Source: org.apache.flink.api.common.state.StateDescriptor.
    """

    def __init__(self, name: str, type_info: TypeInformation | None = None) -> None:
        self.name: str = checked_name(name, type(self).__name__, "the name of a state")
        self.type_info: TypeInformation = _given(type_info)
        self.ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let values expire.

        Args:
            ttl_config: When values expire.

        Raises:
            TypeError: It is no StateTtlConfig.
        """
        if not isinstance(ttl_config, StateTtlConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"ttl_config must be a StateTtlConfig, made by StateTtlConfig.new_builder(...), not {ttl_config!r}."
            raise TypeError(msg)
        self.ttl_config = ttl_config


class ValueStateDescriptor(StateDescriptor):
    """Describes a state of one value per key.

    Args:
        name: The name of the state.
        value_type_info: The type of the value; optional.

    Source: org.apache.flink.api.common.state.ValueStateDescriptor.

    Example:
        >>> ValueStateDescriptor("count").get_name()
        'count'
    """

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a state of one list per key.

    Args:
        name: The name of the state.
        elem_type_info: The type of the list's elements; optional.

    Source: org.apache.flink.api.common.state.ListStateDescriptor.
    """

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, Types.LIST(_given(elem_type_info)))


class MapStateDescriptor(StateDescriptor):
    """Describes a state of one map per key, or a broadcast map.

    Args:
        name: The name of the state.
        key_type_info: The type of the map's keys; optional.
        value_type_info: The type of the map's values; optional.

    Source: org.apache.flink.api.common.state.MapStateDescriptor.
    """

    def __init__(
        self, name: str, key_type_info: TypeInformation | None = None, value_type_info: TypeInformation | None = None
    ) -> None:
        super().__init__(name, Types.MAP(_given(key_type_info), _given(value_type_info)))


class ReducingStateDescriptor(StateDescriptor):
    """Describes a state of one value per key, to which a reduce function adds.

    Args:
        name: The name of the state.
        reduce_function: A ReduceFunction, or a callable of two values.
        type_info: The type of the value; optional.

    Raises:
        TypeError: The function is neither.

    Source: org.apache.flink.api.common.state.ReducingStateDescriptor.
    """

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        type_info: TypeInformation | None = None,
    ) -> None:
        super().__init__(name, type_info)
        self._reduce_function = as_reduce_function(reduce_function)

    def get_reduce_function(self) -> ReduceFunction[Any]:
        """Return the function."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes a state of one accumulator per key, to which an aggregate function adds.

    Args:
        name: The name of the state.
        agg_function: The function.
        state_type_info: The type of the accumulator; optional.

    Raises:
        TypeError: The function is no AggregateFunction.

    Source: org.apache.flink.api.common.state.AggregatingStateDescriptor.
    """

    def __init__(
        self, name: str, agg_function: AggregateFunction[Any, Any, Any], state_type_info: TypeInformation | None = None
    ) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"agg_function must be an AggregateFunction, not {agg_function!r}."
            raise TypeError(msg)
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction[Any, Any, Any]:
        """Return the function."""
        return self._agg_function


class _CallableReduce(ReduceFunction[Any]):
    """A plain callable as a ReduceFunction."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self._function(value1, value2)


def as_reduce_function(function: object) -> ReduceFunction[Any]:
    """Return a reduce function as an object; raise TypeError if it is none."""
    if isinstance(function, ReduceFunction):
        return cast("ReduceFunction[Any]", function)
    if not callable(function):
        msg = f"reduce_function must be a ReduceFunction or a callable, not {function!r}."
        raise TypeError(msg)
    return _CallableReduce(function)


def _given(type_info: TypeInformation | None) -> TypeInformation:
    if type_info is None:
        return Types.PICKLED_BYTE_ARRAY()
    if not isinstance(type_info, TypeInformation):  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"The type of a state must be one such as Types.INT(), or None, not {type_info!r}."
        raise TypeError(msg)
    return type_info


show(
    "penstock.datastream.state",
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
