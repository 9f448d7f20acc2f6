"""Chooses the host of each subtask on a cluster: a subtask returns to the host that has its state.

The driver keeps the homes of a run. Where a host is lost, only its subtasks move; where one is new, those move that are
too many for the others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The host of a slot that Spark may run anywhere.
ANYWHERE: Final = ""


@dataclass(frozen=True, slots=True)
class SlotAssignment:
    """The slots of one level."""

    #: By slot.
    hosts: tuple[str, ...]
    #: By vertex and subtask.
    slots: dict[tuple[int, int], int]


@dataclass(slots=True)
class Homes:
    """The hosts on which the subtasks of a run have their state."""

    _hosts: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])

    def assign_slots(self, subtasks: Sequence[tuple[int, int]], hosts: Sequence[str]) -> SlotAssignment:
        """Give the subtasks of a level their slots, and note their hosts.

        Args:
            subtasks: Vertex and subtask of those that run, sorted.
            hosts: The host of each task that can run at the same time; ANYWHERE where that is unknown.
        """
        of_level = self._hosts_for(subtasks, hosts)
        slots_at: dict[str, list[int]] = {}
        for slot, host in enumerate(of_level):
            slots_at.setdefault(host, []).append(slot)
        slots_at.pop(ANYWHERE, None)
        loads: Counter[int] = Counter()
        of_vertex: Counter[tuple[int, int]] = Counter()
        most, running = -(-len(subtasks) // len(of_level)), Counter(vertex for vertex, _ in subtasks)
        assigned: dict[tuple[int, int], int] = {}
        homeless: dict[int, list[int]] = {}

        def take(vertex: int, subtask: int, slot: int) -> None:
            assigned[vertex, subtask] = slot
            loads[slot] += 1
            of_vertex[vertex, slot] += 1

        for vertex, subtask in subtasks:
            share = -(-running[vertex] // len(of_level))
            at_home = slots_at.get(self._hosts.get((vertex, subtask), ANYWHERE), ())
            free = [slot for slot in at_home if loads[slot] < most and of_vertex[vertex, slot] < share]
            if free:
                take(vertex, subtask, min(free, key=lambda slot: loads[slot]))
            else:
                homeless.setdefault(vertex, []).append(subtask)
        for vertex, left in homeless.items():
            emptiest = [(of_vertex[vertex, slot], loads[slot], slot) for slot in range(len(of_level))]
            heapify(emptiest)
            for subtask in left:
                _, _, slot = emptiest[0]
                take(vertex, subtask, slot)
                heapreplace(emptiest, (of_vertex[vertex, slot], loads[slot], slot))
                self._hosts[vertex, subtask] = of_level[slot]
        return SlotAssignment(of_level, assigned)

    def _hosts_for(self, subtasks: Sequence[tuple[int, int]], hosts: Sequence[str]) -> tuple[str, ...]:
        """Return the hosts of a level's slots: first those that have state of the level, then the others in turn."""
        left = Counter(hosts)
        homes = [self._hosts.get(subtask, ANYWHERE) for subtask in subtasks]
        wanted = Counter(host for host in homes if host != ANYWHERE)
        count = max(1, min(len(subtasks), len(hosts)))
        found = [host for host in sorted(wanted) for _ in range(min(wanted[host], left[host]))]
        left.subtract(found)
        # In turn, so that a level with fewer subtasks than slots uses all hosts.
        others = in_turn({host: left[host] for host in sorted(left) if host != ANYWHERE})
        others += [ANYWHERE] * left[ANYWHERE]
        return tuple(sorted((*found, *others[: count - len(found)])))


def anywhere(slots: int) -> tuple[str, ...]:
    """Return the hosts of some slots where none is known."""
    return (ANYWHERE,) * slots


def in_turn(counts: Mapping[str, int]) -> list[str]:
    """Return each host as often as it counts, in turn with the others.

    Example:
        >>> in_turn({"a": 1, "b": 3})
        ['a', 'b', 'b', 'b']
    """
    most = max(counts.values(), default=0)
    return [host for turn in range(most) for host, count in counts.items() if turn < count]


def is_spread(hosts: Sequence[str]) -> bool:
    """Tell whether tasks run on several known hosts, so that it matters where."""
    return len(set(hosts) - {ANYWHERE}) > 1
