"""What leaves a function is its receiver's own at the end of a block, too, and where state is read from the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.epochs import Job
from tests.kit.program import Program
from tests.unit.runtime import test_sharing as sharing

from penstock._engine.runtime import edge_writer

if TYPE_CHECKING:
    from pathlib import Path

OPERATORS: dict[str, Any] = {**sharing.OPERATORS, "source": sharing.emitted}
#: Those that keep state.
KEYED = ("reduce", "window-reduce", "window-aggregate", "window-process", "keyed-process")
#: Records go on without a copy; keyed state has room for nothing, so that it is read from the disk and written there.
STARVED = {"pipeline.object-reuse": "true", "penstock.state.memory": "1 b"}


def outputs_of(operator: str, habit: str, place: Path, per_epoch: int, **settings: str) -> dict[str, list[str]]:
    """Run an operator, chained and over an edge, beside one of pure functions; return what each part gives, sorted."""
    program = Program(place, parallelism=2 if operator in KEYED else 1)
    for name in sharing.PARTS:
        OPERATORS[operator](sharing.Part(program, sharing.FORMS["dict"], habit, name))
    outputs: dict[str, list[str]] = {name: [] for name in sharing.PARTS}
    for name, records in Job(program.graph(), place, configuration=settings).run(per_epoch).items():
        part, _, output = name.partition("/")
        outputs[part] += [f"{output} {record}" for record in records]
    assert outputs["pure"]
    return {part: sorted(records) for part, records in outputs.items()}


@pytest.mark.parametrize("habit", ["reuses", "repeats"])
@pytest.mark.parametrize("records", [1, 5, 7, 10])
def test_the_last_record_of_a_block_is_the_receivers_own(
    records: int, habit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll gives five records, and a flat map ten: blocks end with them, between them, and a record before."""
    monkeypatch.setattr(edge_writer, "_FIRST_BLOCK_RECORDS", records)
    monkeypatch.setattr(edge_writer, "_BLOCK_RECORDS", records)
    for operator in ("map", "flat_map", "process", "source"):
        outputs = outputs_of(operator, habit, tmp_path / operator, 1_000_000)
        assert outputs["over-an-edge"] == outputs["pure"]


@pytest.mark.parametrize("operator", KEYED)
def test_object_reuse_changes_nothing_where_state_has_no_room(operator: str, tmp_path: Path) -> None:
    copied = outputs_of(operator, "pure", tmp_path / "copied", 3)
    assert outputs_of(operator, "pure", tmp_path / "reused", 3, **STARVED) == copied


def test_a_reduce_may_fold_into_its_first_argument_with_object_reuse_where_state_has_no_room(tmp_path: Path) -> None:
    outputs = outputs_of("reduce", "mutates", tmp_path, 3, **STARVED)
    assert outputs["over-an-edge"] == outputs["pure"]
