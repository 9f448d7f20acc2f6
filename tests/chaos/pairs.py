"""The pairs of a feature of a job and a trouble: which were met, how often, and how it went the last time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.chapters import TROUBLES, possible
from tests.chaos.jobs import KEYS, SINKS, SOURCES
from tests.chaos.operators import BUILD

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable
    from pathlib import Path

FEATURES = (
    *(f"{kind} source" for kind in SOURCES),
    *BUILD,
    *(f"sink: {kind}" for kind in SINKS),
    *(f"keys: {kind}" for kind in KEYS),
    *("batch", "batch with recovery", "no uids", "state in files", "alignment", "declared types", "several sinks"),
    "pipelined",
)
#: What is met before all else, as nothing else asks it.
FIRST = tuple(
    frozenset(names.split(" + "))
    for names in (
        "state in files + store lost between state files",
        "sink: told + drain + kill",
        "alignment + rescale",
        "time to live + small memory + rescale + clock ahead",
        "many splits source + lost host",
        "batch with recovery + store away + kill",
        "clean + kill",
        "clean + suspend",
    )
)


@dataclass
class Cell:
    """How often something was drawn and met, and how the last life with it went."""

    drawn: int = 0
    met: int = 0
    last: str = "-"


class Pairs:
    """The table.

    Args:
        only: Names of features and troubles; all pairs and combinations that have all of them count.
    """

    def __init__(self, only: Iterable[str] = ()) -> None:
        wanted = set(only)
        unknown = wanted - {*FEATURES, *TROUBLES}
        if unknown:
            msg = (
                f"There is nothing called {', '.join(sorted(unknown))}; there are {', '.join((*FEATURES, *TROUBLES))}."
            )
            raise ValueError(msg)
        pairs = (frozenset((f, t)) for f in FEATURES for t in TROUBLES if possible(f, t))
        self.cells = {names: Cell() for names in (*FIRST, *pairs) if wanted <= names}
        if not self.cells:
            self.cells = {frozenset(wanted): Cell()}

    def draw(self, choose: random.Random) -> frozenset[str]:
        """Return what the next life has to meet: the combination or pair that was met least."""
        least = min(self._rank(names) for names in self.cells)
        drawn = choose.choice([names for names in self.cells if self._rank(names) == least])
        self.cells[drawn].drawn += 1
        return drawn

    def _rank(self, names: frozenset[str]) -> tuple[int, bool, int]:
        cell = self.cells[names]
        return cell.met + cell.drawn // 4, names not in FIRST, cell.drawn  # what cannot be met is left after some tries

    def note(self, features: set[str], troubles: set[str], result: str) -> None:
        """Note the result of a life."""
        names = features | troubles
        for wanted, cell in self.cells.items():
            if wanted <= names:
                cell.met += 1
                cell.last = result

    def write(self, path: Path) -> None:
        """Write the table."""
        path.parent.mkdir(exist_ok=True)
        rows = sorted(self.cells.items(), key=lambda row: (row[0] not in FIRST, row[1].met))
        order = (*FEATURES, *TROUBLES).index
        lines = [f"{c.met:6} {c.last:8} {' + '.join(sorted(names, key=order))}" for names, c in rows]
        head = "How many lives met it, how the last of them went (- where none has), and what: a feature + a trouble"
        path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")

    def shortly(self) -> str:
        """Return the table in short."""
        counts = sorted(cell.met for cell in self.cells.values())
        never = [" + ".join(sorted(names)) for names, cell in self.cells.items() if not cell.met]
        failed = [" + ".join(sorted(names)) for names, cell in self.cells.items() if cell.last not in {"ok", "-"}]
        text = f"{len(counts)} pairs and combinations; met from {counts[0]} to {counts[-1]} times; {len(never)} never"
        text += f": {'; '.join(never[:8])}" if never else ""
        return text + (f"; {len(failed)} failed the last time" if failed else "")
