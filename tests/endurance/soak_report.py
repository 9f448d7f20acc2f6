"""What the looks at a soak say, as figures and a drawing: python -m tests.endurance.soak_report NOTES DRAWING.

Two figures tell whether memory grows. A kill ends every process, so what leaks within one is gone with it, and a line
through all looks would mostly show how processes warm up. Hence:

- *over lives*: each killed life is one point, the median of the later half of its looks, where all are of the same
  age; of the heap, which is seen seldom, its least look. A line through these points shows what a restart does not
  cure: state, metadata, what is read at the start. The first quarter of the lives is left out.
- *within a life*: the last life is not killed until the end. A line through the looks at each of its processes shows
  what leaks there. It begins when the processes are as old as a quarter of the soak is long. Of the heap the least of
  each six looks counts: what an epoch holds makes single looks of one life differ by half.

Of the driver and the workers that is their anonymous memory (see `program_notes`), and of the JVM what lives in its
heap: its memory grows until garbage has once filled the heap that it may have, and says nothing about a leak.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from tests.endurance.drawing import Panel, Points, drawing
from tests.endurance.program_notes import (
    KINDS,
    Look,
    growth_of_processes,
    largest,
    live_heap,
    mb_per_hour,
    middle,
    processor_share,
    together,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: What must not grow, and how to read it in a look.
MEMORY: Final[dict[str, Callable[[Look], float | None]]] = {
    "driver": lambda look: largest(look, "driver"),
    "worker": lambda look: largest(look, "worker"),
    "heap": live_heap,
}
#: With fewer lives, or a shorter last one, a slope is an accident.
LEAST_LIVES: Final = 6
LEAST_S: Final = 1_200
#: The least of so many looks at the heap counts.
LEAST_OF: Final = 6


def lives(looks: list[Look]) -> list[list[Look]]:
    """Return the looks of each life."""
    return [list(of) for _, of in groupby(looks, key=lambda look: look["life"])]


def over_lives(looks: list[Look], what: str) -> float | None:
    """Return the MB an hour that something grows from one killed life to the next, at the same age."""
    killed = lives(looks)[:-1]
    if len(killed) < LEAST_LIVES:
        return None
    points = list[tuple[float, float]]()
    for of in killed[len(killed) // 4 :]:
        sizes = map(MEMORY[what], of)
        size = min(filter(None, sizes), default=None) if what == "heap" else middle([*sizes][len(of) // 2 :])
        if size is not None:
            points.append((of[0]["at_s"], size))
    return mb_per_hour(points)


def within_a_life(looks: list[Look], what: str) -> float | None:
    """Return the MB an hour that something grows in the last life; of several processes that of the one most grown."""
    last = lives(looks)[-1]
    if last[-1]["age_s"] < LEAST_S:
        return None
    warm = [look for look in last if look["age_s"] >= last[-1]["at_s"] / 4]
    if what != "heap":
        return growth_of_processes(warm, what)
    seen = [(look["at_s"], size) for look in warm if (size := live_heap(look)) is not None]
    parts = [seen[start : start + LEAST_OF] for start in range(0, len(seen) - LEAST_OF + 1, LEAST_OF)]
    return mb_per_hour([min(part, key=lambda point: point[1]) for part in parts]) if len(parts) > 1 else None


def times(looks: list[Look], name: str) -> float | None:
    """Return how many times as much the last quarter of the last life has as its second quarter.

    Args:
        looks: All of them.
        name: Of a number, or of a list of numbers.
    """
    last = lives(looks)[-1]
    if last[-1]["age_s"] < LEAST_S:
        return None
    quarter = len(last) // 4
    early, late = (
        median([number for look in part for number in (look[name] if isinstance(look[name], list) else [look[name]])])
        for part in (last[quarter : 2 * quarter], last[-quarter:])
    )
    return late / early


def figures(looks: list[Look]) -> dict[str, float | None]:
    """Return the figures; None where the soak was too short for one."""
    found: dict[str, float | None] = {}
    for what, read in MEMORY.items():
        found[f"{what}, over lives, MB/h"] = over_lives(looks, what)
        found[f"{what}, within a life, MB/h"] = within_a_life(looks, what)
        found[f"{what}, MB at the end"] = middle(map(read, looks[-20:]))
    found["JVM, anonymous MB at the end"] = middle(largest(look, "JVM") for look in looks[-20:])
    last = lives(looks)[-1]
    found["epochs, ms"] = middle(each for look in last for each in look["epochs_ms"])
    found["epochs, times"] = times(looks, "epochs_ms")
    found["checkpoints, KiB"] = median(look["checkpoint_kib"] for look in last)
    found["checkpoints, times"] = times(looks, "checkpoint_kib")
    found["scratch files at the end"] = last[-1]["scratch_files"]
    found["lives"] = len(lives(looks))
    found["cores of the last life"] = processor_share(last)
    found["load"] = median(look["load"] for look in looks)
    return {name: value if value is None else round(value, 2) for name, value in found.items()}


def draw(looks: list[Look]) -> str:
    """Return the drawing."""

    def points(name: str) -> Points:
        return [(look["at_s"] / 60, look[name]) for look in looks]

    memory: dict[str, Points] = {}
    for kind in KINDS:
        sizes = ((look["at_s"] / 60, together(look, kind)) for look in looks)
        memory[f"{kind}s" if kind == "worker" else kind] = [(at, size) for at, size in sizes if size is not None]
    epochs = [(look["at_s"] / 60, max(look["epochs_ms"])) for look in looks if look["epochs_ms"]]
    panels = [
        Panel("Private memory, MB", memory),
        Panel("Longest epoch of ten seconds, ms", {"epochs": epochs}),
        Panel("Checkpoint directory, KiB", {"checkpoints": points("checkpoint_kib")}),
    ]
    kills = [of[0]["at_s"] / 60 for of in lives(looks)[1:]]
    return drawing("A soak: Kafka to Kafka and files, killed and resumed at each dotted line", panels, kills)


def main(notes: Path, picture: Path) -> None:
    looks = [json.loads(line) for line in notes.read_text().splitlines()]
    picture.write_text(draw(looks))
    for name, value in figures(looks).items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
