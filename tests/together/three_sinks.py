"""A job with three exactly-once sinks, to be killed: numbers of Kafka are counted, and all sinks get each count.

Usage: python -m tests.together.three_sinks DIRECTORY BOOTSTRAP NUMBERS COUNTS URL [--spark]

Its files are in DIRECTORY/out, its rows in the table ``counts``. Without ``--spark`` it runs in its own process.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fault.counting_job import KEYS, Count
from tests.kafka.job import Route
from tests.kit.without_spark import Cluster

from penstock._engine import launch
from penstock.common import Configuration, Encoder, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer
from penstock.datastream.connectors.postgres import PostgresSink

if TYPE_CHECKING:
    from penstock.datastream import DataStream


def environment(directory: Path, interval: str) -> StreamExecutionEnvironment:
    settings = {
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": interval,
        "execution.state-recovery.path": "latest",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000",
        "restart-strategy.fixed-delay.delay": "200 ms",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(2)


def written(counts: DataStream, directory: Path, route: Route, url: str) -> None:
    """Have the same records written into all three."""
    files = FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder())
    policy = RollingPolicy.on_checkpoint_rolling_policy()
    table = PostgresSink.builder().set_url(url).set_table("counts").set_columns("line").build()
    counts.sink_to(route.sink()).uid("into Kafka")
    counts.map(lambda line: (line,)).sink_to(table).uid("into PostgreSQL")
    counts.sink_to(files.with_rolling_policy(policy).build()).uid("into files")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("route", nargs=3)
    parser.add_argument("url")
    parser.add_argument("--spark", action="store_true")
    options = parser.parse_args()

    logging.basicConfig(level=logging.INFO)
    if not options.spark:
        launch.submit = Cluster(options.directory).submit
    env = environment(options.directory, "300 ms" if options.spark else "100 ms")
    route = Route(*options.route)
    source = route.source().set_starting_offsets(KafkaOffsetsInitializer.earliest()).build()
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counts = numbers.map(int, Types.LONG()).key_by(lambda number: number % KEYS).process(Count(), Types.STRING())
    written(counts.uid("counts"), options.directory, route, options.url)
    env.execute("three sinks")


if __name__ == "__main__":
    main()
