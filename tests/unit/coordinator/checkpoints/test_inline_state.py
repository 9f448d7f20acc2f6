"""State inside the metadata: tasks are told how much there is room for, so the driver writes no files for them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock._engine.coordinator.checkpoints.snapshots import MAX_INLINE, inline_limit, spill
from penstock._engine.protocol.metadata import JobSnapshot, OperatorMetadata, OperatorSubtaskState
from penstock._engine.protocol.state_handle import StateHandle


def snapshot(*chains: tuple[StateHandle, ...]) -> JobSnapshot:
    subtasks = tuple(map(OperatorSubtaskState, chains))
    return JobSnapshot((), {"uid": OperatorMetadata("Count", 0, len(subtasks), 4_096, subtasks)})


def delta(checkpoint_id: int, size: int, limit: int) -> StateHandle:
    """Return what a task answers that is told the limit."""
    path = f"{checkpoint_id}-{size}" if size > limit else None
    inline = None if path else b"x" * size
    return StateHandle(checkpoint_id, checkpoint_id, "delta", path, inline, size, 1, 0, (0, 1))


def test_few_subtasks_with_little_state_have_room_for_more_than_the_threshold() -> None:
    assert inline_limit(snapshot((), ())) == MAX_INLINE // 2


def test_a_thousand_subtasks_have_little_room_each() -> None:
    assert inline_limit(snapshot(*[()] * 1_000)) == MAX_INLINE // 1_000


def test_metadata_that_is_full_has_no_room() -> None:
    assert inline_limit(snapshot((delta(1, MAX_INLINE, MAX_INLINE),), ())) == 0


def test_subtasks_without_state_leave_their_room_to_others() -> None:
    assert inline_limit(snapshot((delta(1, 8, 8),), *[()] * 999)) == MAX_INLINE - 8


@given(st.lists(st.lists(st.integers(1, 1 << 19), min_size=7, max_size=7), min_size=1, max_size=20))
def test_the_driver_writes_no_file_however_large_the_changes_of_each_epoch_are(epochs: list[list[int]]) -> None:
    state = snapshot(*[()] * 7)
    for number, sizes in enumerate(epochs, 1):
        limit, before = inline_limit(state), state.operators["uid"].subtasks
        after = [(*part.lineage, delta(number, size, limit)) for part, size in zip(before, sizes, strict=True)]
        state, files = spill(replace(state, operators=snapshot(*after).operators), "job", number)
        assert files == ()
