"""Checks of operators' arguments, made at the call so that errors point at its line."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final, Literal, TypeAlias, cast

from penstock._api.functions.basic import Function, KeySelector
from penstock._api.functions.endings import check_endings
from penstock._api.functions.field_key import FieldKey
from penstock._api.state.kinds import MapStateDescriptor
from penstock._api.state.refusals import refuse_time_to_live
from penstock._builders.signatures import check_calls
from penstock.common.arguments import instance
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.errors import UnsupportedOperationError

BatchFormat: TypeAlias = Literal["arrow", "pandas", "polars"]
_FORMATS: Final = ("arrow", "pandas", "polars")


def check_function(
    argument: str, function: object, *kinds: type[Function], or_callable: bool = True, may_yield: bool = False
) -> None:
    """Raise TypeError unless the argument is a function object of one of the kinds, or a callable where allowed.

    It must also be declared as the operator calls it, which includes `finish`, `end_input` and `close`.

    Args:
        argument: The name of the argument.
        function: Its value.
        *kinds: The kinds of function that the operator takes.
        or_callable: Whether it takes any callable as well.
        may_yield: Whether functions of any kind may yield.
    """
    if isinstance(function, kinds):
        check_endings(function, kinds)
        check_calls(argument, function, kinds, may_yield=may_yield)
        return
    is_callable = callable(function)
    forgot_call = isinstance(function, type) and issubclass(function, Function)
    if or_callable and is_callable and not forgot_call and not isinstance(function, Function):
        check_calls(argument, cast("object", function), kinds, may_yield=may_yield)
        return
    wanted = " or ".join([kind.__name__ for kind in kinds] + ["a callable"] * or_callable)
    hint = f"; did you mean {function.__name__}()?" if isinstance(function, type) else "."
    msg = f"{argument} must be a {wanted}, not {function!r}{hint}"
    raise TypeError(msg)


def checked_key_selector(argument: str, selector: object) -> Any:
    """Return a key selector, made of a field's name where that is given.

    Raises:
        TypeError: It is neither a KeySelector, nor a callable of a record, nor a name.
    """
    if isinstance(selector, str):
        return FieldKey(selector)
    check_function(argument, selector, KeySelector)
    return selector


def check_type(argument: str, type_info: object) -> None:
    """Raise TypeError unless the argument is the type of a stream's records, or None."""
    if type_info is not None and not isinstance(type_info, TypeInformation):
        name = getattr(type_info, "__name__", None)
        hint = f"; did you mean Types.{name}()?" if callable(type_info) and hasattr(Types, str(name)) else "."
        msg = f"{argument} must be a type such as Types.INT(), or None, not {type_info!r}{hint}"
        raise TypeError(msg)


def check_format(method: str, batch_format: str) -> None:
    """Raise unless a method can give its function batches in a format.

    Raises:
        ValueError: The format is unknown.
        UnsupportedOperationError: Its package is not installed.
    """
    if batch_format not in _FORMATS:
        msg = f"batch_format must be one of {', '.join(_FORMATS)}, not {batch_format!r}."
        raise ValueError(msg)
    if batch_format == "polars" and find_spec("polars") is None:
        operation = f'{method}(..., batch_format="polars")'
        raise UnsupportedOperationError(operation, "polars is not installed; install it where the job runs, too")


def check_broadcast_descriptors(descriptors: tuple[object, ...]) -> None:
    """Raise unless the arguments are descriptors of broadcast maps."""
    names: set[str] = set()
    for descriptor in descriptors:
        if not isinstance(descriptor, MapStateDescriptor):
            msg = f"broadcast() takes MapStateDescriptors, not {descriptor!r}."
            raise TypeError(msg)
        refuse_time_to_live(descriptor)
        if descriptor.get_name() in names:
            operation = f"broadcast() with two descriptors named {descriptor.get_name()!r}"
            raise UnsupportedOperationError(operation, "each map needs a name of its own")
        names.add(descriptor.get_name())


def check_watermark_strategy(strategy: object) -> None:
    """Raise TypeError unless the value is a watermark strategy."""
    instance("watermark_strategy", strategy, WatermarkStrategy)
