"""The throughput of jobs with the pipelined exchange beside the blocking one, with a checkpoint every 2 s.

    python benchmarks/exchanges.py
    python benchmarks/exchanges.py 5 keyed_reduce windows     five pairs of each

The jobs are those of `programs/penstock_programs.py`. A figure is the difference of two sizes, so it has no start-up in
it; both exchanges run in turn, each result is compared with the truth, and the ratio is the median of those of each
pair: above one the pipelined exchange is faster.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from environments import HERE, Environment
from measure import run
from workloads import WORKLOADS

PAIRS, TIMEOUT_S = 3, 900.0
#: Records of the two runs, by job.
SIZES: Final = {
    "map_filter": (20_000_000, 140_000_000),
    "keyed_reduce": (2_000_000, 14_000_000),
    "keyed_state": (2_000_000, 10_000_000),
    "windows": (2_000_000, 12_000_000),
}
EXCHANGES: Final = {
    "blocking": {},
    "pipelined": {"penstock.exchange": "pipelined", "penstock.exchange.trusted-network": "true"},
}


def environment(place: Path, exchange: str) -> Environment:
    """Return the environment of the programs, in which a file names the exchange."""
    settings = {"execution.checkpointing.interval": "2 s", "penstock.local.slots": "2", **EXCHANGES[exchange]}
    (place / exchange).mkdir(exist_ok=True)
    lines = [f"{key}: {value}\n" for key, value in settings.items()]
    (place / exchange / "config.yaml").write_text("".join(lines))
    variables = {"PYTHONPATH": str(HERE.parent / "src"), "PENSTOCK_CONF_DIR": str(place / exchange)}
    return Environment(Path(sys.executable), variables, "")


def seconds_of_a_record(place: Path, job: str, exchange: str) -> float:
    """Return the wall time of a record."""
    [workload] = [each for each in WORKLOADS if each.name == job]
    took: list[float] = []
    for records in SIZES[job]:
        measured = run("penstock", environment(place, exchange), job, records, (), timeout_s=TIMEOUT_S)
        assert measured.result == workload.truth(records), (job, exchange, measured.result)
        took.append(measured.seconds)
    return (took[1] - took[0]) / (SIZES[job][1] - SIZES[job][0])


def main() -> None:
    pairs, jobs = (int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS), sys.argv[2:] or list(SIZES)
    with tempfile.TemporaryDirectory() as place:
        for job in jobs:
            figures = [
                tuple(seconds_of_a_record(Path(place), job, exchange) for exchange in EXCHANGES) for _ in range(pairs)
            ]
            blocking, pipelined = (median(column) for column in zip(*figures, strict=True))
            ratio = median(one / two for one, two in figures)
            rates = f"{1 / blocking:12,.0f} records/s blocking, {1 / pipelined:12,.0f} pipelined"
            print(f"{job:14} {rates}, ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
