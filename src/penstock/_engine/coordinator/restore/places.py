"""Tells whether operators without a uid are still at the place that they had when a checkpoint was taken.

Such an operator is identified by its place alone: its kind, its inputs, and its rank among operators in which both are
equal. An operator that is inserted before another, or between it and its input, would take its place and with it its
state. So a start compares the program around each of them with the program in the checkpoint:

- everything upstream of it: the kinds of the operators, and which output leads to which input;
- the number and the order of the operators with equal kind and input beside it, and beside each operator before it that
  has no uid either;
- its name and the digest of its functions, if an operator at another place had them before, or has them now: then the
  two have changed places.

Not compared are operators after it or on another input, parallelism, chaining, the partitioning of edges, and functions
and names that have changed in place.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.protocol.metadata import OperatorPlace

_BEFORE: Final = "before it, "


def differences(before: Mapping[str, OperatorPlace], after: Mapping[str, OperatorPlace]) -> dict[str, str]:
    """Return the generated uids whose operators may not be the same, each with the reason as a clause.

    Args:
        before: The places of a checkpoint, inputs first. A uid without a place is accepted.
        after: The places of the program.
    """
    then, now = _ProgramPlaces(before), _ProgramPlaces(after)
    near: dict[str, str | None] = {}
    for uid, place in after.items():
        if uid in before and not place.has_own_uid:
            near[uid] = _difference(uid, then, now) or _inherited(place, near)
    found: dict[str, str] = {}
    for uid, reason in near.items():
        if reason is not None:
            found[uid] = reason
        elif then.shapes[uid] != now.shapes[uid]:  # they differ only upstream of operators with uids
            found[uid] = f"{_BEFORE}there were {then.before(uid)}, and there are {now.before(uid)}"
    return found


def renamed(places: Mapping[str, OperatorPlace], uid: str, new_uid: str) -> dict[str, OperatorPlace]:
    """Return the places after an operator has been given a uid."""
    return {
        new_uid if old == uid else old: replace(
            place,
            has_own_uid=place.has_own_uid or old == uid,
            inputs=tuple(replace(edge, sender=new_uid) if edge.sender == uid else edge for edge in place.inputs),
        )
        for old, place in places.items()
    }


def _difference(uid: str, then: _ProgramPlaces, now: _ProgramPlaces) -> str | None:
    """Say what differs at an operator itself."""
    before, after = then.places[uid], now.places[uid]
    if before.has_own_uid:
        return f"the program gave the uid {uid!r} itself, and does so no more"
    if then.beside(uid) != now.beside(uid):
        count = len(then.beside(uid)), len(now.beside(uid))
        return (
            f"of the operators without a uid on one input {count[0]} had the kind {after.kind}, and now {count[1]} have"
        )
    if not (before.fingerprint and after.fingerprint) and (then.has_others(uid) or now.has_others(uid)):
        return f"its functions have no digest that would tell it from other operators of kind {after.kind}"
    if before.fingerprint != after.fingerprint and (_is_elsewhere(uid, then, now) or _is_elsewhere(uid, now, then)):
        return f"operators of kind {after.kind} have changed places"
    return None


def _is_elsewhere(uid: str, here: _ProgramPlaces, there: _ProgramPlaces) -> bool:
    """Tell whether an operator of one program has another uid in the other, by its functions' digest or its name.

    An operator that both programs have at the same uid has not moved.
    """
    place, other = here.places[uid], there.places[uid]
    does = place.kind, place.fingerprint
    if there.by_fingerprint[does] - here.by_fingerprint[does] - {uid}:
        return True
    named = place.kind, place.name
    return place.name != other.name and bool(there.by_name[named] - here.by_name[named])


def _inherited(place: OperatorPlace, near: Mapping[str, str | None]) -> str | None:
    """Say what differs at an operator upstream of this one, if this one's uid depends on it."""
    reason = next((reason for edge in place.inputs if (reason := near.get(edge.sender))), None)
    return None if reason is None else _BEFORE + reason.removeprefix(_BEFORE)


class _ProgramPlaces:
    """The places of one program."""

    def __init__(self, places: Mapping[str, OperatorPlace]) -> None:
        self.places = places
        #: By uid: a digest of the kinds of all operators upstream, and the edges between them.
        self.shapes: dict[str, str] = {}
        self._beside: defaultdict[object, list[str]] = defaultdict(list)
        self.by_fingerprint: defaultdict[object, set[str]] = defaultdict(set)
        self.by_name: defaultdict[object, set[str]] = defaultdict(set)
        for uid, place in places.items():
            shape = (place.kind, *(replace(edge, sender=self.shapes[edge.sender]) for edge in place.inputs))
            self.shapes[uid] = sha256(repr(shape).encode()).hexdigest()
            self.by_fingerprint[place.kind, place.fingerprint].add(uid)
            self.by_name[place.kind, place.name].add(uid)
            if not place.has_own_uid:
                self._beside[place.kind, place.inputs].append(uid)

    def beside(self, uid: str) -> list[str]:
        """Return the generated uids of the operators of equal kind and input, in order."""
        place = self.places[uid]
        return self._beside[place.kind, place.inputs]

    def has_others(self, uid: str) -> bool:
        """Tell whether there are more operators of its kind."""
        return sum(place.kind == self.places[uid].kind for place in self.places.values()) > 1

    def before(self, uid: str) -> str:
        """Return the kinds of all operators upstream, in the order of the program."""
        reached = {uid}
        for other in reversed(tuple(self.places)):
            if other in reached:
                reached.update(edge.sender for edge in self.places[other].inputs)
        return ", ".join(place.kind for other, place in self.places.items() if other in reached - {uid}) or "nothing"
