"""What a running job takes of its machine: memory, threads, descriptors, files, Spark jobs. Linux only."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from tests.endurance.program_notes import memory_kib
from tests.fault.processes import descendants


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a job, at the time of a checkpoint."""

    checkpoint: int
    driver_mib: int
    driver_threads: int
    driver_descriptors: int
    #: After a collection of its garbage.
    jvm_heap_mib: int
    jvm_mib: int
    jvm_threads: int
    jvm_descriptors: int
    workers: int
    #: Of all Python workers together, and of the largest.
    workers_mib: int
    worker_mib: int
    worker_descriptors: int
    checkpoint_files: int
    checkpoint_kib: int
    spark_files: int
    spark_jobs: int


def sample(checkpoint: int, checkpoints: Path) -> Sample:
    """Look at the job of this process, and at its checkpoint directory."""
    context: Any = SparkContext._active_spark_context
    jvm = context._jvm
    jvm.java.lang.System.gc()
    heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    java = int(jvm.java.lang.ProcessHandle.current().pid())
    workers = [pid for pid in descendants(java) if b"pyspark.daemon" in _read(pid, "cmdline")]
    sizes = [private_mib(pid) for pid in workers]
    files = [path.stat().st_size for path in checkpoints.rglob("*") if path.is_file()]
    local = Path(context._conf.get("spark.sql.warehouse.dir")).parent
    return Sample(
        checkpoint=checkpoint,
        driver_mib=private_mib(os.getpid()),
        driver_threads=threading.active_count(),
        driver_descriptors=descriptors(os.getpid()),
        jvm_heap_mib=heap >> 20,
        jvm_mib=private_mib(java),
        jvm_threads=len(list(Path(f"/proc/{java}/task").iterdir())),
        jvm_descriptors=descriptors(java),
        workers=len(workers),
        workers_mib=sum(sizes),
        worker_mib=max(sizes, default=0),
        worker_descriptors=max(map(descriptors, workers), default=0),
        checkpoint_files=len(files),
        checkpoint_kib=sum(files) >> 10,
        spark_files=sum(path.is_file() for path in local.rglob("*")),
        spark_jobs=len(context.statusTracker().getActiveJobsIds()),
    )


def private_mib(pid: int) -> int:
    """Return the memory that would be free if a process ended; 0 for one that has."""
    try:
        return memory_kib(pid)["private_kib"] >> 10
    except OSError:  # it has just ended
        return 0


def descriptors(pid: int) -> int:
    """Return how many descriptors a process has open."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return 0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has just ended
        return b""
