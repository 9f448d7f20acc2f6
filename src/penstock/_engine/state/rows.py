"""The address of a row of keyed state: its key, namespace and sub-key; the key group follows from the key.

A row of a value, of a list or of an aligned window has a key alone, and its normal key is its whole address. A row of a
map has a sub-key too, one of a window of its key a namespace, and a timer both: its sub-key is the time. A *pane* is
a stretch of rows that come and go together (`table`); the namespace of an aligned window is the pane's, so none of its
rows names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

if TYPE_CHECKING:
    from penstock._engine.protocol.keys import NormalKey

#: The kind of rows whose sub-key is the time that a timer is set for, and that have no value.
TIMERS: Final = "timers"

#: Begins the names of kinds whose rows have their window in their address.
IN_ADDRESS: Final = "keyed-"

#: Ends the namespace of a pane that has what the lists of another pane hold beyond their first row.
_BEHIND: Final = -1

#: The numbers of a window, such as its start and end; () for what belongs to no window.
Namespace: TypeAlias = "tuple[int, ...]"
#: Key and namespace, which several rows may share.
Owner: TypeAlias = "tuple[NormalKey, Namespace]"
#: Key, namespace and sub-key; None for no sub-key.
Composite: TypeAlias = "tuple[NormalKey, Namespace, NormalKey | None]"
#: What finds a row in a pane.
Address: TypeAlias = "NormalKey | Composite"
#: A row as it is stored: its address, its value, the key behind a normal key that is bytes where it is kept (of a
#: composite address the pair of key and sub-key), and when it was last written or read where it expires.
Row: TypeAlias = "tuple[Address, Any, Any, int | None]"


def key_at(address: Address) -> NormalKey:
    """Return the normal key of a row.

    Example:
        >>> key_at("a"), key_at(("a", (), 7))
        ('a', 'a')
    """
    return address[0] if type(address) is tuple else cast("NormalKey", address)


def keys_at(addresses: list[Any]) -> list[NormalKey]:
    """Return the normal keys of some rows of one pane."""
    is_composite = bool(addresses) and type(addresses[0]) is tuple
    return [key for key, _, _ in addresses] if is_composite else addresses


def owner_at(address: Address) -> Owner:
    """Return the key and the namespace of a row."""
    return (address[0], address[1]) if type(address) is tuple else (cast("NormalKey", address), ())


def behind(namespace: Namespace) -> Namespace:
    """Return the namespace of the pane that has what the lists of a pane hold beyond their first row.

    Example:
        >>> behind(()), behind((0, 10)), is_behind(behind((0, 10))), is_behind((0, 10))
        ((-1,), (0, 10, -1), True, False)
    """
    return *namespace, _BEHIND


def is_behind(namespace: Namespace) -> bool:
    """Return whether a pane is one of those: the namespaces of all others are empty or pairs."""
    return len(namespace) % 2 == 1
