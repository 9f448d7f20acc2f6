"""A query over endless events, at full speed, until it is killed: ``python -m endless PLACE QUERY PORT MEMORY``."""

import sys

from queries import QUERIES
from queries.__main__ import CHECKPOINTS_MS, as_line
from stretches import event_line

from penstock.common import Configuration, Encoder, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.connectors.file_system import FileSink


def main(place: str, query: str, port: str, memory: str) -> None:
    settings = {
        "execution.checkpointing.dir": f"file://{place}/checkpoints",
        "execution.checkpointing.interval": f"{CHECKPOINTS_MS} ms",
        "restart-strategy.type": "none",
        "penstock.state.memory": memory,
        "rest.port": port,
        "penstock.rest.token": "none",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(2)
    lines = env.from_source(DataGeneratorSource(event_line), WatermarkStrategy.no_watermarks(), "events")
    sink = FileSink.for_row_format(f"{place}/out", Encoder.simple_string_encoder()).build()
    QUERIES[query](lines, lines).map(as_line, output_type=Types.STRING()).sink_to(sink)
    env.execute(query)


if __name__ == "__main__":
    main(*sys.argv[1:])
