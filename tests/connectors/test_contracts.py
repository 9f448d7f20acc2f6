"""Every built-in connector passes the contract that a connector's author runs."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.connectors.staged import elsewhere, lose_staged

from penstock.common.serialization import Encoder
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.testing.sink_contract import SinkContract, SinkUnderTest
from penstock.testing.source_contract import SourceContract
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Callable


KINDS = {"source": "SourceContract", "sink": "SinkContract"}
#: Code in a line of the documentation.
CODE = re.compile(r"`([^`]+)`")
#: Runs the contracts that the documentation shows.
SHOWN = "examples/test_sqlite.py"
#: Contracts of connectors that are broken.
FAULTS = "connectors/test_contracts_find_faults.py"


class ByLength(BucketAssigner):
    def get_bucket_id(self, element: Any, timestamp: int | None, processing_time_ms: int) -> str:
        return f"length={len(element)}"


def visible_lines(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return [line for path in sorted(files) for line in path.read_text("utf-8").splitlines()]


def test_number_sequence() -> None:
    SourceContract(lambda: NumberSequenceSource(-3, 40_000), range(-3, 40_001)).check_all()


def test_number_sequence_with_fewer_numbers_than_readers() -> None:
    SourceContract(lambda: NumberSequenceSource(7, 8), [7, 8]).check_all()


@pytest.mark.parametrize(
    "strategy",
    [RateLimiterStrategy.no_op(), RateLimiterStrategy.per_second(1e9), RateLimiterStrategy.per_checkpoint(997)],
)
def test_data_generator(strategy: RateLimiterStrategy) -> None:
    expected = [index * index for index in range(20_000)]
    SourceContract(lambda: DataGeneratorSource(lambda index: index * index, 20_000, strategy), expected).check_all()


def test_list_source() -> None:
    SourceContract(
        lambda: ListSource([1, 2, 3], [], [4], list(range(10, 20))), [1, 2, 3, 4, *range(10, 20)]
    ).check_all()


def test_text_files(tmp_path: Path) -> None:
    expected: list[str] = []
    for name in ("a.txt", "b.txt", "nested/c.txt"):
        lines = [f"{name} {number} {'ü' * 30}" for number in range(6_000)]
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(lines), "utf-8")
        expected += lines
    (tmp_path / "_hidden.txt").write_text("no")
    make = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build
    SourceContract(make, expected).check_all()


ROW_SINKS: dict[str, Callable[[FileSink.RowFormatBuilder], FileSink.RowFormatBuilder]] = {
    "default policy": lambda builder: builder,
    "one part for each checkpoint": lambda builder: builder.with_rolling_policy(
        RollingPolicy.on_checkpoint_rolling_policy()
    ),
    "small parts": lambda builder: builder.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=100)),
    "many buckets": lambda builder: builder.with_bucket_assigner(ByLength()),
    "base path": lambda builder: builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()),
    "names": lambda builder: builder.with_output_file_config(OutputFileConfig("p", ".txt")),
}


@pytest.mark.parametrize("configure", ROW_SINKS.values(), ids=ROW_SINKS.keys())
def test_row_file_sink(
    tmp_path: Path, configure: Callable[[FileSink.RowFormatBuilder], FileSink.RowFormatBuilder]
) -> None:
    targets = 0

    def make() -> SinkUnderTest:
        nonlocal targets
        targets += 1
        target = tmp_path / str(targets)
        builder = configure(FileSink.for_row_format(str(target), Encoder.simple_string_encoder()))
        read, lose, unshared = (partial(act, target) for act in (visible_lines, lose_staged, elsewhere))
        return SinkUnderTest(builder.build(), read, lose, unshared=unshared)

    SinkContract(make, [f"{'x' * (number % 5)}{number}" for number in range(4000)]).check_all()


def test_the_documentation_names_where_each_contract_runs_whole() -> None:
    tests = Path(__file__).parents[1]
    table = (tests.parent / "docs" / "connectors.md").read_text().partition("| Connector | Contract |")[2]
    named = re.findall(r"^\| [^|]*\| ([^|]+) \| ([^|]+) \|$", table.partition("\n\n")[0], re.MULTILINE)
    claimed = {
        (kind, file) for kinds, files in named for kind in KINDS if kind in kinds for file in CODE.findall(files)
    }
    found = {
        (kind, path.relative_to(tests).as_posix())
        for path in tests.rglob("test_*.py")
        if path.parent.name != "docs"  # connectors that documents show
        for kind, begin in KINDS.items()
        if re.search(rf"^    {begin}\(.*\)\.check_all\(\)$", path.read_text(), re.MULTILINE)
    }
    assert claimed == found - {(kind, FAULTS) for kind in KINDS} | {(kind, SHOWN) for kind in KINDS}


def test_the_documentation_names_tests_of_faults_that_exist() -> None:
    tests = Path(__file__).parents[1]
    table = (tests.parent / "docs" / "connectors.md").read_text().partition("| Fault | What happens |")[2]
    named = [one.split("::") for one in CODE.findall(table) if "::" in one]
    assert len(named) > 20
    assert [name for file, name in named if f"def {name}(" not in (tests / file).read_text()] == []
