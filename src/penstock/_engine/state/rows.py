"""The address of a row of keyed state: its key, namespace and sub-key; the key group follows from the key.

A row of a value, a list or an aligned window has only a key, and its normal key is its whole address. A row of a map
also has a sub-key, a row of a window of a single key a namespace, and a timer both: its sub-key is the time. A *pane*
is a range of rows that are created and dropped together (`table`); an aligned window is the namespace of its pane, so
its rows do not repeat it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

if TYPE_CHECKING:
    from penstock._engine.protocol.keys import NormalKey

#: The kind of timers: rows without a value whose sub-key is the time of the timer.
TIMERS: Final = "timers"

#: The prefix of kinds whose rows have their window in their address.
IN_ADDRESS: Final = "keyed-"

#: The prefix of kinds of aligned windows whose panes are slices that several windows share.
SLICED: Final = "sliced-"

#: The last number of the namespace of a pane that holds the segments of another pane's lists.
_SEGMENTS: Final = -1

#: The numbers of a window, such as its start and end; () outside windows.
Namespace: TypeAlias = "tuple[int, ...]"
#: Key and namespace; several rows may share them.
Owner: TypeAlias = "tuple[NormalKey, Namespace]"
#: Key, namespace and sub-key; the sub-key may be None.
Composite: TypeAlias = "tuple[NormalKey, Namespace, NormalKey | None]"
#: The address of a row in its pane.
Address: TypeAlias = "NormalKey | Composite"
#: A row as it is stored: its address, its value, the user's key where the normal key is bytes and the table keeps keys
#: (a pair of key and sub-key for a composite address), and the time of the last write or read where it expires.
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


def segments_of(namespace: Namespace) -> Namespace:
    """Return the namespace of the pane that holds the segments of the lists of a pane.

    Example:
        >>> segments_of(()), segments_of((0, 10)), holds_segments(segments_of((0, 10))), holds_segments((0, 10))
        ((-1,), (0, 10, -1), True, False)
    """
    return *namespace, _SEGMENTS


def holds_segments(namespace: Namespace) -> bool:
    """Return whether a pane holds segments of lists: the namespaces of all other panes are empty or pairs."""
    return len(namespace) % 2 == 1
