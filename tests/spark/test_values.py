"""The table of values through DataFrames of Spark: all values are columns of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.values.page import changed, faults
from tests.values.paths.data_frames import PATHS
from tests.values.table import verdicts

from penstock._engine.caches import place as kept_places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.spark.session import SparkHandle


@pytest.fixture
def kept(spark: SparkHandle) -> Iterator[None]:
    """What programs keep goes at the end."""
    del spark
    yield
    kept_places.remove_places()


@pytest.mark.usefixtures("kept")
def test_each_value_comes_back_from_a_data_frame_or_is_converted_as_a_line_says() -> None:
    path = PATHS[-1]
    found = verdicts(path)
    assert changed(path, found) == []
    assert faults(found) == []
