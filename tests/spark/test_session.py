from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark import programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock._engine.spark.session import SparkHandle

pytestmark = pytest.mark.spark

BESIDE_A_SESSION = """
import json, logging
from pyspark.sql import SparkSession
from penstock._engine.spark.session import get_session

lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
logging.getLogger("penstock").addHandler(handler)
logging.getLogger("penstock").setLevel(logging.INFO)

conf = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.adaptive.enabled": "true"}
conf["spark.default.parallelism"] = "200"  # which says nothing of the tasks that run at the same time
theirs = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
before = dict(theirs.conf.getAll)
handle = get_session(8)
ours = handle.session.conf.get("spark.sql.adaptive.enabled")
handle.stop()
theirs.conf.set("spark.sql.adaptive.enabled", "false")
next_job = get_session(8)
print(json.dumps({
    "owned": handle.owned, "slots": handle.slots, "ours": ours, "lines": lines,
    "next": next_job.session.conf.get("spark.sql.adaptive.enabled"),
    "unchanged": dict(theirs.conf.getAll) == {**before, "spark.sql.adaptive.enabled": "false"},
    "active": SparkSession.active() is theirs, "count": theirs.range(5).count(),
}))
theirs.stop()
"""


def test_program_session_is_used_and_left_as_it_was(tmp_path: Path) -> None:
    printed, _ = programs.output(BESIDE_A_SESSION, programs.java_environment(tmp_path))
    seen = json.loads(printed)
    lines = "\n".join(seen.pop("lines"))
    assert seen.pop("next") == "false", "a setting of the program's session is not one of ours"
    assert seen == {"owned": False, "slots": 1, "ours": "false", "unchanged": True, "active": True, "count": 5}
    assert "spark.sql.adaptive.enabled=false (not true)" in lines
    assert lines.count("does not try tasks again (master local[1])") == 1, "the next job says it, too"
    assert lines.count("runs in the program's process group") == 1


def test_session_gives_rows_in_batches_cut_by_bytes(spark: SparkHandle) -> None:
    def blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            for _ in range(12):
                yield pa.record_batch(
                    [pa.array([0], pa.int32()), pa.array([b"x" * (4 << 20)])], names=["slot", "block"]
                )

    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            yield pa.record_batch([pa.array([batch.num_rows]), pa.array([batch.nbytes])], names=["rows", "bytes"])

    plan = spark.session.range(1, numPartitions=1).mapInArrow(blocks, "slot int, block binary")
    rows = plan.repartitionById(1, "slot").mapInArrow(sizes, "rows long, bytes long").collect()
    assert sum(row.rows for row in rows) == 12
    assert max(row.bytes for row in rows) <= 16 << 20


def test_shuffle_files_go_with_the_job_that_made_them(spark: SparkHandle) -> None:
    def blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch([pa.array([0], pa.int32()), pa.array([os.urandom(1 << 20)])], names=["slot", "block"])

    assert spark.log_file is not None
    run = spark.log_file.parents[1] / spark.log_file.stem
    plan = spark.session.range(2, numPartitions=2).mapInArrow(blocks, "slot int, block binary")
    for _ in range(3):
        assert plan.repartitionById(2, "slot").count() == 2

    def kept() -> int:
        found = 0
        for path in run.rglob("shuffle_*"):
            with contextlib.suppress(FileNotFoundError):  # it goes meanwhile
                found += path.stat().st_size
        return found

    deadline = time.monotonic() + 60
    while kept() >= 3 << 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert kept() < 3 << 20


def test_second_call_gives_the_same_session(spark: SparkHandle) -> None:
    from penstock._engine.spark.session import get_session

    assert get_session() is spark


def test_workers_are_reached_by_sockets_in_a_directory_of_this_user(spark: SparkHandle) -> None:
    def transports(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import pyarrow as pa

        for _ in batches:
            names = ("PYTHON_UNIX_DOMAIN_ENABLED", "PYTHON_WORKER_FACTORY_SOCK_DIR", "PYTHON_WORKER_FACTORY_SECRET")
            yield pa.record_batch([pa.array([str([os.environ.get(name) for name in names])])], names=["text"])

    sockets = spark.session.sparkContext.getConf().get("spark.python.unix.domain.socket.dir")
    assert sockets is not None
    assert Path(sockets).stat().st_mode & 0o777 == 0o700
    frame = spark.session.range(1, numPartitions=1).mapInArrow(transports, "text string")
    assert [row.text for row in frame.collect()] == [str(["True", sockets, None])]


ONE_AFTER_THE_OTHER = """
from pyspark.sql import SparkSession
from penstock._engine.spark.session import PIPELINED_CONF, get_session

assert get_session(1).slots == get_session(3, pipelined=True).slots == 1
SparkSession.active().stop()
next_job = get_session(3, pipelined=True)
conf = dict(next_job.session.sparkContext.getConf().getAll())
print(next_job.slots, next_job.session.range(5).count(), PIPELINED_CONF.items() <= conf.items())
"""


def test_session_of_ours_that_the_program_ends_is_followed_by_one_as_the_next_job_needs_it(tmp_path: Path) -> None:
    printed, errors = programs.output(ONE_AFTER_THE_OTHER, programs.java_environment(tmp_path))
    assert (printed, errors) == ("3 5 True\n", "")


WITHOUT_SOCKETS = """
import socket
del socket.AF_UNIX
from penstock._engine.spark.session import get_session

context = get_session(1).session.sparkContext
print(context.getConf().get("spark.python.unix.domain.socket.enabled"), context.range(3).map(lambda n: n).sum())
"""


def test_platform_without_unix_domain_sockets_has_ports(tmp_path: Path) -> None:
    printed, errors = programs.output(WITHOUT_SOCKETS, programs.java_environment(tmp_path))
    assert (printed, errors) == ("false 3\n", "")
