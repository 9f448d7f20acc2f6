"""The jobs of `programs/penstock_programs.py` in this process without Spark: processor time of a record.

    python benchmarks/micro/programs.py session_windows 200000 400000          one slope
    python benchmarks/micro/programs.py interval_join 200000 400000 2 3000     the same in two workers, epochs of 3 s
    PYTHONPATH=OTHER_TREE/src python benchmarks/micro/programs.py …            with another version, for a ratio

The real driver runs source, exchange, windows, state, checkpoints and sink at parallelism 2, one subtask after the
other. The figure is the difference of the two sizes, so it has no start-up in it. Of several workers, which keep
what a Python worker of Spark keeps, each task gets one at random, as on Spark.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "programs")]

from penstock_programs import JOBS, Tally  # noqa: E402 - behind the path

from penstock._engine.driver.assembly import RuntimeEnvironment, assemble  # noqa: E402
from penstock._engine.graph.chaining import build_job_graph  # noqa: E402
from penstock.common import Configuration, WatermarkStrategy  # noqa: E402
from penstock.datastream import StreamExecutionEnvironment  # noqa: E402
from penstock.datastream.connectors.number_seq import NumberSequenceSource  # noqa: E402
from penstock.testing.in_process import InProcessEpochRunner  # noqa: E402


def run(workload: str, records: int, workers: int = 1, interval_ms: int = 0) -> tuple[float, tuple[int, ...]]:
    """Return the seconds of processor time of a job, and its result."""
    with tempfile.TemporaryDirectory() as place:
        env: Any = StreamExecutionEnvironment.get_execution_environment(Configuration()).set_parallelism(2)
        if interval_ms:
            env.enable_checkpointing(interval_ms)
        numbers = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers")
        out = Path(place, "out")
        out.mkdir()
        JOBS[workload](numbers, records).sink_to(Tally(str(out)))
        runner = InProcessEpochRunner(seed=1, workers=workers)
        graph, environment = build_job_graph(env._stream_graph(workload)), RuntimeEnvironment(runner, 2, Path(place))
        driver, loop = assemble(graph, Configuration(env._configuration), None, environment)
        gc.collect()
        start = time.process_time()
        driver.run(loop)
        driver.result.result(0)
        runner.close()
        took = time.process_time() - start
        parts = [tuple(map(int, part.read_text().split())) for part in out.iterdir()]
    return took, tuple(sum(column) for column in zip(*parts, strict=True))


def main() -> None:
    workload, small, large, *layout = sys.argv[1], *map(int, sys.argv[2:])
    one, _ = run(workload, small, *layout)
    other, result = run(workload, large, *layout)
    print(
        f"{workload:16} {(other - one) / (large - small) * 1e6:6.2f} µs a record, {other:.1f} s, {result}", flush=True
    )


if __name__ == "__main__":
    main()
