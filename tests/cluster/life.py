"""A job on a cluster, with a driver of its own that may be killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.cluster.counts import counts_of, expected_counts, lines_in
from tests.fault.processes import descendants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.cluster.hosts import Cluster
    from tests.services.s3 import S3Server

COUNTING = Path(__file__).with_name("counting.py")
PATIENCE_S = 300
_ENTRY = re.compile(r"/chk-(\d+)/_metadata$")


class Life:
    """A job that counts, and the driver that runs it now.

    Args:
        cluster: Where it runs.
        server: Has its checkpoints and its output.
        name: Of its bucket and its directory.
        total: The numbers that it counts.
        settings: Of its Spark sessions.
        supervised: Whether `penstock run --supervise` starts its drivers, one after the other.
    """

    def __init__(
        self,
        cluster: Cluster,
        server: S3Server,
        name: str,
        total: int,
        settings: Mapping[str, str] | None = None,
        *,
        supervised: bool = False,
    ) -> None:
        self.cluster, self._server, self._name, self._total = cluster, server, name, total
        self._bucket = server.make_bucket(name)
        self.notes = cluster.shared / name
        self.notes.mkdir()
        self._run = [sys.executable, *(("-m", "penstock", "run", "--supervise") if supervised else ())]
        self._configuration = cluster.shared / f"{name}-conf"
        self._configuration.mkdir()
        self._settings = dict(settings or {})
        self.start()

    def start(self, *, parallelism: int | None = None, executors: int | None = None) -> None:
        """Start the driver; it goes on from the newest checkpoint.

        Args:
            parallelism: Of the job, by default as the program has it.
            executors: How many it asks for, by default as the cluster's configuration says.
        """
        more = {} if executors is None else {"spark.executor.instances": str(executors)}
        defaults = (Path(self.cluster.environment()["SPARK_CONF_DIR"]) / "spark-defaults.conf").read_text()
        defaults += "".join(f"{key} {value}\n" for key, value in (self._settings | more).items())
        (self._configuration / "spark-defaults.conf").write_text(defaults)
        variables = {
            **self.cluster.environment(),
            **self._server.penstock_variables,
            "SPARK_CONF_DIR": str(self._configuration),
            "SPARK_MASTER": self.cluster.url,
            "PENSTOCK_REST__ENABLED": "false",
            "PENSTOCK_EXECUTION__STATE_RECOVERY__PATH": "latest",
        }
        around = self.cluster.driver_spot.around
        arguments = [f"{self._bucket}/checkpoints", f"{self._bucket}/out", self.notes, str(self._total)]
        arguments += [] if parallelism is None else [str(parallelism)]
        with (self.cluster.shared / f"{self._name}.log").open("ab") as log:
            self.driver = subprocess.Popen(
                # It ends with the tests.
                [*around, "setpriv", "--pdeathsig", "KILL", *self._run, COUNTING, *arguments],
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        """What the drivers have said."""
        return (self.cluster.shared / f"{self._name}.log").read_text()

    def signal_driver(self, number: int) -> None:
        """Send a signal to the driver and to all that it has started."""
        for pid in [*descendants(self.driver.pid), self.driver.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait_for(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait until something has happened, while the job runs."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert self.driver.poll() is None, f"the job ended before {what}: {self.log[-4000:]}"
            assert time.monotonic() < deadline, f"the job never came to {what}: {self.log[-4000:]}"
            time.sleep(0.05)

    def passes(self, number: int) -> None:
        """Wait until the job has read a number, a multiple of 1,000."""
        self.wait_for(str(number), (self.notes / f"passed-{number}").exists)

    def lose_a_worker(self) -> None:
        """Let a Python worker die in the middle of a task."""
        (self.notes / "die").touch()
        self.wait_for("the end of a worker", lambda: not (self.notes / "die").exists())

    def checkpoints(self) -> int:
        """Return how many checkpoints the job has completed."""
        keys = self._server.keys(self._name)
        return max((int(found[1]) for key in keys if (found := _ENTRY.search(key)) is not None), default=0)

    def goes_on(self) -> None:
        """Wait until the job has completed more checkpoints."""
        before = self.checkpoints()
        self.wait_for("more checkpoints", lambda: self.checkpoints() > before + 1)

    def run_without_pauses(self) -> None:
        """Let the job go on without pauses."""
        (self.notes / "go").touch()

    def end(self) -> dict[str, Any]:
        """Wait for the end of the job, look at what it has written, and return what the last driver saw."""
        assert self.driver.wait(PATIENCE_S) == 0, self.log[-4000:]
        written = counts_of(lines_in(self._server.bucket(self._name), "out"))
        assert written == expected_counts(self._total), self.log[-4000:]
        found: dict[str, Any] = json.loads((self.notes / "result.json").read_text())
        return found

    def close(self) -> None:
        """End the driver."""
        self.signal_driver(signal.SIGKILL)
        self.driver.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
