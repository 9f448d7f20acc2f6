"""Sources without files give the records of each split in its order, whichever reader takes them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

from penstock._connectors.collection import CollectionSource
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = 3000
SOURCES: dict[str, Callable[[], Any]] = {
    "a collection": lambda: CollectionSource(pickle.dumps(list(range(COUNT)))),
    "numbers": lambda: NumberSequenceSource(0, COUNT - 1),
    "generated": lambda: DataGeneratorSource(lambda number: number, COUNT),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_a_split_is_read_in_its_order_over_epochs_and_a_restart(make: Callable[[], Any]) -> None:
    for parallelism in (1, 2, 3):
        run = SourceRun(make(), parallelism)
        checkpoint = [run.epoch(polls=1) for _ in range(2)][-1]
        found = list(run.records)
        run.close()
        run = SourceRun(make(), parallelism, checkpoint)
        found += run.run_to_end()
        run.close()
        assert sorted(found) == list(range(COUNT))
        # Each number follows the one before it in its split, or begins one; generators have every second one, or third.
        ends: list[int] = []
        for number in found:
            before = number - (parallelism if make is SOURCES["generated"] else 1)
            if before in ends:
                ends.remove(before)
            ends.append(number)
        assert len(ends) <= parallelism
