"""The directory for local files that a cluster gives each executor, on the executor's own host.

Workers read it from the environment that the cluster's manager gives an executor. It belongs to one application, and
the manager removes it with the application: the worker of a standalone cluster, YARN's node manager, the end of a pod.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Of standalone clusters, with the separator of paths: `<SPARK_LOCAL_DIRS>/spark-<random>/executor-<random>`.
_STANDALONE: Final = "SPARK_EXECUTOR_DIRS"
_OF_STANDALONE: Final = "spark-*/executor-*"
#: Of YARN's containers, with commas.
_YARN, _YARN_CONTAINER = "LOCAL_DIRS", "CONTAINER_ID"
#: Of pods. Spark tells Python workers the folders of blocks, each in a folder for local files.
_POD, _BLOCKS = "SPARK_EXECUTOR_POD_NAME", "SPARK_LOCAL_DIRS"


def executor_directories(variables: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the directories that an executor may use, best first; none in other processes.

    Args:
        variables: The environment.

    Example:
        >>> executor_directories({"LOCAL_DIRS": "/data/1/app,/data/2/app", "CONTAINER_ID": "c1"})
        [PosixPath('/data/1/app'), PosixPath('/data/2/app')]
    """
    if _STANDALONE in variables:
        return _paths(variables[_STANDALONE].split(os.pathsep))
    if _YARN_CONTAINER in variables:
        return _paths(variables.get(_YARN, "").split(","))
    if _POD in variables:
        return [blocks.parent for blocks in _paths(variables.get(_BLOCKS, "").split(","))]
    return []


def of_other_applications(directory: Path) -> Iterator[Path]:
    """Iterate the directories that the executors of other applications have had on a host of a standalone cluster.

    There a killed worker leaves them; other managers remove what is left themselves.
    """
    if _STANDALONE in os.environ:
        yield from (path for path in directory.parents[1].glob(_OF_STANDALONE) if path != directory)


def executors_of_host() -> Iterator[Path]:
    """Iterate the directories of a standalone cluster's executors on this host, which SPARK_LOCAL_DIRS names."""
    for directory in _paths(os.environ.get(_BLOCKS, "").split(",")):
        yield from directory.glob(_OF_STANDALONE)


def executor_process() -> str | None:
    """Return a name of the executor that this Python worker belongs to; None in other processes.

    No other process of this host and this namespace of processes has or had the same, see `is_alive`.
    """
    daemon = os.getppid()
    if b"pyspark.daemon" not in _read(f"/proc/{daemon}/cmdline"):
        return None
    status = _status(daemon)
    return process_name(int(status[1])) if status else None


def is_alive(executor: str) -> bool:
    """Tell whether the process with a name of `executor_process` lives."""
    return process_name(int(executor.partition("-")[0])) == executor


def process_name(pid: int) -> str | None:
    """Return a name of a process that no other process of this host and namespace has or had; None without it."""
    status = _status(pid)
    return f"{pid}-{status[19].decode()}" if status else None  # ids are used again, but not with the same start


def _status(pid: int) -> list[bytes]:
    """Return what the system says about a process, from its state on; nothing about one that is gone."""
    return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _paths(texts: list[str]) -> list[Path]:
    return [Path(text) for text in texts if text]
