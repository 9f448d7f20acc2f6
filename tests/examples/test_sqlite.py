"""The connector of the documentation, in 60 lines or fewer, passes the contracts and runs in a job."""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program

from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.testing.in_process import Chaos
from penstock.testing.source_contract import SourceRun
from sqlite_connector import TableSink, table_source

ROWS = [{"id": number, "name": f"n{number}"} for number in range(300)]
ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "examples" / "sqlite" / "sqlite_connector.py"
#: The test on each page.
DOCUMENTS = {"test_source": ROOT / "docs" / "own-source.md", "test_sink": ROOT / "docs" / "own-sink.md"}


def table(path: Path, rows: list[dict[str, Any]] | None = None) -> str:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE items (id INTEGER, name TEXT)")
        db.executemany("INSERT INTO items VALUES (:id, :name)", rows or [])
    return str(path)


def rows_of(path: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as db:
        return [{"id": number, "name": name} for number, name in db.execute("SELECT * FROM items ORDER BY id")]


def test_it_is_short_and_stands_in_the_documentation() -> None:
    text = SOURCE.read_text()
    assert len(text.splitlines()) <= 60
    source, sink = (text[text.index(head) :] for head in ("def table_source", "class TableSink"))
    assert source.removesuffix(sink).rstrip() in DOCUMENTS["test_source"].read_text()
    assert sink.rstrip() in DOCUMENTS["test_sink"].read_text()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_tests_of_the_documentation_run_the_contracts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENTS[name].read_text(), re.MULTILINE | re.DOTALL)
    main = ModuleType("__main__")  # the blocks of SQLite, after the one of an API, are one program
    monkeypatch.setitem(sys.modules, "__main__", main)
    for block in blocks[1:3]:
        exec(compile(block, str(DOCUMENTS[name]), "exec"), vars(main))
    vars(main)[name](tmp_path)


@pytest.mark.parametrize("first", [0, 1, -500, 10**12])
def test_a_source_that_goes_on_when_the_table_has_grown_reads_what_it_had_begun_with_once(
    tmp_path: Path, first: int
) -> None:
    path = str(tmp_path / "in.db")
    rows = [{"id": first + number, "name": f"n{number}"} for number in range(15_000)]

    def insert(new: list[dict[str, Any]]) -> None:
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, name TEXT)")
            db.executemany("INSERT INTO items VALUES (:id, :name)", new)

    insert(rows[:10_000])
    run = SourceRun(table_source(path, "items"), 2)
    checkpoint = run.epoch(polls=1)
    read = list(run.records)
    assert 0 < len(read) < 10_000
    run.close()
    insert(rows[10_000:])
    read += SourceRun(table_source(path, "items"), 2, checkpoint).run_to_end()
    assert sorted(row["id"] for row in read) == [row["id"] for row in rows[:10_000]]


def test_an_empty_table_has_no_rows(tmp_path: Path) -> None:
    assert SourceRun(table_source(table(tmp_path / "in.db"), "items")).run_to_end() == []


def test_a_job_copies_a_table_exactly_once_whatever_is_lost(tmp_path: Path) -> None:
    origin, target = table(tmp_path / "in.db", ROWS), table(tmp_path / "out.db")
    settings = {"checkpoints": str(tmp_path / "checkpoints"), "inline": "0 b", "interval": "1 s"}
    program = Program(tmp_path, 2, **settings)
    stream = program.env.from_source(table_source(origin, "items"), WatermarkStrategy.no_watermarks(), "items")
    stream.uid("in").sink_to(TableSink(target, "items")).uid("out")
    driven = Driven(program.env, tmp_path / "state", Epochs(40, chaos=Chaos(0.2, 0.1, 0.1), seed=3))
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    assert rows_of(target) == ROWS
