"""The encoding of an epoch's dispatches: one file, of which each task reads its own part.

For each level the file has a section for all tasks of the level, followed by one part for each slot. A small file is a
property of the Spark job, which goes to all of its tasks; a larger file is in the checkpoint storage, and the property
has its path.

Dispatches contain state, which tasks unpickle. So each section and each part is sealed for its epoch and position, with
a key that reaches tasks through Spark only; foreign or moved parts are refused. A seal takes 32 bytes for each task;
digests of all parts for all tasks would grow with the square of the parallelism.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock._engine.protocol.control import LevelDispatch, SubtaskDispatch, TaskDispatch, decode, encode
from penstock._engine.protocol.signing import seal, unseal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engine.plan.epoch_plan import EpochPlan
    from penstock._engine.protocol.control import JobDispatch

#: Reads a part of a file: path, start and length.
ReadRange: TypeAlias = Callable[[str, int, int], bytes]

#: The maximum size of dispatches in a property, in bytes: of one property, and of its copies for all tasks together.
MAX_INLINE_DISPATCHES: Final = 256 << 10
MAX_INLINE_TOGETHER: Final = 4 << 20
#: Separates the head from the file in the text; base64 does not contain it.
_BETWEEN: Final = "."


@dataclass(frozen=True, slots=True)
class _Head:
    """The part of a dispatch that every task gets."""

    #: Identifies the attempt at an epoch, for which the seals are valid.
    epoch: str

    #: By level: the start of its section in the file, and its size in bytes.
    sections: tuple[tuple[int, int], ...]
    #: The path of the file in the checkpoint storage; without it, the file follows in the text.
    path: str | None = None


@dataclass(frozen=True, slots=True)
class _Section:
    """The part of a dispatch that all tasks of a level get; the parts of its slots follow it."""

    level: LevelDispatch
    #: The size of each part in bytes.
    sizes: tuple[int, ...]


def pack(plan: EpochPlan, *, inline: bool = True) -> str:
    """Return the dispatches of an epoch as the text for its tasks, with the dispatches or the path of their file.

    Args:
        plan: The epoch.
        inline: Whether the text may contain the dispatches, which contain state; otherwise they are always stored.
    """
    epoch = f"{plan.levels[0].job_attempt} {plan.checkpoint_id} {plan.attempt}"
    file, sections = _sealed_file(plan.levels, plan.job.dispatch_key, epoch)
    text = _text(_Head(epoch, sections), file)
    most = min(MAX_INLINE_DISPATCHES, MAX_INLINE_TOGETHER // sum(plan.levels[0].widths))
    if plan.store is None or (inline and len(text) <= most):
        return text
    return _text(_Head(epoch, sections, plan.store(file)))


def _sealed_file(levels: Sequence[LevelDispatch], key: bytes, epoch: str) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """Return the file, and for each level the start and the size of its section."""
    file, sections = bytearray(), list[tuple[int, int]]()
    for number, level in enumerate(levels):
        parts = [seal(encode(part), key, _label(epoch, number, slot)) for slot, part in enumerate(level.slots)]
        section = zlib.compress(encode(_Section(replace(level, slots=(), hosts=()), tuple(map(len, parts)))), level=1)
        section = seal(section, key, _label(epoch, number))
        sections.append((len(file), len(section)))
        file += b"".join((section, *parts))
    return bytes(file), tuple(sections)


def unpack(text: str, job: JobDispatch, place: tuple[int, int], storage: Callable[[], ReadRange]) -> TaskDispatch:
    """Return the dispatch of one task.

    Args:
        text: The result of `pack`.
        job: The data that all tasks of the run share.
        place: The task's level and its slot there.
        storage: Returns a function that reads a part of a file in the checkpoint storage.

    Raises:
        CorruptCheckpointError: The file is missing, changed or replaced.
    """
    first, _, file = text.partition(_BETWEEN)
    head = decode(base64.b64decode(first), _Head)
    read = partial(storage(), head.path) if head.path is not None else partial(_part, file)
    level, slot = place
    start, size = head.sections[level]

    def unsealed(start: int, size: int, *at: int) -> bytes:
        return unseal(read(start, size), job.dispatch_key, _label(head.epoch, *at), head.path or "the Spark job")

    section = decode(zlib.decompress(unsealed(start, size, level)), _Section)
    begin = start + size + sum(section.sizes[:slot])
    parts = decode(unsealed(begin, section.sizes[slot], level, slot), tuple[SubtaskDispatch, ...])
    return TaskDispatch(job, section.level, slot, parts)


def _label(epoch: str, *place: int) -> str:
    return f"dispatch of {epoch} {place}"


def _part(file: str, start: int, length: int) -> bytes:
    """Decode only a part of a file in base64, because most of the file is for other tasks."""
    first = start // 3
    decoded = base64.b64decode(file[4 * first : 4 * -(-(start + length) // 3)])
    return decoded[start - 3 * first :][:length]


def _text(head: _Head, file: bytes = b"") -> str:
    # Not compressed: its sections are, and the state in the parts becomes only a twentieth smaller.
    return base64.b64encode(encode(head)).decode() + _BETWEEN + base64.b64encode(file).decode()
