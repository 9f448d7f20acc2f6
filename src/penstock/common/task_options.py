"""The configuration keys of tasks: what functions depend on, the Python interpreter, slots and executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.common.config_options import option, optional, options_in
from penstock.common.config_values import BOOL, DURATION, LIST, POSITIVE, STRING, ValueType, choice
from penstock.common.paths import absolute_path
from penstock.common.time import Duration

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration

#: Separates a path from the folder of an archive or from the cache of requirements, as in Flink.
BEHIND_PATH: Final = "#"


def _parse_paths(text: str) -> tuple[str, ...]:
    """Read a list of paths, or paths separated by commas as in Flink, and make them absolute."""
    items = LIST.parse(text) if text.lstrip().startswith("[") else text.split(",")
    return tuple(_absolute(item.strip()) for item in items if item.strip())


def _absolute(item: str) -> str:
    path, mark, rest = item.partition(BEHIND_PATH)
    return absolute_path(path) + mark + rest


PATHS: Final[ValueType[tuple[str, ...]]] = ValueType("list of paths", _parse_paths, LIST.format, depends_on_place=True)

PYTHON_FILES = option(
    "python.files", PATHS, (), "modules, packages, archives of them and folders that tasks can import from"
)
PYTHON_ARCHIVES = option(
    "python.archives",
    PATHS,
    (),
    "archives that are unpacked in the working directory of tasks, each as path#folder",
)
PYTHON_REQUIREMENTS = option(
    "python.requirements", PATHS, (), "requirements file whose packages tasks can import, as file or file#cache"
)
PYTHON_EXECUTABLE = optional(
    "python.executable", STRING, "Python that runs tasks in a session that Penstock starts; the driver's by default"
)
CACHED_FILES = option(
    "pipeline.cached-files",
    LIST,
    (),
    "files that are put into the working directory of tasks, each as name:NAME,path:PATH,executable:false",
)
LOCAL_SLOTS = optional(
    "penstock.local.slots", POSITIVE, "tasks at the same time in a session that Penstock starts; the cores by default"
)
SPARK_SLOTS = optional(
    "penstock.spark.slots", POSITIVE, "tasks at the same time on a cluster; by default the cores of its executors"
)
EXECUTORS = option("penstock.spark.executors", POSITIVE, 1, "executors of a cluster that a job waits for at its start")
EXECUTORS_TIMEOUT = option(
    "penstock.spark.executors-timeout",
    DURATION,
    Duration.of_minutes(1),
    "longest wait for them; a job begins with fewer, and not without any",
)

EXCHANGE = option(
    "penstock.exchange",
    choice("blocking", "pipelined"),
    "blocking",
    "blocking: the levels of an epoch run one after the other; pipelined: at the same time (experimental)",
)
#: The first version of Spark that has a pipelined shuffle.
PIPELINED_SINCE: Final = "4.3"
TRUSTED_NETWORK = option(
    "penstock.exchange.trusted-network",
    BOOL,
    False,
    "a pipelined exchange may open servers of Spark that take connections from anybody",
)


def is_pipelined(configuration: Configuration) -> bool:
    """Return whether all levels of an epoch run at the same time."""
    return configuration.get(EXCHANGE) == "pipelined"


TASK_OPTIONS: Final = options_in(vars())
