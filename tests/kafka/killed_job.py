"""A job from Kafka to Kafka that kills itself at a step of its sink; Spark's part is played in its own process.

Usage: python -m tests.kafka.killed_job DIRECTORY BOOTSTRAP NUMBERS COUNTS [--kill POINT] [--records N]

Steps are those of the coordinator, and the sink's: ``stage``, ``take_over`` (the transactional id), ``publish`` with
``produce`` (its records are in the broker's log behind it), ``adding_the_checkpoint`` and ``committing`` in it. All
points that were passed stand in DIRECTORY/points.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.fault.job import PER_EPOCH
from tests.fault.points import Points
from tests.kafka.job import Route, counting

from penstock._connectors.kafka import committer as committing
from penstock._connectors.kafka import writer as writing
from penstock.errors import PenstockError


def main() -> int:
    """Run the job once; 0 when it finished, 3 when it ended with an error."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("route", nargs=3)
    parser.add_argument("--kill")
    parser.add_argument("--records", type=int, default=PER_EPOCH, help="what a reader reads in one epoch")
    options = parser.parse_args()

    job = counting(Route(*options.route), options.directory, records=options.records)
    points = Points({options.kill: partial(os.kill, os.getpid(), signal.SIGKILL)}, options.directory / "points")
    points.watch(job.loop)
    watch_sink(points)
    try:
        job.to_end()
    except PenstockError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 3
    return 0


def watch_sink(points: Points) -> None:
    """Make what the sink does steps."""
    publisher, producer, writer = committing._Publisher, committing.RecordProducer, writing.StagingKafkaWriter
    send = producer.send

    def produce(self: Any, records: Any) -> None:
        send(self, records)
        self.flush()

    producer.send = points.around(produce, lambda *_: "produce")  # type: ignore[method-assign]
    writer._stage = points.around(writer._stage, lambda *_: "stage")  # type: ignore[method-assign]
    publisher.begin = points.around(  # type: ignore[method-assign]
        publisher.begin, lambda self: "take_over" if self._producer is None else None
    )
    publisher.publish = points.around(publisher.publish, lambda *_: "publish")  # type: ignore[method-assign]
    publisher._call = points.around(  # type: ignore[method-assign]
        publisher._call, lambda self, what, call: "_".join(what.lower().split()[:3])
    )


if __name__ == "__main__":
    sys.exit(main())
