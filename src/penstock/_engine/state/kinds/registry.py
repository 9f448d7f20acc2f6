"""All kinds of keyed state that functions can ask for: a new one is a module beside this one, and a line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._engine.state.kinds.aggregating import AggregatingKind
from penstock._engine.state.kinds.lists import ListKind
from penstock._engine.state.kinds.maps import MapKind
from penstock._engine.state.kinds.reducing import ReducingKind
from penstock._engine.state.kinds.value import ValueKind

if TYPE_CHECKING:
    from penstock._api.state.descriptors import StateDescriptor
    from penstock._engine.state.kinds.kind import AnyKind

KINDS: Final[list[AnyKind]] = [
    ValueKind(),
    ListKind(),
    MapKind(),
    ReducingKind(),
    AggregatingKind(),
]


def kind_of(descriptor: StateDescriptor) -> AnyKind:
    """Return the kind that a descriptor asks for.

    Raises:
        TypeError: There is none.
    """
    for kind in KINDS:
        if isinstance(descriptor, kind.descriptor):
            return kind
    msg = f"{descriptor!r} asks for no kind of state that there is"
    raise TypeError(msg)


def has_sub_keys(name: str) -> bool:
    """Return whether a key has a row for each sub-key in states of a kind, be it one of functions or not.

    Args:
        name: What it is called in checkpoints, without a type.
    """
    return any(kind.name == name and kind.has_sub_keys for kind in KINDS)


def kind_named(name: str) -> AnyKind:
    """Return the kind of a name."""
    return next(kind for kind in KINDS if kind.name == name)
