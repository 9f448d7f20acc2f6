"""Random lives of a sink whose table of a lake changes at random moments: each ends right, or the error names it."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.types import LongType, StringType
from tests.connectors.catalogs import NAME, catalog_of, options
from tests.connectors.test_lakes_that_change import (
    SCHEMA,
    Life,
    added,
    anew,
    deleted,
    deleted_and_made,
    ending,
    evolve,
    partitioned,
    rewritten,
    threads_of_the_libraries,
    with_rule,
)

from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures(threads_of_the_libraries.__name__)

LIVES = int(os.environ.get("PENSTOCK_TEST_LIVES", "3"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 30)

KINDS = ("LakeTableError", "UnsupportedTableError", "LostCommittableError", "RecordFieldError", "RecordValueError")


def compacted(folder: Path) -> None:
    DeltaTable(str(folder)).optimize.compact()


def emptied(folder: Path) -> None:
    DeltaTable(str(folder)).delete()


def widened(folder: Path) -> None:
    evolve(lambda update: update.update_column("price", LongType()))(folder)


def another_column(folder: Path) -> None:
    steps = (lambda update: update.delete_column("price"), lambda update: update.add_column("price", LongType()))
    evolve(*steps)(folder)


#: Changes, and what becomes of the prices that are in the table: they stay, they are gone, or the rows are.
ICEBERG: dict[Callable[[Path], None], str] = {
    evolve(lambda update: update.add_column("more", StringType())): "stay",
    evolve(lambda update: update.rename_column("price", "cost")): "stay",
    evolve(lambda update: update.delete_column("price")): "gone",
    widened: "stay",
    another_column: "gone",
    partitioned: "stay",
    anew: "none",
}
DELTA: dict[Callable[[Path], None], str] = {
    rewritten(pa.schema([("id", pa.int64()), ("price", pa.string())])): "none",
    added: "stay",
    compacted: "stay",
    with_rule: "stay",
    emptied: "none",
    deleted: "none",
    deleted_and_made: "none",
}


@dataclass
class Lake:
    """A table, its sink, and what there should be in it."""

    folder: Path
    sink: Any
    changes: dict[Callable[[Path], None], str]
    rows: Callable[[], list[dict[str, Any]]]
    expected: dict[int, int | None] = field(default_factory=dict)

    def change(self, draw: random.Random) -> None:
        change = draw.choice(list(self.changes))
        try:
            change(self.folder)
        except Exception:  # noqa: BLE001 - it was made before, or the table is gone
            return
        gone = dict.fromkeys(self.expected)
        self.expected = {"stay": self.expected, "gone": gone, "none": {}}[self.changes[change]]

    def live(self, draw: random.Random) -> str | None:
        """Stage, commit, start again and change at random; return the error that ends it."""
        life, staged, error = Life(self.sink), list[tuple[int, list[Any]]](), None
        for number in range(1, 16):
            match draw.choice(["stage", "stage", "commit", "commit", "change", "start"]):
                case "stage":
                    record = {"id": number, "price": 10 * number}
                    error = ending(lambda: staged.append((number, life.stage(record))))  # noqa: B023
                case "commit" if staged:
                    done, requests = staged.pop(0)
                    error = ending(lambda: life.commit(requests))  # noqa: B023
                    if error is None:
                        self.expected[done] = 10 * done
                case "start":
                    lives: list[Life] = []
                    error = ending(lambda: lives.append(life.again()))  # noqa: B023
                    life = lives[0] if lives else life
                case "change":
                    self.change(draw)
            if error is not None:
                break
        life.close()
        return error


def iceberg(folder: Path) -> Lake:
    with catalog_of(folder) as catalog:
        catalog.create_table(NAME, SCHEMA)

    def rows() -> list[dict[str, Any]]:
        with catalog_of(folder) as catalog:
            found: Any = catalog.load_table(NAME).scan().to_arrow().to_pylist()
        return found

    return Lake(folder, IcebergSink(NAME, options(folder)), ICEBERG, rows)


def delta(folder: Path) -> Lake:
    def rows() -> list[dict[str, Any]]:
        return DeltaTable(str(folder)).to_pyarrow_table().to_pylist() if (folder / "_delta_log").exists() else []

    return Lake(folder, DeltaSink(str(folder), SCHEMA), DELTA, rows)


@pytest.mark.parametrize("make", [iceberg, delta])
def test_lives_of_sinks_whose_table_changes_end_right_or_with_an_error_that_names_it(
    tmp_path: Path, make: Callable[[Path], Lake]
) -> None:
    for number in range(LIVES):
        lake = make(tmp_path / str(number))
        error = lake.live(random.Random(SEED + number))
        found = {row["id"]: row.get("price", row.get("cost")) for row in lake.rows()}
        note = f"PENSTOCK_TEST_SEED={SEED + number}: {error}"
        assert found == lake.expected, note
        assert error is None or error.startswith(KINDS), note
