"""Timers in a local version: the codec of their rows, and how they are read in the order of time.

    key     pane id, key group, time, key and namespace
    value   nothing; for a timer whose key is neither a str nor an int of usual length, a pickle as `entries` has it

The timers of a key group follow each other in the order of time. Those of several groups are merged as they are read.
The *place* of a timer in that order is its time, its key group, and the bytes of its key and namespace.
"""

from __future__ import annotations

from heapq import merge
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.protocol.key_groups import key_group
from penstock._engine.state.files import pickles
from penstock._engine.state.local.entries import (
    GROUP,
    PANE_ID,
    is_narrow_owner,
    long_parts,
    owner_encoded,
    owner_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.state.local.readings import Reading
    from penstock._engine.state.rows import Composite

#: Pane id, key group and time.
_HEAD: Final = Struct(">IHQ")
#: Times as numbers that are not negative keep their order as bytes.
_TIME: Final = Struct(">Q")
_SHIFT: Final = 1 << 63
#: Sorts behind the bytes of each key.
_BEHIND_KEYS: Final = b"\xff"


def timer_row(pane_id: int, row: Composite, original: Any, max_parallelism: int) -> tuple[bytes, bytes]:
    """Return the stored key and value of a timer."""
    owner = owner_encoded(row[0], row[1])
    name = _head(pane_id, row, max_parallelism) + owner
    is_bare = original is None and is_narrow_owner(owner)
    return name, b"" if is_bare else pickles.dump((None, original, long_parts(row)))


def timer_name(pane_id: int, row: Composite, max_parallelism: int) -> bytes:
    """Return the stored key of a timer."""
    return _head(pane_id, row, max_parallelism) + owner_encoded(row[0], row[1])


def _head(pane_id: int, row: Composite, max_parallelism: int) -> bytes:
    return _HEAD.pack(pane_id, key_group(row[0], max_parallelism), cast("int", row[2]) + _SHIFT)


def place_before(timestamp: int) -> bytes:
    """Return the place before all timers of a time."""
    return _TIME.pack(timestamp + _SHIFT)


def original_in(raw: bytes) -> Any:
    """Return, from the value of a timer, (key, None) where the user's key is kept, else None."""
    return pickles.load(raw)[1] if raw else None


def timers_behind(reading: Reading, pane_id: int, place: bytes) -> Iterator[tuple[bytes, Composite, Any]]:
    """Iterate the timers of a pane behind a place, in the order of places, as (place, row, original)."""
    for found, raw in merge(*_streams(reading, PANE_ID.pack(pane_id), place)):
        yield found, _row(found[:8], found[10:], raw), original_in(raw)


def timers_by_group(reading: Reading, pane_id: int) -> Iterator[tuple[int, Composite, Any]]:
    """Iterate the timers of a pane by ascending key group, as (key group, row, original)."""
    prefix = PANE_ID.pack(pane_id)
    for name, raw in reading.pairs(prefix):
        yield GROUP.unpack_from(name, 4)[0], _row(name[6:14], name[14:], raw), original_in(raw)


def _streams(reading: Reading, prefix: bytes, place: bytes) -> Iterator[Iterator[tuple[bytes, bytes]]]:
    """Iterate the streams of the key groups that have timers, each of (place, value) behind a place."""
    group = 0
    # Keys of deleted timers count here: to look for one that is not deleted could go past all that have fired.
    while (head := reading.first_key(prefix + GROUP.pack(group))[:6]).startswith(prefix):
        yield _stream(reading, head, place)
        group = GROUP.unpack_from(head, 4)[0] + 1


def _stream(reading: Reading, head: bytes, place: bytes) -> Iterator[tuple[bytes, bytes]]:
    group = head[4:]
    start = head + place[:8]
    if len(place) > _TIME.size and group <= place[8:10]:
        start += _BEHIND_KEYS if group < place[8:10] else place[10:] + b"\0"
    for name, raw in reading.pairs(head, start):
        yield name[6:14] + group + name[14:], raw


def _row(time: bytes, owner: bytes, raw: bytes) -> Composite:
    return *owner_of(owner, raw), _TIME.unpack(time)[0] - _SHIFT
