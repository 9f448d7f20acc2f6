"""Random jobs on Spark that are stopped at random moments and go on at any parallelism: for the campaign."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.test_alignment import aligned_jobs, check_sizes_of_groups
from tests.property.test_restore import Plan, check_stops_of, plans

if TYPE_CHECKING:
    from penstock._engine.spark.session import SparkHandle

EXAMPLES = int(os.environ.get("PENSTOCK_SPARK_RESTORE_EXAMPLES", "0"))


@pytest.mark.spark
@pytest.mark.skipif(not EXAMPLES, reason="long: for the campaign")
@settings(max_examples=EXAMPLES or 1, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), plan=plans)
def test_stopped_and_rescaled_jobs_give_on_spark_what_they_give_without_a_stop(
    spark: SparkHandle, data: st.DataObject, plan: Plan
) -> None:
    check_stops_of(plan, data, spark)


@pytest.mark.spark
@pytest.mark.skipif(not EXAMPLES, reason="long: for the campaign")
@settings(max_examples=EXAMPLES or 1, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), drawn=aligned_jobs)
def test_groups_of_aligned_sources_go_on_at_other_sizes_on_spark(
    spark: SparkHandle, data: st.DataObject, drawn: list[Any]
) -> None:
    check_sizes_of_groups(data, drawn, spark)
