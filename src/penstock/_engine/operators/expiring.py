"""Time to live from a function's state descriptor, declared to the operator's store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.state.time_to_live import TimeToLive
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._api.state.descriptors import StateDescriptor
    from penstock._engine.operators.base import OperatorContext
    from penstock._engine.state.kinds.kind import AnyKind
    from penstock._engine.state.table import Table

#: The metric of removed expired rows, which are an intended loss.
EXPIRED_ENTRIES: Final = "numExpiredStateEntries"


def declare_life(table: Table, kind: AnyKind, descriptor: StateDescriptor, context: OperatorContext) -> None:
    """Declare whether the rows of a state expire, by the first descriptor that a function uses.

    Args:
        table: The state.
        kind: The kind of the state.
        descriptor: The descriptor that the function uses.
        context: The context of the operator.

    Raises:
        UnsupportedOperationError: State of that kind cannot expire.
    """
    if not table.life.was_declared:
        config = descriptor.ttl_config
        if config is None or not config.is_enabled():
            table.life.declare(None)
        elif not kind.can_expire:
            what = f"A time to live of the state {descriptor.get_name()!r}"
            raise UnsupportedOperationError(what, f"{kind.name} state stays until it is cleared")
        else:
            table.life.declare(TimeToLive(config, context.clock, context.metrics.counter(EXPIRED_ENTRIES).inc))
