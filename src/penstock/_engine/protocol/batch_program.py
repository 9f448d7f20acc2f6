"""What two runs of a batch job with recovery must have in common, so that one continues with the other's results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: So many differences between two programs are named.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class BatchProgram:
    """The program of a batch job, as another driver that continues the job compares it."""

    #: By vertex: the uids of its operators, and its parallelism.
    vertices: tuple[tuple[tuple[str, ...], int], ...]
    #: The signatures of the edges.
    edges: tuple[str, ...]
    #: By uid: digests of the sources, and of the functions of all other operators and of the edges from them.
    sources: dict[str, str]
    functions: dict[str, str]
    #: By uid: names, for messages.
    names: dict[str, str]
    #: The id of the first takeover of this attempt at the job: events of takeovers before it do not count.
    first: int = 0
    #: By vertex: the number of key groups, by which results are divided.
    max_parallelism: tuple[int, ...] = ()

    def difference(self, before: BatchProgram, *, accept_changed_functions: bool) -> str:
        """Return how this program differs from the one that has begun the job, a clause; "" if it does not.

        Args:
            before: That program.
            accept_changed_functions: Whether other functions are no difference.
        """
        missing, added = before.names.keys() - self.names.keys(), self.names.keys() - before.names.keys()
        if missing or added:
            gone = [f"operator {before.names[uid]!r} (uid {uid!r}) is gone" for uid in sorted(missing)]
            new = [f"operator {self.names[uid]!r} (uid {uid!r}) is new" for uid in sorted(added)]
            return ", ".join([*gone, *new][:_NAMED])
        for then, now in zip(before.vertices, self.vertices, strict=False):
            if then != now:
                name = self.names[now[0][0]]
                return f"the vertex of operator {name!r} (uid {now[0][0]!r}) has other operators or another parallelism"
        for place, (then, now) in enumerate(zip(before.max_parallelism, self.max_parallelism, strict=False)):
            if then != now:
                uid = self.vertices[place][0][0]
                return f"the max parallelism of operator {self.names[uid]!r} (uid {uid!r}) is {now}, and was {then}"
        if before.edges != self.edges:
            other = next((now for now in self.edges if now not in before.edges), "their order")
            return f"the connections between operators differ ({other})"
        changed = [("source", uid) for uid, digest in self.sources.items() if before.sources.get(uid) != digest]
        if not accept_changed_functions:
            changed += [
                ("a function of operator", uid)
                for uid, digest in self.functions.items()
                if before.functions.get(uid) != digest
            ]
        return ", ".join(f"{what} {self.names[uid]!r} (uid {uid!r}) has changed" for what, uid in changed[:_NAMED])
