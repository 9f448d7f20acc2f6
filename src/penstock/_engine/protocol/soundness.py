"""Checks of decoded chain entries: the engine never writes an entry that breaks these rules, but an altered file may.

All readers of entries rely on them. Without them a name in a savepoint could lead to files outside of it, and a
number out of bounds would end in an error that says nothing about the file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.protocol.metadata import ChainEntry, JobSnapshot, OperatorMetadata
    from penstock._engine.protocol.state_handle import StateHandle

_WORD: Final = 1 << 64
#: Times that a calendar has. A machine's clock may be wrong by many years, and before 1970 as well.
_EARLIEST_MS, _LATEST_MS = -(1 << 45), 1 << 47
#: Flink's bound for max parallelism.
_MOST_KEY_GROUPS: Final = 1 << 15
#: A name that is no path to another directory, and has no control characters.
_NAME: Final = re.compile(r"(?!\.{1,2}$)[^/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def why_invalid(entry: ChainEntry) -> str | None:
    """Return a clause that says what is wrong with an entry; None for a sound entry."""
    return next(_faults(entry), None)


def is_inside(path: str) -> bool:
    """Return whether a relative path stays inside its directory.

    Example:
        >>> is_inside("job/shared/a-1"), is_inside("../a"), is_inside("/etc/passwd"), is_inside("a//b")
        (True, False, False, False)
    """
    return all(map(_NAME.fullmatch, path.split("/")))


def _faults(entry: ChainEntry) -> Iterator[str]:
    for name in (entry.job_id, *([entry.run_id] if entry.run_id else []), *entry.runs):
        if not _NAME.fullmatch(name):
            yield f"the id {name[:80]!r} cannot be the name of a directory"
    numbers = (entry.checkpoint_id, entry.begins, entry.parent.checkpoint_id if entry.parent else 0)
    is_time = _EARLIEST_MS < entry.created_ms < _LATEST_MS
    if not is_time or not all(0 <= number < _WORD // 2 for number in numbers):
        yield "a number is out of bounds"
    if entry.snapshot is not None:
        yield from _faults_of_snapshot(entry.snapshot)


def _faults_of_snapshot(snapshot: JobSnapshot) -> Iterator[str]:
    for uid, operator in snapshot.operators.items():
        what = f"operator {uid[:80]!r}"
        if not 0 <= operator.vertex < len(snapshot.vertices):
            yield f"{what} is at vertex {operator.vertex}, but there are {len(snapshot.vertices)} vertices"
        elif not 1 <= operator.parallelism <= operator.max_parallelism <= _MOST_KEY_GROUPS:
            yield f"{what} has parallelism {operator.parallelism} of at most {operator.max_parallelism}"
        elif operator.parallelism != len(operator.subtasks):
            yield f"{what} has parallelism {operator.parallelism} and {len(operator.subtasks)} subtasks"
        for handle in _handles(operator):
            fault = _fault_of_handle(handle, operator.max_parallelism)
            if fault is not None:
                yield f"{what} names an impossible file of state: {fault}"
    for vertex in snapshot.vertices:
        for uid in vertex.operators:
            operator = snapshot.operators.get(uid)
            if operator is not None and operator.parallelism != len(vertex.subtasks):
                yield f"vertex {vertex.name[:80]!r} has {len(vertex.subtasks)} subtasks, its operators more or fewer"


def _handles(operator: OperatorMetadata) -> Iterator[StateHandle]:
    for subtask in operator.subtasks:
        yield from subtask.lineage
        yield from subtask.operator_state


def _fault_of_handle(handle: StateHandle, most: int) -> str | None:
    if (handle.path is None) is (handle.inline is None):
        return "it has its bytes both in a file and in the entry, or in neither"
    if handle.path is not None and not is_inside(handle.path):
        return f"{handle.path[:200]!r} leads out of the directory"
    first, last = handle.key_groups
    numbers = (handle.checkpoint_id, handle.size, handle.entries, handle.checksum, first, last + 1)
    if not (all(0 <= number < _WORD // 2 for number in numbers) and last < most and abs(handle.token) < _WORD):
        return "a number is out of bounds"
    for part in handle.parts:
        if part.step < 1 or not 0 <= part.start < _WORD // 4 or not -1 <= part.stop < _WORD // 4:
            return f"the items of state {part.name[:80]!r} are out of bounds"
    return None
