"""Random lives of a source whose table of a lake changes: each gives the pinned rows once, or the error names it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.connectors import test_lake_lives
from tests.connectors.catalogs import NAME, catalog_of, options
from tests.connectors.test_lake_lives import LIVES, SEED, compacted
from tests.connectors.test_lakes_that_change import (
    SCHEMA,
    anew,
    deleted,
    deleted_and_made,
    dropped,
    ending,
    swapped,
    threads_of_the_libraries,
)
from tests.kit.source_lives import live

from penstock.common.time import Duration
from penstock.datastream.connectors.delta import DeltaSource
from penstock.datastream.connectors.iceberg import IcebergSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures(threads_of_the_libraries.__name__)


def vacuumed(folder: Path) -> None:
    compacted(folder)
    DeltaTable(str(folder)).vacuum(0, dry_run=False, enforce_retention_duration=False)


def some_deleted(folder: Path) -> None:
    with catalog_of(folder) as catalog:
        catalog.load_table(NAME).delete("id < 5")


def expired(folder: Path) -> None:
    with catalog_of(folder) as catalog:
        table = catalog.load_table(NAME)
        for snapshot in table.snapshots()[:-1]:
            catalog.load_table(NAME).maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()


def rolled_back(folder: Path) -> None:
    with catalog_of(folder) as catalog:
        table = catalog.load_table(NAME)
        first = table.snapshots()[0].snapshot_id
        table.manage_snapshots().set_current_snapshot(snapshot_id=first).commit()


def files_gone(folder: Path) -> None:
    for file in folder.rglob("*.parquet"):
        file.unlink()


GONE = "it belongs to version .* and is not any more"
#: Changes, and what an error after them says; without one the rows are those that were pinned.
DELTA: dict[Callable[[Path], None], str] = {
    **dict.fromkeys(test_lake_lives.DELTA, ""),
    **dict.fromkeys([vacuumed, deleted, deleted_and_made, files_gone], GONE),
}
ANEW = "dropped and made anew"
ICEBERG: dict[Callable[[Path], None], str] = {
    **dict.fromkeys(test_lake_lives.ICEBERG, ""),
    anew: ANEW,
    swapped: ANEW,
    dropped: "no such table",
    some_deleted: "skip_changes=True",
    expired: "have expired",
    rolled_back: "does not descend from",
    files_gone: "expired snapshots take their files",
}


@dataclass
class Lake:
    """A table, its source, and what that should read."""

    folder: Path
    source: Callable[[], Any]
    changes: dict[Callable[[Path], None], str]
    append: Callable[[Path, list[int]], dict[int, int | None]]
    is_followed: bool = False
    #: The greatest id that the source has found when it begins.
    found: int = 9
    wanted: dict[int, int | None] = field(default_factory=dict)
    #: What somebody has taken back, perhaps before it was to be seen.
    taken_back: set[int] = field(default_factory=set)
    says: list[str] = field(default_factory=list)

    def fill(self) -> Lake:
        for first in (1, 4, 7):
            self.wanted |= self.append(self.folder, [first, first + 1, first + 2])
        return self

    def change(self, draw: random.Random) -> None:
        if draw.random() < 0.3:
            self._append()
        change = draw.choice(list(self.changes))
        try:
            change(self.folder)
        except Exception:  # noqa: BLE001 - it was made before, or the table is gone
            return
        self.says.append(self.changes[change])
        if change is rolled_back:
            self.taken_back = {number for number in self.wanted if number > self.found}
        if change is expired and self.found == 0:  # perhaps before the source looked for the oldest retained snapshot
            self.taken_back |= {number for number in self.wanted if number < max(self.wanted) - 1}
        if draw.random() < 0.5:
            self._append()

    def _append(self) -> None:
        number = 10 + len(self.wanted)
        try:
            appended = self.append(self.folder, [number, number + 1])
        except Exception:  # noqa: BLE001 - the table is gone, or is another one
            return
        if self.is_followed:
            self.wanted |= appended


def to_delta(folder: Path, ids: list[int]) -> dict[int, int | None]:
    rows = {"id": ids, "price": [10 * number for number in ids]}
    write_deltalake(str(folder), pa.table(rows, SCHEMA), mode="append")
    return dict(zip(ids, rows["price"], strict=True))


def delta(folder: Path, _: random.Random) -> Lake:
    return Lake(folder, lambda: DeltaSource(str(folder)), DELTA, to_delta)


def to_iceberg(folder: Path, ids: list[int]) -> dict[int, int | None]:
    """Append rows with the columns that the table has now."""
    with catalog_of(folder) as catalog:
        table = catalog.load_table(NAME)
        schema: Any = table.schema().as_arrow()
        values: dict[str, list[Any]] = {name: [None] * len(ids) for name in schema.names}
        for name in {"price", "cost"} & set(values):
            values[name] = [10 * number for number in ids]
        table.append(pa.table(values | {"id": ids}, schema))
    return dict(zip(ids, values.get("price", values.get("cost", [None] * len(ids))), strict=True))


def iceberg(folder: Path, draw: random.Random) -> Lake:
    with catalog_of(folder) as catalog:
        catalog.create_table(NAME, SCHEMA)
    start = draw.choice(["", "table", "earliest"])
    following: dict[str, Any] = {"follow": Duration.of_seconds(1), "start": start} if start else {}
    lake = Lake(folder, lambda: IcebergSource(NAME, options(folder), **following), ICEBERG, to_iceberg, bool(start))
    lake.found = 0 if start == "earliest" else 9
    return lake


@pytest.mark.parametrize("make", [iceberg, delta])
def test_lives_of_sources_whose_table_changes_give_each_row_once_or_an_error_that_names_it(
    tmp_path: Path, make: Callable[[Path, random.Random], Lake]
) -> None:
    for number in range(LIVES):
        draw = random.Random(SEED + number)
        lake, records = make(tmp_path / str(number), draw).fill(), list[dict[str, Any]]()
        told = ending(lambda: live(draw, lake.source, lambda: lake.change(draw), records, polls=3))  # noqa: B023
        found = {row["id"]: row.get("price", row.get("cost")) for row in records}
        note = f"PENSTOCK_TEST_SEED={SEED + number}, {lake.says}: {told}"
        assert len(found) == len(records), note
        assert found.items() <= lake.wanted.items(), note
        if told is None:
            assert found.keys() >= lake.wanted.keys() - lake.taken_back, note
        else:
            assert any(says and re.search(says, told) for says in lake.says), note
