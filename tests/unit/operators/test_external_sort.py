"""The sort of batch mode: by key, time and arrival, in bounded memory, whatever is spilled."""

from __future__ import annotations

import random
import tracemalloc
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.operators.sorting.external_sort import ExternalSorter
from penstock._engine.operators.sorting.spilling import SpillFiles
from penstock._engine.protocol.keys import encode_key, normal_key
from penstock.errors import SortSpillError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: (key, stamp, record, input)
Row = tuple[Any, int, Any, int]
NOTHING_FITS, ALL_FITS = 1, 1 << 30


def sort(rows: Sequence[Row], place: Path, memory: int, *, stamped: bool = True, most_runs: int = 64) -> list[Row]:
    sorter = ExternalSorter(memory, place, most_runs)
    for start in range(0, len(rows), 7):
        some = rows[start : start + 7]
        for index, run in groupby(some, key=lambda row: row[3]):
            part = list(run)
            stamps = [row[1] for row in part] if stamped else None
            sorter.add([normal_key(row[0]) for row in part], [(row[0], row[2]) for row in part], stamps, index)
    out: list[Row] = []
    for part in sorter.parts():
        assert (part.stamps is not None) == stamped
        stamps = part.stamps or [0] * len(part.records)
        out += [(key, at, value, part.input_index) for (key, value), at in zip(part.records, stamps, strict=True)]
    sorter.close()
    return out


def rows_of(seed: int, count: int) -> list[Row]:
    draw = random.Random(seed)
    keys = ["a", "b", 1, 2.5, (1, "x"), None, True]
    return [(draw.choice(keys), draw.randrange(5), number, draw.randrange(2)) for number in range(count)]


@pytest.mark.behaviour(156)
@pytest.mark.parametrize("memory", [NOTHING_FITS, 20_000, ALL_FITS])
def test_keys_are_together_in_the_order_of_time_and_ties_in_that_of_arrival(tmp_path: Path, memory: int) -> None:
    rows = rows_of(memory, 300)
    expected = sorted(rows, key=lambda row: (encode_key(row[0]), row[1]))
    assert sort(rows, tmp_path, memory, most_runs=3) == expected


def test_no_more_runs_than_that_are_open_at_a_time(tmp_path: Path) -> None:
    spilled, merges = SpillFiles(tmp_path, most_runs=3), list[int]()

    def merge(runs: list[Any]) -> None:
        merges.append(len(runs))
        spilled.new()

    for _ in range(7):
        spilled.new()
        spilled.merge_many(merge)
    assert merges == [3, 3, 3]
    assert len(spilled.runs) == 1
    spilled.close()


@pytest.mark.parametrize("memory", [NOTHING_FITS, ALL_FITS])
def test_without_timestamps_a_key_is_in_the_order_of_arrival(tmp_path: Path, memory: int) -> None:
    rows = [(key, 0, value, index) for key, _, value, index in rows_of(3, 300)]
    expected = sorted(rows, key=lambda row: encode_key(row[0]))
    assert sort(rows, tmp_path, memory, stamped=False, most_runs=3) == expected


def test_eight_times_the_memory_is_sorted_in_bounded_memory(tmp_path: Path) -> None:
    memory, size, peak = 1 << 18, 0, 0
    sorter = ExternalSorter(memory, tmp_path)
    tracemalloc.start()
    try:
        number = 0
        while size < 8 * memory:
            texts = [f"{number + at}".zfill(200) for at in range(64)]
            sorter.add([text[-3:] for text in texts], texts, None)
            number, size = number + 64, size + 64 * 200
        found = sum(len(part.records) for part in sorter.parts())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        sorter.close()
    assert found == number
    assert peak < 3 * memory
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_a_sort_leaves_another_in_its_place_its_disk(tmp_path: Path) -> None:
    first, second = (ExternalSorter(NOTHING_FITS, tmp_path) for _ in range(2))
    second.add(["b"], ["b"], None)
    first.close()
    second.add(["a"], ["a"], None)
    assert [record for part in second.parts() for record in part.records] == ["a", "b"]
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_a_sort_without_a_disk_is_known_before_its_first_record(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(SortSpillError, match=r"cannot write to .*file/sorts: Not a directory"):
        ExternalSorter(ALL_FITS, tmp_path / "file" / "sorts")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**where: Any) -> Any:
        raise OSError(28, "No space left on device")

    sorter = ExternalSorter(NOTHING_FITS, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("tempfile.TemporaryFile", full)
        with pytest.raises(SortSpillError, match=r"No space left on device, and its disk has .* bytes left"):
            sorter.add(["a"], ["record"], None)
    sorter.close()
