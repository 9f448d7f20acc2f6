"""The two exchanges of an epoch, and which tests run with which one.

A job of a test has the blocking exchange, as that of a user has. With ``PENSTOCK_TEST_EXCHANGE=pipelined`` all jobs of
a run have the pipelined one, also those of processes that tests start: the settings stand in the environment. What that
exchange is not for is left out then, see ``LEFT_OUT``. The campaign runs ``tests/spark``, ``tests/fault`` and its
kills, orders and lives so, too; of the first two, a test that is marked ``both_exchanges`` has both in any run.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Final

from penstock.common import Configuration
from penstock.common.libraries import major_and_minor
from penstock.common.option_table import CHECKPOINTING_INTERVAL
from penstock.common.task_options import EXCHANGE, PIPELINED_SINCE, TRUSTED_NETWORK

BLOCKING, PIPELINED = "blocking", "pipelined"
#: Names the exchange of a whole run.
VARIABLE: Final = "PENSTOCK_TEST_EXCHANGE"
#: What gives a job the pipelined exchange.
SETTINGS: Final = {EXCHANGE.key: PIPELINED, TRUSTED_NETWORK.key: "true"}
#: What gives it to the jobs of a process, and of those that it starts.
VARIABLES: Final = {"PENSTOCK_EXCHANGE": PIPELINED, "PENSTOCK_EXCHANGE__TRUSTED_NETWORK": "true"}
#: Tasks at the same time on a session that tests share: two in each level of a job of four.
SLOTS: Final = {BLOCKING: 2, PIPELINED: 8}

_BATCH = "batch jobs, which it refuses"
_NO_INTERVAL = "its jobs have no checkpoint interval, and it refuses them"
_LEVELS = "has more levels than slots"
#: The tests that are left out of a pipelined run, by the beginning of their names, with the reason.
LEFT_OUT: Final = {
    "tests/fault/test_batch_kill.py": _BATCH,
    "tests/fault/test_batch_tasks.py": _BATCH,
    "tests/fault/test_staged_faults.py": _BATCH,
    "tests/fault/test_staged_kills.py": _BATCH,
    "tests/fault/test_staged_kills_on_spark.py": _BATCH,
    "tests/fault/test_spark_faults.py::test_driver_process_that_is_killed_alone": (
        "its trap is behind what a blocking epoch reads, so that something is committed when it springs"
    ),
    "tests/fault/test_spark_faults.py::test_killed_executor": _LEVELS,
    "tests/spark/test_dataframes.py": f"{_BATCH}, and streams without a checkpoint interval",
    "tests/spark/test_dependencies.py": _NO_INTERVAL,
    "tests/spark/test_large.py": _NO_INTERVAL,
    "tests/spark/test_matrix.py::test_wide_and_deep_jobs": _LEVELS,
    "tests/spark/test_partitions.py": _BATCH,
    "tests/spark/test_post_commit.py::test_they_get_what_is_committed_once_and_a_sink_behind_them_commits_it[BATCH]": (
        _BATCH
    ),
    "tests/spark/test_random_stops.py": _NO_INTERVAL,
    "tests/spark/test_shipping.py": _NO_INTERVAL,
    "tests/spark/test_sorted_inputs.py": _BATCH,
    "tests/spark/test_values.py": _NO_INTERVAL,
}


def why_left_out(name: str) -> str | None:
    """Return why a test is left out of this run; None if it is not."""
    if f"[{PIPELINED}" in name or name.startswith("tests/spark/test_pipelined.py"):
        spark = version("pyspark")
        is_there = major_and_minor(spark) >= major_and_minor(PIPELINED_SINCE)
        return None if is_there else f"this is Spark {spark}, and the pipelined exchange came with {PIPELINED_SINCE}"
    if of_the_run() == BLOCKING:
        return None
    reasons = (reason for beginning, reason in LEFT_OUT.items() if name.startswith(beginning))
    return next((f"not with the pipelined exchange: {reason}" for reason in reasons), None)


def of_the_run() -> str:
    """Return the exchange of all jobs of this run that say nothing themselves."""
    return os.environ.get(VARIABLE, BLOCKING)


def is_pipelined() -> bool:
    """Return whether jobs that are made now have the pipelined exchange."""
    return os.environ.get("PENSTOCK_EXCHANGE") == PIPELINED


def with_exchange(configuration: Configuration) -> Configuration:
    """Return the settings of a job that does not read the environment; one without an interval stays as it is."""
    if not is_pipelined() or not configuration.get(CHECKPOINTING_INTERVAL):
        return configuration
    return Configuration.from_dict(SETTINGS).add_all(configuration)
