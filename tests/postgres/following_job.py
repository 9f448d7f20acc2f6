"""A job that follows a table, to be killed: one sink keeps a copy of it, another one writes each change down.

Usage: python -m tests.postgres.following_job DIRECTORY URL SCHEMA
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.without_spark import Cluster

from penstock._engine import launch
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.postgres import PostgresChangeSource, PostgresSink

if TYPE_CHECKING:
    from penstock.datastream.connectors.postgres import PostgresChange


def written_down(change: PostgresChange) -> dict[str, Any]:
    row = change.after or change.before
    assert row is not None
    return {"lsn": change.lsn, "op": change.op, "word": row["word"]}


def environment(directory: Path) -> StreamExecutionEnvironment:
    settings = {
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": "100 ms",
        "execution.state-recovery.path": "latest",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "50 ms",
    }
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(2)


def followed(env: StreamExecutionEnvironment, url: str, schema: str, *, bounded: bool = False) -> None:
    """Put the job together: table a is copied to b, and its changes are written to c."""
    source = PostgresChangeSource.builder().set_url(url).set_tables(f"{schema}.a").set_slot_name(f"{schema}_slot")
    source.set_split_size(20).set_fetch_size(50)
    if bounded:
        source.set_bounded()
    changes = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "a").uid("a")
    copy = PostgresSink.builder().set_url(url).set_table(f"{schema}.b").set_key_columns("id").build()
    log = PostgresSink.builder().set_url(url).set_table(f"{schema}.c").build()
    changes.sink_to(copy).uid("b")
    changes.filter(lambda change: change.op != "read").map(written_down).sink_to(log).uid("c")


def main(directory: Path, url: str, schema: str) -> None:
    logging.basicConfig(level=logging.INFO)
    launch.submit = Cluster(directory).submit
    env = environment(directory)
    followed(env, url, schema)
    env.execute("following")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
