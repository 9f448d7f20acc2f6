"""A digest of an operator's functions: the same in each process for the same program, another for a changed one.

It is made of what pickling sees (`parts`), so no kind of value escapes it: whatever travels to a task has a digest.
Sharing and the order of sets and dicts do not count; cycles do, by what one finds on the way around.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from penstock._engine.graph.own_modules import sources_digest
from penstock._engine.graph.parts import Parts, parts_of
from penstock._engine.graph.plain_values import is_long, plain_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_LETTERS: Final = 16
#: The digest of a value with more parts is kept, because finding it again takes longer than keeping it.
_CHEAP: Final = 16
#: Larger values have no digest: this many parts take two minutes. Rows, dicts and sets of plain values are one part.
MOST_PARTS: Final = 20_000_000


def fingerprint(members: Mapping[str, object]) -> str:
    """Return the digest of an operator.

    Args:
        members: Functions, selectors, sources and settings by name.

    Raises:
        OverflowError: They have too many parts.
        Exception: One of them cannot be pickled. Any class may come, because pickling runs code of the user's classes.

    Example:
        >>> from decimal import Decimal
        >>> fingerprint({"rate": Decimal("0.5")}) == fingerprint({"rate": Decimal("0.05")})
        False
    """
    return _Walk().digest(dict(members)).hex()[:_LETTERS]


@dataclass(eq=False, slots=True)
class _Node:
    """A value whose parts are being looked at, or which is on a cycle with such a value."""

    value: object  # kept, so that no other value gets its id
    parts: Parts
    waiting: Iterator[object]
    #: Positions in the order of the walk: its own, and the earliest that a cycle through it has reached (Tarjan).
    index: int
    low: int
    #: The digests of parts, in their order, or the nodes on a cycle with it.
    found: list[bytes | _Node] = field(default_factory=list["bytes | _Node"])
    weight: int = 1

    def digest(self, colours: Mapping[_Node, bytes]) -> bytes:
        """Return the digest of the value, by digests of the nodes on a cycle with it."""
        digests = [part if isinstance(part, bytes) else colours[part] for part in self.found]
        if not self.parts.ordered:
            digests.sort()
        return sha256(b"\0".join((self.parts.label, *digests))).digest()


class _Walk:
    """One walk through a value and its parts; the stack is a list, because values may be deeper than Python's is."""

    def __init__(self) -> None:
        #: By id: digests, and the values that have them, so that no others get their ids.
        self._known: dict[int, tuple[bytes, object]] = {}
        self._path: list[_Node] = []
        #: By id, in their order: nodes whose digest waits for others around them.
        self._open: dict[int, _Node] = {}
        self._count = 0
        #: What may still be looked at; in a cycle each of its parts counts in each round.
        self._left = MOST_PARTS

    def digest(self, value: object) -> bytes:
        known = self._find(value)
        if isinstance(known, bytes):
            return known
        self._enter(value)
        while True:
            node = self._path[-1]
            entered = any(self._enters(node, part) for part in node.waiting)
            if entered:
                continue
            self._path.pop()
            digest = self._leave(node)
            if not self._path:
                assert digest is not None
                return digest
            around = self._path[-1]
            around.low = min(around.low, node.low)
            around.weight += node.weight
            around.found.append(node if digest is None else digest)

    def _find(self, value: object) -> bytes | _Node | None:
        """Return the digest of a value, or the node that will have it; None if it is yet to be looked at."""
        known = self._known.get(id(value))
        if known is not None:
            return known[0]
        simple = plain_digest(value)
        if simple is None:
            return self._open.get(id(value))
        if is_long(value):
            self._known[id(value)] = simple, value
        return simple

    def _enters(self, node: _Node, part: object) -> bool:
        """Note a part of a node, or begin to look at it."""
        known = self._find(part)
        if known is None:
            self._enter(part)
            return True
        node.weight += 1
        node.found.append(known)
        if not isinstance(known, bytes):
            node.low = min(node.low, known.index)
        return False

    def _spend(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise OverflowError(f"they have captured more than {MOST_PARTS:,} objects, which takes too long to look at")

    def _enter(self, value: object) -> None:
        self._spend(1)
        try:
            parts = parts_of(value)
        except Exception:
            module = next((node.parts.module for node in reversed(self._path) if node.parts.module), None)
            if module is None:
                raise
            # A variable of a module that each host imports by itself: what makes it is in that file.
            parts = Parts(b"variable " + type(value).__qualname__.encode() + sources_digest(module))
        node = _Node(value, parts, iter(parts.parts), self._count, self._count)
        self._count += 1
        self._path.append(node)
        self._open[id(value)] = node

    def _leave(self, node: _Node) -> bytes | None:
        """Return the digest of a node whose parts have been looked at; None if it is on a cycle with one before it."""
        if node.low < node.index:
            return None
        around: list[_Node] = []
        while True:
            _, last = self._open.popitem()
            around.append(last)
            if last is node:
                break
        digests = _settled(around, self._spend)
        for each in around:
            parts = each.parts.parts  # those of code take long to find, few or many; so do files that have none
            if each.weight > _CHEAP or len(around) > 1 or not isinstance(parts, tuple) or parts == ():
                self._known[id(each.value)] = digests[each], each.value
        return digests[node]


def _settled(nodes: list[_Node], spend: Callable[[int], None]) -> dict[_Node, bytes]:
    """Return the digests of the nodes of a cycle, whichever was found first: colours are refined until they stay."""
    if len(nodes) == 1 and all(isinstance(part, bytes) for part in nodes[0].found):
        return {nodes[0]: nodes[0].digest({})}
    colours = dict.fromkeys(nodes, b"")
    count = 0
    while len(set(colours.values())) > count:
        spend(len(nodes))
        count = len(set(colours.values()))
        colours = {node: node.digest(colours) for node in nodes}
    whole = sha256(b"".join(sorted(set(colours.values())))).digest()
    return {node: sha256(whole + colours[node]).digest() for node in nodes}
