"""Spark's Python workers when a job ends, and when they end themselves: the functions that they keep open get closed.

Called by the epoch runner, on the driver and in tasks. Why it takes this: decision 4.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock._engine.spark.session import SparkHandle

#: Functions that take longer to close than this are left to the end of their worker.
_PATIENCE_S: Final = 10
#: Each task of `release` stays until it sees that Spark has started the others, in other workers, or for so long.
_TOGETHER_S: Final = 0.1
_LOOK_S: Final = 0.002

_leave: Final = os._exit
_worker: int | None = None


def release(spark: SparkHandle, run_id: str) -> None:
    """Have the idle workers close what they keep of a run: one task for each slot, all at the same time."""
    context, slots = spark.session.sparkContext, spark.slots
    group = f"penstock-release-{run_id}"
    context.setJobGroup(group, "closing functions", interruptOnCancel=False)
    timer = threading.Timer(_PATIENCE_S, context.cancelJobGroup, (group,))
    timer.start()
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-release-") as meeting:
            frame = spark.session.range(slots, numPartitions=slots)
            frame.mapInArrow(partial(_release, run_id, slots, Path(meeting)), "id long").collect()
    finally:
        timer.cancel()


def _release(run_id: str, slots: int, meeting: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    from penstock._engine.runtime.worker_cache import CACHE

    context = TaskContext.get()
    assert context is not None
    started = time.monotonic()
    CACHE.release(run_id)
    with contextlib.suppress(OSError):  # the driver is on another host
        (meeting / str(context.partitionId())).touch()
    while time.monotonic() - started < _TOGETHER_S and not _all_here(meeting, slots):
        time.sleep(_LOOK_S)
    for _ in batches:  # else Spark does not keep the worker
        pass
    yield from ()


def _all_here(meeting: Path, slots: int) -> bool:
    """Tell whether all tasks of a release have begun, as far as they can be seen from this host."""
    try:
        return len(list(meeting.iterdir())) >= slots
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
