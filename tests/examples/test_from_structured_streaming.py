"""The page for those who know Structured Streaming: both of its programs print what it shows; the third has a plan."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from tests.docs.programs import assert_prints_what_it_shows

from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from-structured-streaming.md"
PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture
def left_as_found(spark: object) -> Iterator[None]:
    """Take back what the page's Spark program sets in the session that all tests share."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    before = session.conf.get(PARTITIONS)
    assert before is not None
    yield
    session.conf.set(PARTITIONS, before)
    session.catalog.dropTempView("revenue")


@pytest.mark.spark
@pytest.mark.usefixtures("left_as_found")
def test_both_programs_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_prints_what_it_shows(PAGE, tmp_path, monkeypatch, capsys)


def test_the_job_in_production_has_a_plan_in_which_all_that_has_state_has_a_uid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (program,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    plans: list[str] = []

    def execute(env: StreamExecutionEnvironment, _name: str) -> None:
        plans.append(env.explain())

    monkeypatch.setattr(StreamExecutionEnvironment, "execute", execute)
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(compile(program, str(PAGE), "exec"), vars(main))
    (plan,) = plans
    assert all(f"uid {uid}" in plan for uid in ("orders", "totals", "table", "topic"))
    assert not re.search(r"(process|source|sink_writer), uid \w+, generated", plan)
