"""Any order of jobs over a cached stream, with failures, invalidations and lost files, gives the records of the stream.

Tasks run twice, and readers see either attempt: files of attempts that do not count must never be read.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.without_spark import Cluster

from penstock._engine.caches import place as kept_places
from penstock._engine.caches import streams
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.errors import JobExecutionError
from penstock.testing.in_process import Chaos
from penstock.testing.sources import ListSource

STEPS = st.sampled_from(
    ["read", "read twice", "stream", "fail", "invalidate", "lose a file", "damage a file", "lose all"]
)


def fail(record: Any) -> Any:
    raise ValueError(record)


def step(name: str, env: StreamExecutionEnvironment, cached: Any, records: list[int], place: Path) -> None:
    mode = "STREAMING" if name == "stream" else "BATCH"
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    match name:
        case "read" | "stream":
            with cached.execute_and_collect() as found:
                assert sorted(found) == records
        case "read twice":
            with cached.union(cached.map(lambda number: number + 1)).execute_and_collect() as found:
                assert sorted(found) == sorted(records + [number + 1 for number in records])
        case "fail":
            with contextlib.suppress(JobExecutionError), cached.map(fail).execute_and_collect() as found:
                assert list(found) == []
        case "invalidate":
            cached.invalidate()
        case "damage a file":
            for path in [path for path in sorted(place.glob(".caches/*/*/*")) if path.is_file()][:1]:
                data = path.read_bytes()
                path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case _:
            files = sorted(path for path in place.glob(".caches/*/*/*") if path.is_file())
            for path in files if name == "lose all" else files[:1]:
                path.unlink()


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    lists=st.lists(st.lists(st.integers(-99, 99), max_size=20), min_size=1, max_size=3),
    steps=st.lists(st.tuples(STEPS, st.integers(1, 3)), min_size=2, max_size=5),
    file_bytes=st.sampled_from([1, 1 << 20]),
    seed=st.integers(0, 99),
)
def test_jobs_over_a_cached_stream_get_its_records(
    lists: list[list[int]], steps: list[tuple[str, int]], file_bytes: int, seed: int
) -> None:
    place = Path(tempfile.mkdtemp())
    patch = pytest.MonkeyPatch()
    try:
        patch.setattr(streams, "_FILE_BYTES", file_bytes)
        Cluster(place / "cluster", chaos=Chaos(retries=0.3, mixtures=0.1), seed=seed).patch(patch)
        configuration = Configuration.from_dict({"execution.checkpointing.dir": str(place)})
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
        source = ListSource(*lists, records_per_poll=4)
        cached = env.from_source(source, WatermarkStrategy.no_watermarks(), "lists").map(lambda n: n).cache()
        records = sorted(number for numbers in lists for number in numbers)
        for name, parallelism in [("read", 2), *steps, ("read", 2)]:
            env.set_parallelism(parallelism)
            step(name, env, cached, records, place)
    finally:
        kept_places.remove_places()
        patch.undo()
        shutil.rmtree(place)
