"""Makes a failing life as small as it can be, and tells it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.chaos.jobs import Job, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.chaos.chapters import Chapter

Drawn = tuple[Job, "tuple[Chapter, ...]"]


def shrunk(drawn: Drawn, fails: Callable[[Drawn], bool], limit_s: float) -> Drawn:
    """Return the smallest life on the way from a failing one that still fails."""
    until = time.process_time() + limit_s
    smaller = True
    while smaller:
        smaller = False
        for candidate in simpler(drawn):
            if time.process_time() > until:
                return drawn
            if fails(candidate):
                drawn, smaller = candidate, True
                break
    return drawn


def simpler(drawn: Drawn) -> Iterator[Drawn]:
    """Return lives that are a bit simpler, the boldest steps first."""
    job, chapters = drawn
    for number in range(len(chapters) if len(chapters) > 1 else 0):
        yield job, without(chapters, number)
    for smaller, place in smaller_jobs(job):
        yield smaller, tuple(fewer_sizes(job, one, place) for one in chapters)
    for at, chapter in enumerate(chapters):
        for one in simpler_chapters(chapter):
            yield job, (*chapters[:at], one, *chapters[at + 1 :])
    for plain in simpler_jobs(job):
        yield plain, chapters


def smaller_jobs(job: Job) -> Iterator[tuple[Job, int]]:
    """Return jobs without an operator or a sink, and the place of what is left out."""
    for number in reversed(range(len(job.operators))):
        yield without_operator(job, number), len(job.sources) + number
    for number in range(len(job.outputs) if len(job.outputs) > 1 else 0):
        place = len(job.sources) + len(job.operators) + number
        yield replace(job, outputs=without(job.outputs, number)), place


def simpler_jobs(job: Job) -> Iterator[Job]:
    """Return jobs of the same shape."""
    for at, source in enumerate(job.sources):
        for one in simpler_sources(source):
            yield replace(job, sources=(*job.sources[:at], one, *job.sources[at + 1 :]))
    for at, operator in enumerate(job.operators):
        plain = replace(operator, edge="forward", declared=False)
        if plain != operator:
            yield replace(job, operators=(*job.operators[:at], plain, *job.operators[at + 1 :]))
    for same in (replace(job, uids=True), replace(job, in_files=False), replace(job, recovers=False)):
        if same != job:
            yield same


def without(items: tuple, number: int) -> tuple:  # type: ignore[type-arg]
    return (*items[:number], *items[number + 1 :])


def fewer_sizes(job: Job, chapter: Chapter, place: int) -> Chapter:
    changed = chapter.changed
    if changed is not None and place < len(job.sources) + len(job.operators):
        changed = None if len(job.operators) == 1 else min(changed, len(job.operators) - 2)
    return replace(chapter, sizes=without(chapter.sizes, place), changed=changed)


def without_operator(job: Job, number: int) -> Job:
    """Return a job in which those behind an operator take what it took."""
    made = [len(job.sources)]
    for operator in job.operators:
        made.append(made[-1] + (2 if operator.kind == "side output" else 1))
    first, behind, taken = made[number], made[number + 1], job.operators[number].inputs[0]

    def moved(stream: int) -> int:
        return taken if first <= stream < behind else stream - (behind - first) * (stream >= behind)

    operators = [replace(one, inputs=tuple(map(moved, one.inputs))) for one in without(job.operators, number)]
    plain = [
        replace(one, kind="map", inputs=one.inputs[:1]) if one.kind == "union" and len(set(one.inputs)) == 1 else one
        for one in operators
    ]
    outputs = tuple(replace(one, stream=moved(one.stream)) for one in job.outputs)
    return replace(job, operators=tuple(plain), outputs=outputs)


def simpler_chapters(chapter: Chapter) -> Iterator[Chapter]:
    for number in range(len(chapter.troubles)):
        yield replace(chapter, troubles=without(chapter.troubles, number))
    for plain in (
        replace(chapter, sizes=(1,) * len(chapter.sizes)),
        *(
            replace(chapter, sizes=(*chapter.sizes[:at], 1, *chapter.sizes[at + 1 :]))
            for at in range(len(chapter.sizes))
        ),
        replace(chapter, chaos=()),
        replace(chapter, workers=1, hosts=1),
        replace(chapter, hosts=1),
        replace(chapter, memory="64 mb"),
        replace(chapter, changed=None),
        replace(chapter, start="latest"),
        replace(chapter, retained=1),
        replace(chapter, records=6),
    ):
        if plain != chapter:
            yield plain


def simpler_sources(source: Source) -> Iterator[Source]:
    if source.kind not in {"list", "endless"}:
        yield replace(source, kind="list", aligned=False)
    if source.aligned:
        yield replace(source, aligned=False)
    splits = source.splits
    if len(splits) > 20:
        yield replace(source, splits=tuple(split for split in splits if split))
        yield replace(source, splits=splits[: len(splits) // 2])
    for number in range(len(splits)):
        if 1 < len(splits) <= 20:
            yield replace(source, splits=without(splits, number))
    for number, split in enumerate(splits):
        halves = [split[: len(split) // 2], split[len(split) // 2 :]] if len(split) > 3 else []
        for fewer in (*halves, *(without(split, at) for at in range(len(split)))):
            yield replace(source, splits=(*splits[:number], fewer, *splits[number + 1 :]))


def story(drawn: Drawn) -> str:
    """Tell a life."""
    job, chapters = drawn
    mode = "a batch" + (" with recovery" if job.recovers else "") if job.batch else "a stream"
    lines = [
        f"A job, {mode}, {'with' if job.uids else 'without'} uids" + (", all state in files:" * job.in_files or ":")
    ]
    number = 0
    for source in job.sources:
        splits = f"{len(source.splits)} splits" if len(source.splits) > 4 else ", ".join(map(str, source.splits))
        lines.append(f"  stream {number}: {source.kind} source{', aligned' * source.aligned}: {splits}")
        number += 1
    for operator in job.operators:
        taken = " and ".join(map(str, operator.inputs))
        more = f", {operator.edge}" * (operator.edge != "forward") + ", declared" * operator.declared
        lines.append(f"  stream {number}: {operator.kind} of {taken}{more}")
        number += 2 if operator.kind == "side output" else 1
    lines += [f"  sink: {output.kind} of {output.stream}{', rolls' * output.rolls}" for output in job.outputs]
    for at, chapter in enumerate(chapters, 1):
        lines.append(
            f"Start {at} ({chapter.start}): parallelism {chapter.sizes}, {chapter.records} records an epoch, "
            f"{chapter.workers} workers on {chapter.hosts} hosts, memory {chapter.memory}, retained {chapter.retained}"
            + (f", one more operator before operator {chapter.changed}" if chapter.changed is not None else "")
            + "".join(f", {name} {chance}" for name, chance in chapter.chaos)
        )
        lines += [f"  {one.kind} at {one.at} ({one.size})" for one in chapter.troubles]
    return "\n".join(lines)
