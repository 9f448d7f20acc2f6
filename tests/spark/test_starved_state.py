"""Far more keyed state than it may take in memory, on Spark: of all kinds, under keys of four types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.property.starved_job import check, program

from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.spark.session import SparkHandle

pytestmark = [pytest.mark.spark]

KEYS, ROUNDS = 20_000, 2


def test_every_count_is_exact_with_a_megabyte_for_twenty_thousand_keys(spark: SparkHandle, tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(
            {
                "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
                "execution.checkpointing.interval": "500 ms",
                "penstock.state.memory": "1 mb",
                "restart-strategy.type": "none",
            }
        )
    )
    program(env.set_parallelism(spark.slots), tmp_path / "out", KEYS, ROUNDS)
    env.execute("starved")
    check(tmp_path / "out", KEYS, ROUNDS)
