"""Tells whether the state of an operator is of the kind that the operator with its uid has now.

A uid says which operator of the program gets the state, and not whether that can use it: windows given to a map, splits
given to another source, keys of another type would be left lying without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import OperatorPlace

#: Kinds whose state is what functions have named, so that a function goes on with it in another kind of this group.
_NAMED_BY_FUNCTIONS: Final = (
    {"keyed_process", "keyed_co_process", "keyed_broadcast_process"},
    {"map", "flat_map", "filter", "process", "co_map", "co_flat_map", "co_process", "broadcast_process"},
)


def misfit(before: OperatorPlace, after: OperatorPlace) -> str | None:
    """Return why an operator cannot have the state of the one with its uid, a clause with both; None if it can.

    Args:
        before: The operator in the checkpoint.
        after: The operator of the program.
    """
    if before.kind != after.kind and not any({before.kind, after.kind} <= group for group in _NAMED_BY_FUNCTIONS):
        return f"it was of kind {before.kind}, and is of kind {after.kind} now"
    if before.splits and after.splits and before.splits != after.splits:
        return f"its splits were {before.splits}, and are {after.splits} now"
    if before.key_type and after.key_type and before.key_type != after.key_type:
        return f"its keys were of type {before.key_type}, and are of type {after.key_type} now"
    return None
