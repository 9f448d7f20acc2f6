"""Queries over files of events, one after the other: ``python -m queries PLACE thread q5=EVENTS q7=EVENTS``.

Rows are written as lines of text below PLACE, each query into a folder of its own; a line tells when it has ended.
"""

import sys
import traceback

from pyflink.common import Configuration, Row, Types
from pyflink.common.serialization import Encoder
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink

from queries import QUERIES
from queries.streams import lines

CHECKPOINTS_MS = 2_000
SETTINGS = {
    "python.executable": sys.executable,
    "python.client.executable": sys.executable,
    "python.fn-execution.bundle.size": "10000",
    "python.fn-execution.bundle.time": "500",
    "python.state.cache-size": "100000",
    "python.map-state.read-cache-size": "100000",
    "python.map-state.write-cache-size": "100000",
    "pipeline.object-reuse": "true",
    "restart-strategy.type": "none",
}


def as_line(row: Row) -> str:
    return ",".join(map(str, row))


def build(env: StreamExecutionEnvironment, query: str, folder: str, out: str) -> None:
    """Put a query together, from files of events to files of results."""
    needs_side = query == "q13"
    events = lines(env, f"{folder}/events", "events")
    side = lines(env, f"{folder}/side", "side") if needs_side else events
    sink = FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()
    QUERIES[query](events, side).map(as_line, output_type=Types.STRING()).sink_to(sink)


def run(query: str, folder: str, place: str, mode: str) -> None:
    configuration = Configuration()
    settings = {**SETTINGS, "python.execution-mode": mode, "execution.checkpointing.dir": f"file://{place}/checkpoints"}
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(CHECKPOINTS_MS)
    build(env, query, folder, f"{place}/out")
    env.execute(query)


def main(place: str, mode: str, *tasks: str) -> None:
    for number, task in enumerate(tasks):
        query, _, folder = task.partition("=")
        try:
            run(query, folder, f"{place}/{number}", mode)
            print("DONE", number, flush=True)
        except Exception:  # noqa: BLE001 - the other queries go on
            traceback.print_exc()
            print("FAILED", number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
