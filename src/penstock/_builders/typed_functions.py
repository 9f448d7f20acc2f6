"""Gives reduce functions, aggregate functions and key selectors the declared type of their results, if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.functions.held import HeldAggregate, HeldKey, HeldReduce
from penstock.common.conversion import conversion

if TYPE_CHECKING:
    from penstock._api.functions.basic import AggregateFunction
    from penstock.common.typeinfo import TypeInformation


def typed_reduce(function: Any, type_info: TypeInformation | None) -> Any:
    """Return a reduce function whose results are converted to a type, if there is one."""
    return function if conversion(type_info, "") is None or type_info is None else HeldReduce(function, type_info)


def typed_aggregate(
    function: AggregateFunction[Any, Any, Any], type_info: TypeInformation | None
) -> AggregateFunction[Any, Any, Any]:
    """Return an aggregate function whose accumulators are converted to a type, if there is one."""
    return function if conversion(type_info, "") is None or type_info is None else HeldAggregate(function, type_info)


def typed_key(key_selector: Any, type_info: TypeInformation | None) -> Any:
    """Return a key selector whose keys are converted to a type, if there is one."""
    return key_selector if conversion(type_info, "") is None or type_info is None else HeldKey(key_selector, type_info)
