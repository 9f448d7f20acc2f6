"""Checks of operators' arguments, made at the call so that errors point at its line."""

from __future__ import annotations

from penstock._api.functions.basic import Function
from penstock._api.functions.endings import check_endings
from penstock._api.state.descriptors import MapStateDescriptor
from penstock._api.state.refusals import refuse_time_to_live
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.errors import UnsupportedOperationError


def check_function(argument: str, function: object, *kinds: type[Function], or_callable: bool = True) -> None:
    """Raise TypeError unless the argument is a function object of one of the kinds, or a callable where allowed.

    Its `finish`, `end_input` and `close` are checked as well.
    """
    if isinstance(function, kinds):
        check_endings(function, kinds)
        return
    is_callable = callable(function)
    forgot_call = isinstance(function, type) and issubclass(function, Function)
    if or_callable and is_callable and not forgot_call and not isinstance(function, Function):
        return
    wanted = " or ".join([kind.__name__ for kind in kinds] + ["a callable"] * or_callable)
    hint = f"; did you mean {function.__name__}()?" if isinstance(function, type) else "."
    msg = f"{argument} must be a {wanted}, not {function!r}{hint}"
    raise TypeError(msg)


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
    if not isinstance(strategy, WatermarkStrategy):
        msg = f"watermark_strategy must be a WatermarkStrategy, not {strategy!r}."
        raise TypeError(msg)
