"""Spark's Python workers when a job ends, and when they end themselves: the functions that they keep open get closed.

Called by the epoch runner, on the driver and in tasks. Why it takes this: decision 4.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock._engine.spark.session import SparkHandle

#: Functions that take longer to close than this are left to the end of their worker.
_PATIENCE_S: Final = 10
#: Each task of `release` stays until it sees that Spark has started the others, in other workers, or for so long.
_TOGETHER_S: Final = 0.1
_LOOK_S: Final = 0.002
#: The property of a Spark job that its tasks read the run to close from.
_RELEASE: Final = "penstock.release"

_leave: Final = os._exit
_worker: int | None = None


def closing_plan(spark: SparkHandle) -> DataFrame:
    """Return the plan of `release`, the same for all runs; building it takes as long as running it."""
    return spark.session.range(spark.slots, numPartitions=spark.slots).mapInArrow(_release, "id long")


def release(spark: SparkHandle, plan: DataFrame, run_id: str) -> None:
    """Have the idle workers close what they keep of a run: one task for each slot, all at the same time."""
    context = spark.session.sparkContext
    group = f"penstock-release-{run_id}"
    context.setJobGroup(group, "closing functions", interruptOnCancel=False)
    timer = threading.Timer(_PATIENCE_S, context.cancelJobGroup, (group,))
    timer.start()
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-release-") as meeting:
            context.setLocalProperty(_RELEASE, json.dumps([run_id, spark.slots, meeting]))
            plan.collect()
    finally:
        timer.cancel()


def _release(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    from penstock._engine.runtime.worker_cache import CACHE

    context = TaskContext.get()
    assert context is not None
    run_id, slots, meeting = json.loads(context.getLocalProperty(_RELEASE) or "")
    started = time.monotonic()
    CACHE.release(run_id)
    place = Path(meeting)
    with contextlib.suppress(OSError):  # the driver is on another host
        (place / str(context.partitionId())).touch()
    while time.monotonic() - started < _TOGETHER_S and not _all_here(place, slots):
        time.sleep(_LOOK_S)
    for _ in batches:  # else Spark does not keep the worker
        pass
    yield from ()


def _all_here(place: Path, slots: int) -> bool:
    """Tell whether all tasks of a release have begun, as far as they can be seen from this host."""
    try:
        return len(list(place.iterdir())) >= slots
    except OSError:
        return False


def close_at_exit() -> None:
    """Have this worker close its functions when Spark lets it go.

    It leaves by ``os._exit`` then, which calls no exit handlers, so this stands in for that name.
    """
    global _worker  # noqa: PLW0603 - a worker is a process
    if _worker != os.getpid():
        _worker = os.getpid()
        os._exit = _close_and_leave


def _close_and_leave(status: int) -> NoReturn:
    from penstock._engine.runtime.worker_cache import CACHE

    if os.getpid() == _worker:  # not a process that a function of the user's has forked
        CACHE.close()
    _leave(status)
