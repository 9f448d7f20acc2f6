"""Jobs under pressure on Spark; each prints what was seen of it as one line of JSON.

Usage: pressure.py slow_map|three_sources|many_files DIRECTORY SECONDS; many_files runs to its end.
"""

import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import quantiles

from tests.endurance.watch import sample

from penstock.common import Configuration, Encoder, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat
from penstock.datastream.connectors.number_seq import NumberSequenceSource

INTERVAL_MS = 1_000
SLOW_S = 0.01
FILES = 10_000


def environment(directory: Path) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    configuration.set_string("execution.checkpointing.interval", f"{INTERVAL_MS} ms")
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)


def sink_to(stream: DataStream, folder: Path) -> None:
    policy = RollingPolicy.on_checkpoint_rolling_policy()
    encoder = Encoder.simple_string_encoder()
    stream.sink_to(FileSink.for_row_format(str(folder), encoder).with_rolling_policy(policy).build())


def files(folder: Path) -> list[tuple[float, list[str]]]:
    """Return the committed files of a sink, each with the time at which it appeared."""
    found = [path for path in folder.rglob("part-*") if path.is_file()]
    return sorted((path.stat().st_ctime, path.read_text().splitlines()) for path in found)


def watch(env: StreamExecutionEnvironment, directory: Path, seconds: float) -> dict[str, object]:
    """Run a job for a time and look at the memory of its workers every five seconds."""
    client = env.execute_async("pressure")
    job, memory, start = client.get_job_execution_result(), list[int](), time.monotonic()
    while time.monotonic() - start < seconds:
        try:
            job.result(timeout=5)
            break
        except TimeoutError:
            memory.append(sample(0, directory / "checkpoints").worker_mib)
    else:
        client.cancel().result()
        while not client.get_job_status().result().is_terminal_state():
            time.sleep(0.2)
    epochs = max((int(path.name[4:]) for path in directory.glob("checkpoints/*/chk-*")), default=0)
    return {"seconds": round(time.monotonic() - start, 1), "epochs": epochs, "worker_mib": memory}


def slow_map(directory: Path, seconds: float) -> dict[str, object]:
    """A source that gives as much as one takes, before 10 ms a record."""

    def slowly(created_ns: int) -> int:
        time.sleep(SLOW_S)
        return created_ns

    env = environment(directory)
    source = DataGeneratorSource(lambda _: time.time_ns())
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "fast").rebalance().map(slowly)
    sink_to(stream, directory / "out")
    seen = watch(env, directory, seconds)
    late = [at - int(line) / 1e9 for at, lines in files(directory / "out") for line in lines]
    cuts = quantiles(late, n=100)
    lateness = {"p50_s": round(cuts[49], 1), "p99_s": round(cuts[98], 1), "most_s": round(max(late), 1)}
    return {**seen, "records": len(late), **lateness}


def three_sources(directory: Path, seconds: float) -> dict[str, object]:
    """Three sources that always have more, each with an operator that takes its time, on two cores."""

    def busily(number: int) -> int:
        return sum(range(1_000)) + number

    env = environment(directory)
    names = ("one", "two", "three")
    for name in names:
        source = NumberSequenceSource(0, 10**9)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), name).map(busily)
        sink_to(stream, directory / name)
    seen = watch(env, directory, seconds)
    written = {name: files(directory / name) for name in names}
    times = {name: [at for at, _ in parts] for name, parts in written.items()}
    return {
        **seen,
        "records": {name: sum(len(lines) for _, lines in parts) for name, parts in written.items()},
        "longest_gap_s": {
            name: round(max(later - earlier for earlier, later in pairwise(moments)), 1)
            for name, moments in times.items()
        },
    }


def many_files(directory: Path, seconds: float) -> dict[str, object]:
    """Ten thousand files of one line."""
    (directory / "in").mkdir()
    for number in range(FILES):
        (directory / "in" / f"{number}.txt").write_text(f"{number}\n")
    env = environment(directory)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(directory / "in")).build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").key_by(lambda line: line)
    sink_to(stream.map(lambda line: line), directory / "out")
    seen = watch(env, directory, seconds)
    lines = [int(line) for _, part in files(directory / "out") for line in part]
    return {**seen, "records": len(lines), "right": sorted(lines) == list(range(FILES))}


CASES: dict[str, Callable[[Path, float], dict[str, object]]] = {
    each.__name__: each for each in (slow_map, three_sources, many_files)
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](Path(sys.argv[2]), float(sys.argv[3]))), flush=True)
