"""A life of a job on a cluster of which first the driver's host and then a worker's host is cut off for a while.

Usage: python -m tests.cluster.cut_off SECONDS, in a network of its own (`network.alone`). All but the cut host stay in
touch: master, driver, S3 and the workers have an address and a namespace each. Prints what the driver saw, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from tests.cluster.life import Life
from tests.cluster.network import Network
from tests.cluster.standalone import Standalone
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from tests.cluster.network import Spot

TOTAL = 12_000
#: Both sides find out within the cut: the driver gives executors up, and the master the worker.
IMPATIENT = {
    "spark.network.timeout": "20s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.worker.timeout": "20",
}


def main(seconds: float) -> None:
    """Run the life."""
    network = Network()
    storage: Spot = network.spot("storage")
    with (
        S3Server(storage.address, storage.around) as server,
        Standalone(settings=IMPATIENT, network=network) as cluster,
        Life(cluster, server, "cut-off", TOTAL) as life,
    ):
        (life.notes / "hold").touch()
        life.goes_on()
        for name in ("driver", "host-1"):
            network.cut(name)
            time.sleep(seconds)
            network.join(name)
            life.goes_on()
        (life.notes / "hold").unlink()
        life.run_without_pauses()
        result = {**life.end(), "log": life.log}
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main(float(sys.argv[1]))
