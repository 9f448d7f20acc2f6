"""What a life is drawn of: its chapters, and the troubles that they have.

A life is a list of chapters. Each is one start of the job, with its circumstances, its troubles, and how it is to end.
All of it is plain data, so that it can be told, drawn again by its seed, and shrunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.store import CALLS

from penstock._engine.protocol.control import StopMode

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from tests.chaos.jobs import Job

STOPS = {"suspend": StopMode.SUSPEND, "cancel with savepoint": StopMode.CANCEL, "drain": StopMode.DRAIN}
#: What happens at a step of the driver, and what at a request to a store.
AT_STEPS = (
    *("kill", "lost worker", "lost host", "clock ahead", "clock back", "checkpoint", "savepoint", "clean"),
    *("second driver", "suspend", "cancel with savepoint", "drain", "cancel"),
)
AT_REQUESTS = tuple(CALLS)
#: What `Chaos` calls it, and how likely it is for a task; a lost task costs an epoch, and a large job has twenty tasks.
TASKS = {
    "task twice": ("retries", (0.05, 0.2)),
    "readers of two attempts": ("mixtures", (0.05, 0.2)),
    "lost epoch": ("losses", (0.01, 0.05)),
}
STARTS = ("start with CLAIM", "start with NO_CLAIM", "rescale", "changed program", "small memory")
TROUBLES = (*AT_STEPS, *AT_REQUESTS, *TASKS, *STARTS)
#: What a batch job refuses or does not have.
OF_STREAMS = {
    *("checkpoint", "savepoint", "suspend", "cancel with savepoint", "drain"),
    *("start with CLAIM", "start with NO_CLAIM", "small memory", "store lost between state files"),
}


@dataclass(frozen=True)
class Trouble:
    """What happens at a step of the driver or at a request to a store, both counted from the start; and how much."""

    kind: str
    at: int = 0
    size: int = 1


@dataclass(frozen=True)
class Chapter:
    """One start of a job."""

    #: The parallelism of each source, operator and sink.
    sizes: tuple[int, ...]
    troubles: tuple[Trouble, ...] = ()
    #: After a stop with savepoint: how to start from it.
    start: str = "latest"
    #: Before which operator the program has one more, without state.
    changed: int | None = None
    memory: str = "64 mb"
    workers: int = 1
    hosts: int = 1
    records: int = 4
    retained: int = 1
    chaos: tuple[tuple[str, float], ...] = ()
    #: How many restarts the job has.
    restarts: int = 30

    def has(self, kind: str) -> bool:
        return any(trouble.kind == kind for trouble in self.troubles)


def possible(feature: str, trouble: str) -> bool:
    """Tell whether a pair can be met: the features of a job are those of `Job.features`."""
    if feature.startswith("batch"):
        return trouble not in OF_STREAMS and not (
            feature == "batch with recovery" and trouble in {"rescale", "changed program", "cancel"}
        )
    return (feature, trouble) != ("time to live", "clock back")  # the model says when state expires, as time passes


def draw_life(choose: random.Random, job: Job, wanted: set[str]) -> tuple[Chapter, ...]:
    """Draw the chapters of a job's life; the first have the wanted troubles."""
    allowed = [kind for kind in TROUBLES if all(possible(feature, kind) for feature in job.features())]
    must = sorted(wanted)
    several = choose.randint(1, 3) + bool({*STARTS, "rescale"} & wanted)
    chapters: list[Chapter] = []
    for number in range(several):
        kinds = [*(must if number < 2 else ()), *(choose.choice(allowed) for _ in range(choose.randint(0, 3)))]
        if number < several - 1 and not {"kill", *STOPS, "cancel"} & set(kinds):
            kinds.append(choose.choice([kind for kind in ("kill", *STOPS, "cancel") if kind in allowed]))
        if {"start with CLAIM", "start with NO_CLAIM"} & wanted and number == 0:
            kinds = [kind for kind in kinds if kind not in {"kill", "drain", "cancel"}] + ["suspend"]
        if "drain" in kinds and "drain" not in wanted and choose.random() < 0.7:
            kinds.remove("drain")  # it ends the life
        chapters.append(draw_chapter(choose, job, kinds, chapters[-1] if chapters else None))
    return tuple(chapters)


def draw_chapter(choose: random.Random, job: Job, kinds: list[str], before: Chapter | None) -> Chapter:
    def troubles() -> Iterator[Trouble]:
        for kind in kinds:
            if kind in AT_STEPS:
                yield Trouble(
                    kind, choose.choice((choose.randint(1, 20), choose.randint(8, 120))), choose.randint(1, 9)
                )
            elif kind in AT_REQUESTS:
                size = choose.choice((1, 1, 3, 12, 40)) if kind in {"store away", "full disk"} else 1
                yield Trouble(kind, choose.choice((choose.randint(1, 40), choose.randint(20, 200))), size)

    sizes = before.sizes if before else tuple(choose.randint(1, 4) for _ in range(job.vertices))
    if before and ("rescale" in kinds or (choose.random() < 0.2 and not job.recovers)):
        sizes = tuple(choose.randint(1, 4) for _ in range(job.vertices))
    changed = before.changed if before else None
    if "changed program" in kinds and job.operators:
        changed = choose.randrange(len(job.operators)) if changed is None else None
    hosts = 2 if "lost host" in kinds else choose.randint(1, 2)
    return Chapter(
        sizes,
        tuple(sorted(troubles(), key=lambda trouble: trouble.at)),
        next((kind[11:] for kind in kinds if kind.startswith("start with")), "latest"),
        changed,
        "1 b" if "small memory" in kinds else choose.choice(("3 kb", "64 mb", "64 mb")),
        choose.randint(hosts, 3),
        hosts,
        (60 if any(source.kind == "many splits" for source in job.sources) else choose.choice((2, 4, 6, 9, 12))),
        choose.randint(1, 3),
        tuple((name, choose.choice(chances)) for kind, (name, chances) in TASKS.items() if kind in kinds),
    )
