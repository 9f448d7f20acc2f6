"""All kinds of keyed state that functions can use: a new kind is a module beside this one, and a line here."""

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
        TypeError: No kind has descriptors of this class.
    """
    for kind in KINDS:
        if isinstance(descriptor, kind.descriptor):
            return kind
    msg = f"{descriptor!r} does not describe any kind of keyed state"
    raise TypeError(msg)


def has_sub_keys(name: str) -> bool:
    """Return whether states of a kind have a row for each sub-key, as maps have.

    Args:
        name: The name of the kind in checkpoints, without a type; it need not be a registered kind.
    """
    return any(kind.name == name and kind.has_sub_keys for kind in KINDS)
