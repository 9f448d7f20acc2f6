from __future__ import annotations

from penstock._engine.coordinator.checkpoints.chain import LEFTOVER_AGE_MS, SWEEP_MS, CheckpointRetention
from penstock._engine.coordinator.instructions import Leftovers
from penstock._engine.protocol.metadata import (
    ChainEntry,
    ChainEntryKind,
    JobSnapshot,
    OperatorMetadata,
    OperatorSubtaskState,
)
from penstock._engine.protocol.state_handle import StateHandle


def checkpoint(checkpoint_id: int, *files: str) -> ChainEntry:
    lineage = tuple(StateHandle(checkpoint_id, 1, "delta", file, None, 1, 1, 0, (0, 127)) for file in files)
    operators = {"op": OperatorMetadata("op", 0, 1, 128, (OperatorSubtaskState(lineage),))}
    return ChainEntry(
        ChainEntryKind.CHECKPOINT, "j", "job", checkpoint_id, "run", "n", 0, "0", None, JobSnapshot((), operators)
    )


def test_newest_checkpoints_stay_and_files_go_with_the_last_that_names_them() -> None:
    retention = CheckpointRetention(2, 0)
    retention.keep(checkpoint(1, "a"))
    retention.keep(checkpoint(2, "a", "b"))
    assert retention.drop() == Leftovers()
    retention.keep(checkpoint(3, "b", "c"))
    assert retention.drop() == Leftovers((1,), ())
    retention.keep(checkpoint(4, "c"))
    assert retention.drop() == Leftovers((2,), ("a",))
    assert retention.checkpoints == {3, 4}
    assert retention.files == {"b", "c"}


def test_files_that_are_being_copied_stay_with_whoever_else_needs_them() -> None:
    retention = CheckpointRetention(1, 0)
    first = checkpoint(1, "a", "b")
    retention.keep(first)
    one, other = (retention.pin(1, frozenset({"a", "b"})) for _ in range(2))
    assert retention.unpin(one) == Leftovers()
    retention.keep(checkpoint(2, "b"))
    assert retention.drop() == Leftovers((1,))
    assert retention.unpin(other) == Leftovers((), ("a",))


def test_files_that_a_job_begins_with_stay_until_newer_ones_are_there() -> None:
    retention = CheckpointRetention(1, 0)
    origin = checkpoint(1, "copy").snapshot
    assert origin is not None
    retention.keep_origin(origin)
    assert retention.unpin(retention.pin(1, frozenset({"copy"}))) == Leftovers()
    retention.keep(checkpoint(2, "a"))
    assert retention.drop() == Leftovers((), ("copy",))


def test_leftovers_are_looked_for_at_the_start_and_a_while_later() -> None:
    retention = CheckpointRetention(1, 1_000)
    assert retention.sweep_due(1_000)
    assert not retention.sweep_due(2_000)
    assert retention.sweep_due(1_000 + LEFTOVER_AGE_MS)
    assert not retention.sweep_due(LEFTOVER_AGE_MS + SWEEP_MS)


def test_leftovers_are_looked_for_a_while_after_an_epoch_was_given_up() -> None:
    retention = CheckpointRetention(1, 0)
    assert retention.sweep_due(LEFTOVER_AGE_MS)
    for at in range(100_000, 100_100):  # many in a row are one reason to look
        retention.leftovers_possible(at)
    assert not retention.sweep_due(100_000 + LEFTOVER_AGE_MS - 1)
    assert retention.sweep_due(100_099 + LEFTOVER_AGE_MS)
    assert not retention.sweep_due(LEFTOVER_AGE_MS + SWEEP_MS - 1)


def test_leftovers_of_attempts_that_nobody_gave_up_are_looked_for_each_hour() -> None:
    """A speculative copy that lost, and a task on a host that was cut off, leave files while all epochs count."""
    retention = CheckpointRetention(1, 0)
    sweeps = [at for at in range(0, 4 * SWEEP_MS, 10_000) if retention.sweep_due(at)]
    assert sweeps == [0, LEFTOVER_AGE_MS, *(LEFTOVER_AGE_MS + hour * SWEEP_MS for hour in (1, 2, 3))]


def test_an_epoch_that_was_given_up_is_swept_soon_though_the_hourly_sweep_is_due_later() -> None:
    retention = CheckpointRetention(1, 0)
    assert retention.sweep_due(LEFTOVER_AGE_MS)
    retention.leftovers_possible(100_000)
    retention.leftovers_possible(150_000)
    sweeps = [at for at in range(100_000, SWEEP_MS + 200_000, 10_000) if retention.sweep_due(at)]
    assert sweeps == [160_000, 210_000, LEFTOVER_AGE_MS + SWEEP_MS]


def test_claimed_checkpoint_goes_when_as_many_newer_ones_are_there_as_are_retained() -> None:
    retention = CheckpointRetention(2, 0, ("/savepoints/one",))
    copies = checkpoint(1, "copy").snapshot
    assert copies is not None
    retention.keep_origin(copies)
    assert (retention.checkpoints, retention.files) == (frozenset(), {"copy"})
    retention.keep(checkpoint(3, "copy", "a"))
    assert retention.drop() == Leftovers()
    retention.keep(checkpoint(4, "copy", "b"))
    assert retention.drop() == Leftovers((), (), ("/savepoints/one",))
    retention.keep(checkpoint(5, "b"))
    retention.keep(checkpoint(6, "b"))
    assert retention.drop() == Leftovers((3, 4), ("a", "copy"))
