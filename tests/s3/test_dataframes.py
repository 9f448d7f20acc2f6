"""DataFrames on real Spark, with their files in S3: handed in, made, and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock._engine.caches import place as kept_places
from penstock._engine.spark.session import users_session
from penstock.common import Configuration
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

if TYPE_CHECKING:
    from tests.services.s3 import S3Server

    from penstock._engine.spark.session import SparkHandle

pytestmark = [pytest.mark.s3, pytest.mark.spark]


def test_frame_goes_through_s3_and_back_and_nothing_of_it_stays(
    spark: SparkHandle, server: S3Server, bucket: str
) -> None:
    del spark
    session = users_session()
    frame = session.range(0, 200, 1, 3).selectExpr("id", "id % 7 AS kind", "CAST(id AS STRING) AS word")
    configuration = Configuration.from_dict(
        {"execution.checkpointing.dir": f"s3://{bucket}/checkpoints", **server.settings}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    cached = env.set_runtime_mode(RuntimeExecutionMode.BATCH).from_dataframe(frame).cache()
    try:
        for _ in range(2):  # computed, then read from the cache
            result = cached.to_dataframe()
            assert sorted(result.collect()) == sorted(frame.collect())
        assert not any("/frames/" in key for key in server.objects(bucket))
        assert any("/.caches/" in key for key in server.objects(bucket))
    finally:
        kept_places.remove_places()
    assert not any("/.caches/" in key for key in server.objects(bucket))
