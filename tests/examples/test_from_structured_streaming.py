"""The page for those who know Structured Streaming: both of its programs print what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.docs.programs import assert_prints_what_it_shows

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
