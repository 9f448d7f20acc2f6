"""What must be true at the end of a life: the sinks hold what the model says, and nothing is left over."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.chaos import model
from tests.chaos.operators import FIRED
from tests.chaos.programs import published_records, seen

from penstock._engine.savepoints.disposal import dispose
from penstock._engine.savepoints.leftovers import remove_leftovers
from penstock._engine.savepoints.survey import LeftoverKind
from penstock.savepoint import Savepoint

if TYPE_CHECKING:
    from tests.chaos.lives import Life

    from penstock._engine.savepoints.survey import Leftover


class LeftOverError(AssertionError):
    """Files are left over, which harms no result."""


def check(life: Life) -> None:
    """Compare what the sinks hold with the model, and what is on the disk with what may be there."""
    job, place = life.job, life.place
    inputs = [source.records for source in job.sources]
    if life.tees and life.is_drained:
        read = [published_records(place / f"read-{number}") for number in range(len(inputs))]
        for source, records in zip(job.sources, read, strict=True):
            check_prefixes(source.splits, records)
        inputs = read
    with contextlib.suppress(model.TouchingSessionsError):
        check_results(life, model.streams(job, inputs))
    check_disk(life)


def check_results(life: Life, streams: list[model.Records]) -> None:
    """Compare what the sinks hold with the streams of the model.

    A sink that shows records as they come has shown what a drain has fired, and what came of an epoch in which readers
    got records of two attempts: these deal them out differently, so that a window may have lacked some of its records.
    """
    may_be_odd = life.tees or any("mixtures" in dict(chapter.chaos) for chapter in life.chapters)
    for number, output in enumerate(life.job.outputs):
        if life.goes_on_drained and any(one.kind in FIRED for one in life.job.before(output.stream)):
            continue  # a window that had fired before its end has begun again
        truth, found = Counter(map(repr, streams[output.stream])), seen(life.place, number, output)
        if output.kind == "upsert":
            truth = Counter(set(truth))
            missing, more = truth - found, Counter[str]() if may_be_odd else found - truth
        else:
            missing, more = truth - found, found - truth
        assert not missing, f"sink {number} ({output.kind}) lacks {shortly(missing)}; it has too much: {shortly(more)}"
        assert not more, f"sink {number} ({output.kind}) has too much: {shortly(more)}"


def shortly(records: Counter[str]) -> str:
    return f"{sum(records.values())} records, such as {', '.join(sorted(records)[:3])}"


def check_prefixes(splits: tuple[Any, ...], records: list[Any]) -> None:
    """Look whether a drained source has read each split from its beginning, and each record once."""
    times = Counter(record[2] for record in records)
    assert set(times.values()) <= {1}, f"read twice: {times.most_common(3)}"
    for split in splits:
        was_read = [record[2] in times for record in split]
        assert was_read == sorted(was_read, reverse=True), f"a split was read with gaps: {was_read}"


def check_disk(life: Life) -> None:
    """Look whether savepoints are whole, and whether nothing is left over."""
    checkpoints = life.place / "checkpoints"
    for path in sorted((life.place / "savepoints").iterdir()):
        if (path / "_metadata").exists():
            if str(path / "_metadata") not in life.weather.written_late:  # else the savepoint may have been given up
                assert Savepoint.open(str(path)).verify().damaged == (), path
            dispose(str(path), [str(checkpoints)])
    if life.may_leave:
        assert not remove_leftovers(life.left_over(abandoned_age_ms=0).leftovers).failed
    if {"kill", "late listing"} & life.met:  # in a stop, whose savepoint nobody writes or finds any more
        found = [one for one in life.left_over().leftovers if one.kind is LeftoverKind.UNFINISHED_SAVEPOINT]
        assert not remove_leftovers(found).failed
    left = [one for one in life.left_over().leftovers if not is_of_a_sink_without_output(one)]
    if left:
        raise LeftOverError([f"{one.path}: {one.kind}, {one.reason}" for one in left[:3]])
    files = [path for path in checkpoints.rglob("*") if path.is_file()]
    odd = [path for path in files if path.name != "_metadata" and "/." not in str(path)[len(str(life.place)) :]]
    if odd:
        raise LeftOverError([str(path) for path in odd[:3]])


def is_of_a_sink_without_output(one: Leftover) -> bool:
    """Tell whether a sink for files has published nothing: it looks for what is left with its first commit."""
    folder = Path(one.path).parent
    return one.kind is LeftoverKind.STAGED_FILE and all(file.name.startswith(".") for file in folder.iterdir())
