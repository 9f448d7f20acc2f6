"""State that expires: what a function's descriptor says of it, as the store of the operator takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.state.time_to_live import TimeToLive
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from penstock._api.state.descriptors import StateDescriptor
    from penstock._engine.operators.base import OperatorContext
    from penstock._engine.state.kinds.kind import AnyKind
    from penstock._engine.state.table import Table

#: The metric of rows that were removed because they had expired: a loss that is meant.
EXPIRED_ENTRIES: Final = "numExpiredStateEntries"


def declare_life(table: Table, kind: AnyKind, descriptor: StateDescriptor, context: OperatorContext) -> None:
    """Say whether the rows of a state expire, as the first function to ask for it has it.

    Args:
        table: The state.
        kind: What it is.
        descriptor: What it was asked for with.
        context: Of the operator.

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
