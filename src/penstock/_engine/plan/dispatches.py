"""The dispatches of an epoch on their way to its tasks: one file, of which each task reads what it runs.

The file has for each level what all its tasks get, and then one part for each slot. A property of a Spark job goes to
all of its tasks, so only a small file is one; a larger one lies in the checkpoint storage, and the property says where.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock._engine.protocol.control import LevelDispatch, SubtaskDispatch, TaskDispatch, decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engine.plan.epoch_plan import EpochPlan
    from penstock._engine.protocol.control import JobDispatch

#: Reads a part of a file: path, start and length.
ReadRange: TypeAlias = Callable[[str, int, int], bytes]

#: The most bytes of properties with the dispatches themselves: of one, and of what all tasks of the epoch get together.
MAX_INLINE_DISPATCHES: Final = 256 << 10
MAX_INLINE_TOGETHER: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class _Head:
    """What every task gets."""

    #: By level: where its section begins in the file, and its bytes.
    sections: tuple[tuple[int, int], ...]
    #: The file, or its path in the checkpoint storage.
    file: bytes | None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class _Section:
    """What all tasks of a level get; the parts of its slots stand behind it."""

    level: LevelDispatch
    #: Bytes of each part.
    sizes: tuple[int, ...]


def pack(plan: EpochPlan, *, inline: bool = True) -> str:
    """Return the dispatches of an epoch as a text that all its tasks get; what is too much for that is stored.

    Args:
        plan: The epoch.
        inline: Whether the text may have the dispatches, which contain state; else it always says where they lie.
    """
    file, sections = pack_file(plan.levels)
    text = _text(_Head(sections, file))
    most = min(MAX_INLINE_DISPATCHES, MAX_INLINE_TOGETHER // sum(plan.levels[0].widths))
    if plan.store is None or (inline and len(text) <= most):
        return text
    return _text(_Head(sections, None, plan.store(file)))


def pack_file(levels: Sequence[LevelDispatch]) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    """Return the file, and where the section of each level is in it: its begin and its bytes."""
    file, sections = bytearray(), list[tuple[int, int]]()
    for level in levels:
        parts = [encode(part) for part in level.slots]
        section = zlib.compress(encode(_Section(replace(level, slots=()), tuple(map(len, parts)))), level=1)
        sections.append((len(file), len(section)))
        file += b"".join((section, *parts))
    return bytes(file), tuple(sections)


def unpack(text: str, job: JobDispatch, place: tuple[int, int], storage: Callable[[], ReadRange]) -> TaskDispatch:
    """Return the dispatch of one task.

    Args:
        text: What `pack` gave.
        job: What the tasks of all epochs get.
        place: The task's level and its slot there.
        storage: Returns what reads a part of a file in the checkpoint storage.
    """
    head = decode(zlib.decompress(base64.b64decode(text)), _Head)
    read = partial(storage(), head.path) if head.path is not None else partial(_part, head.file or b"")
    level, slot = place
    start, size = head.sections[level]
    section = decode(zlib.decompress(read(start, size)), _Section)
    begin = start + size + sum(section.sizes[:slot])
    return TaskDispatch(job, section.level, slot, decode(read(begin, section.sizes[slot]), tuple[SubtaskDispatch, ...]))


def _part(file: bytes, start: int, length: int) -> bytes:
    return file[start : start + length]


def _text(head: _Head) -> str:
    return base64.b64encode(zlib.compress(encode(head), level=1)).decode()
