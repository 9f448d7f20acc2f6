"""Merges accumulators of subtasks, epochs and operators on the driver.

A merged accumulator is a pickle and a display text; no other module looks into it. Merging runs user code. In an epoch
its errors fail the job as errors of the operator; views leave out unreadable values.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._engine.coordinator import events as ev
from penstock._engine.operators.accumulators import class_name
from penstock._engine.protocol.metadata import StoredAccumulator, check_accumulators
from penstock._engine.runtime.failures import describe_failure
from penstock._engine.state.files.pickles import dump, load
from penstock.common.redaction import hiding
from penstock.common.user_values import error_line, log_text, value_text
from penstock.errors import AccumulatorTypeError, StateClassError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock._engine.coordinator import instructions as do
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.operators.accumulators import AnyAccumulator
    from penstock._engine.protocol.control import TaskFailure

_log = hiding(logging.getLogger("penstock"))

#: The longest display text of a value, in characters.
_MAX_TEXT: Final = 1_000


class AccumulatorMerger:
    """Performs the instruction to merge accumulators.

    Args:
        graph: The job.
    """

    def __init__(self, graph: JobGraph) -> None:
        self._nodes = {node.uid: (vertex.id, node) for vertex in graph.vertices for node in vertex.operators}

    def merge(self, instruction: do.MergeAccumulators) -> ev.Event:
        """Merge the accumulators of an epoch into the earlier ones."""
        accumulators = {uid: dict(by_name) for uid, by_name in instruction.before.items()}
        parts: dict[tuple[str, str], list[tuple[int, bytes]]] = {}
        for part in instruction.added:
            for name, data in part.accumulators.items():
                parts.setdefault((part.uid, name), []).append((part.subtask, data))
        for (uid, name), added in parts.items():
            own = accumulators.setdefault(uid, {})
            try:
                before = [own[name].data] if name in own else []
                own[name] = _merged(name, [*before, *(data for _, data in added)])
                check_accumulators({name: len(stored.data) for name, stored in own.items()})
                if (others := _called(name, accumulators))[1:]:
                    _merged(
                        name, others
                    )  # accumulators that do not merge over operators fail now, not when they are read
            except BaseException as error:  # noqa: BLE001 - user code, which may raise anything
                return ev.MergeFailed(self._failure(error, uid, name, added[-1][0]))
        return ev.AccumulatorsMerged({uid: accumulators[uid] for uid, _ in parts})

    def _failure(self, error: BaseException, uid: str, name: str, subtask: int) -> TaskFailure:
        vertex, node = self._nodes[uid]
        failure = describe_failure(error, node, None, (vertex, subtask))
        return replace(failure, error=f"{failure.error} (in the merge of accumulator {name!r})")


def totals(operators: Iterable[Mapping[str, StoredAccumulator]]) -> dict[str, StoredAccumulator]:
    """Merge the accumulators of several operators by name; log and leave out those that do not merge."""
    known = list(operators)
    found = dict.fromkeys(sorted({name for by_name in known for name in by_name}))
    result: dict[str, StoredAccumulator] = {}
    for name in found:
        by_name = [by_name[name] for by_name in known if name in by_name]
        try:
            result[name] = by_name[0] if len(by_name) == 1 else _merged(name, [stored.data for stored in by_name])
        except BaseException:  # noqa: BLE001 - user code, which may raise anything
            _log.warning("Accumulator %r cannot be added up over the job's operators", name, exc_info=True)
    return result


def values(by_name: Mapping[str, StoredAccumulator]) -> dict[str, Any]:
    """Return the values of accumulators by name; log and leave out those that cannot be read."""
    result: dict[str, Any] = {}
    for name, stored in by_name.items():
        try:
            result[name] = load(stored.data).get_local_value()
        except BaseException:  # noqa: BLE001 - user code, which may raise anything
            _log.warning("The value of accumulator %r (%s) cannot be read", name, stored.text, exc_info=True)
    return result


def _called(name: str, accumulators: Mapping[str, Mapping[str, StoredAccumulator]]) -> list[bytes]:
    """Return all operators' accumulators of a name."""
    return [by_name[name].data for by_name in accumulators.values() if name in by_name]


def _merged(name: str, pickles: Sequence[bytes]) -> StoredAccumulator:
    """Merge several accumulators into one."""
    first, *others = (_loaded(name, data) for data in pickles)
    for other in others:
        if class_name(other) != class_name(first):
            raise AccumulatorTypeError(name, class_name(first), class_name(other))
        first.merge(other)
    text = value_text(first.get_local_value())
    shown = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
    return StoredAccumulator(class_name(first), log_text(shown), dump(first))


def _loaded(name: str, data: bytes) -> AnyAccumulator:
    try:
        return cast("AnyAccumulator", load(data))
    except BaseException as error:
        raise StateClassError(name, error_line(error)) from error
