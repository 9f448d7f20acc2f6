"""The queries of Nexmark, PyFlink programs whose imports `penstock port` changes, beside what DuckDB finds."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.nexmark import events, plain, truth

from penstock._connectors.files import source as file_source
from penstock._engine.cli.porting import ported
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(events.__file__).parent / "queries"
EVENTS = 4_000
QUERIES = sorted(truth.TRUTHS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events: 50 in a second, so that they fill eight windows of ten seconds."""
    folder = tmp_path_factory.mktemp("nexmark") / "in"
    events.write(folder, EVENTS, step_ms=20)
    return folder


@pytest.fixture(scope="module")
def found_by_duckdb(folder: Path) -> Iterator[truth.Events]:
    found = truth.Events(folder)
    yield found
    found.close()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module that puts a query together, as it is after the port."""
    place = tmp_path_factory.mktemp("ported")
    (place / "queries").mkdir()
    for path in PROGRAMS.glob("*.py"):
        done = ported(path.read_text())
        assert all(finding.may_stay for finding in done.findings)
        (place / "queries" / path.name).write_text(done.text)
    sys.path.insert(0, str(place))
    yield importlib.import_module("queries.__main__")
    sys.path.remove(str(place))
    for name in [name for name in sys.modules if name.partition(".")[0] == "queries"]:
        del sys.modules[name]


def test_the_plain_program_of_each_query_finds_what_duckdb_finds(
    folder: Path, found_by_duckdb: truth.Events, tmp_path: Path
) -> None:
    assert sorted(plain.FLOORS) == QUERIES
    for query in QUERIES:
        plain.write(query, folder, tmp_path / query)
        assert found_by_duckdb.check(query, tmp_path / query) > 0


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("query", QUERIES)
def test_nexmark_over_two_files_of_the_same_time_gives_what_duckdb_finds(
    query: str,
    mode: str,
    *,
    program: Any,
    folder: Path,
    found_by_duckdb: truth.Events,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_source, "_LEAST_PART_BYTES", 1 << 16)  # so small files would be cut, too
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.runtime-mode": mode, "parallelism.default": "2"})
    )
    program.build(env, query, str(folder), str(tmp_path / "out"))
    env.execute(f"nexmark {query} {mode}")
    assert found_by_duckdb.check(query, tmp_path / "out") > 0
