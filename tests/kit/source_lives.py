"""A source is read in small steps while somebody changes what it reads, and a restart comes at a random moment, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

STEPS = 8
#: Looks at the end: more than a source repeats that fail.
LAST_LOOKS = 6


def live(
    draw: random.Random,
    source: Callable[[], Any],
    change: Callable[[], None],
    records: list[Any],
    *,
    polls: int = 9,
    first: int = 0,
    between: float = 0.3,
) -> None:
    """Read a source, with one change or two at random moments, and a restart at another one.

    Args:
        draw: The moments.
        source: Makes the source, for each run.
        change: Makes a change.
        records: Takes all that is read, also by a run that ends with an error.
        polls: One more than the polls of a step at most.
        first: The first step in which there may be a change.
        between: How likely there is a change between the two runs, too.
    """
    changes = [draw.randrange(first, STEPS) for _ in range(draw.choice([1, 1, 2]))]
    restart, is_between = draw.randrange(STEPS), draw.random() < between
    run = SourceRun(source())
    try:
        for step in range(STEPS):
            if step in changes:
                change()
            run.context.run_async_calls()
            checkpoint = run.epoch(polls=draw.randrange(1, polls))
            if step == restart:
                run.close()
                records += _taken(run)
                if is_between:
                    change()
                run = SourceRun(source(), checkpoint=checkpoint)
        for _ in range(LAST_LOOKS):
            run.context.run_async_calls()
            run.epoch()
    finally:
        records += _taken(run)
        run.close()


def _taken(run: SourceRun) -> list[Any]:
    taken, run.records = run.records, []
    return taken
