"""Sharing out operator state by its handles: with finished subtasks, over several changes, and in each epoch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._engine.coordinator.checkpoints.snapshots import VisibleState, spill, state_files
from penstock._engine.coordinator.checkpoints.subtask_state import redistribute
from penstock._engine.protocol.metadata import JobSnapshot, OperatorMetadata, OperatorSubtaskState
from penstock._engine.protocol.state_handle import Lineage, StateHandle, StateMode, StatePart

if TYPE_CHECKING:
    from collections.abc import Iterator


def handle(number: int, **counts: int) -> StateHandle:
    """A file with as many items of each mode; the states are named as their modes."""
    parts = tuple(StatePart(mode, StateMode(mode), 0, count) for mode, count in counts.items())
    return StateHandle(1, number, "operator", f"file-{number}", None, 10, 1, 0, (0, -1), parts)


def subtask(number: int, *, finished: bool = False, **counts: int) -> OperatorSubtaskState:
    return OperatorSubtaskState(finished=finished, operator_state=(handle(number, **counts),) if counts else ())


def items(lineage: Lineage, mode: StateMode) -> list[tuple[int, int]]:
    """Return the items of a mode as (number of the file, position in it)."""
    return [
        (found.token, place)
        for found in lineage
        for part in found.parts
        if part.mode is mode
        for place in part.places()
    ]


def test_what_was_dealt_once_can_be_dealt_again() -> None:
    shares = redistribute([subtask(0, list=5), subtask(1, list=2)], 2)
    assert [items(share, StateMode.LIST) for share in shares] == [
        [(0, 0), (0, 2), (0, 4), (1, 1)],
        [(0, 1), (0, 3), (1, 0)],
    ]
    again = redistribute([OperatorSubtaskState(operator_state=share) for share in shares], 3)
    assert [items(share, StateMode.LIST) for share in again] == [
        [(0, 0), (1, 1), (1, 0)],
        [(0, 2), (0, 1)],
        [(0, 4), (0, 3)],
    ]


@pytest.mark.behaviour(13, 15)
def test_list_items_of_finished_subtasks_are_left_and_their_union_items_seen() -> None:
    old = [subtask(0, list=2, union=1), subtask(1, finished=True, list=2, union=2)]
    for parallelism in (1, 2, 3):
        shares = redistribute(old, parallelism)
        dealt = sorted(item for share in shares for item in items(share, StateMode.LIST))
        assert dealt == [(0, 0), (0, 1)]
        new = [OperatorSubtaskState(operator_state=share) for share in shares]
        for index in range(parallelism):
            seen = VisibleState(new).of(index)
            all_items = items(seen, StateMode.UNION) + items(seen, StateMode.FOREIGN)
            assert sorted(all_items) == [(0, 0), (1, 0), (1, 1)]


def test_finished_subtasks_keep_their_union_items_for_those_that_still_run() -> None:
    running, finished = subtask(0, union=1), subtask(1, finished=True, union=2)
    seen = VisibleState([running, finished]).of(0)
    assert (items(seen, StateMode.UNION), items(seen, StateMode.FOREIGN)) == ([(0, 0)], [(1, 0), (1, 1)])


@pytest.mark.behaviour(14)
def test_broadcast_maps_come_from_a_subtask_that_still_runs() -> None:
    old = [subtask(0, finished=True, broadcast=1), subtask(1, broadcast=1), subtask(2), subtask(3, broadcast=1)]
    shares = redistribute(old, 5)
    assert [items(share, StateMode.BROADCAST) for share in shares] == [[(1, 0)], [(3, 0)], [(1, 0)], [(3, 0)], [(1, 0)]]


def test_broadcast_maps_come_from_a_finished_subtask_where_none_runs() -> None:
    shares = redistribute([subtask(0, finished=True, broadcast=1), subtask(1, finished=True)], 2)
    assert [items(share, StateMode.BROADCAST) for share in shares] == [[(0, 0)], [(0, 0)]]


def test_a_subtask_gets_of_others_nothing_but_union_items() -> None:
    old = [subtask(0, list=1, union=1, broadcast=1), subtask(1, list=1, union=1, broadcast=1), subtask(2, list=3)]
    assert VisibleState(old).of(1) == (
        replace(old[0].operator_state[0], parts=(StatePart("union", StateMode.FOREIGN, 0, 1),)),
        old[1].operator_state[0],
    )


def test_inline_state_of_both_kinds_moves_to_files_of_its_own_when_it_is_too_much_for_the_metadata() -> None:
    lists = replace(handle(5, list=1), path=None, inline=b"l" * (3 << 19), size=3 << 19)
    keyed = replace(lists, kind="delta", inline=b"k" * (3 << 19), key_groups=(0, 127), parts=())
    subtasks = (OperatorSubtaskState((keyed,), operator_state=(lists,)),)
    before = JobSnapshot((), {"uid": OperatorMetadata("Map", 0, 1, 128, subtasks)})
    after, files = spill(before, "job", 7)
    assert sorted(data[:1] for _, data in files) == [b"k", b"l"]
    assert state_files(after) == {path for path, _ in files}


counts = st.fixed_dictionaries({"list": st.integers(1, 6), "union": st.integers(1, 4), "broadcast": st.just(1)})


@given(st.lists(counts, min_size=1, max_size=6), st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_no_item_of_running_subtasks_is_lost_or_doubled_by_any_changes(
    files: list[dict[str, int]], parallelisms: list[int]
) -> None:
    subtasks = [subtask(number, finished=number % 3 == 1, **parts) for number, parts in enumerate(files)]
    for parallelism in parallelisms:
        subtasks = [OperatorSubtaskState(operator_state=share) for share in redistribute(subtasks, parallelism)]
    for mode in (StateMode.LIST, StateMode.UNION):
        found = Counter(item for one in subtasks for item in items(one.operator_state, mode))
        assert found == Counter(
            (number, place)
            for number, parts in enumerate(files)
            if mode is StateMode.UNION or number % 3 != 1
            for place in range(parts[mode])
        )
    sizes = [len(items(one.operator_state, StateMode.LIST)) for one in subtasks]
    assert max(sizes) - min(sizes) <= 1
    assert all(len(items(one.operator_state, StateMode.BROADCAST)) == 1 for one in subtasks)
    orders = [
        [
            (found.token, part.places())
            for found in VisibleState(subtasks).of(index)
            for part in found.parts
            if part.name == "union"
        ]
        for index in range(len(subtasks))
    ]
    assert orders == [orders[0]] * len(orders)


class Counted(list[OperatorSubtaskState]):
    """Counts how many subtasks were looked at."""

    looks = 0

    def __iter__(self) -> Iterator[OperatorSubtaskState]:
        for one in super().__iter__():
            self.looks += 1
            yield one

    def __getitem__(self, place: Any) -> Any:
        self.looks += 1
        return super().__getitem__(place)


def test_each_subtask_is_looked_at_twice_where_there_is_no_union_list() -> None:
    subtasks = Counted(OperatorSubtaskState() for _ in range(50))
    visible = VisibleState(subtasks)
    assert [visible.of(index) for index in range(50)] == [()] * 50
    assert subtasks.looks == 2 * 50
