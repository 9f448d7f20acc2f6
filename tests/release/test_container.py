"""The image without a container engine: its entrypoint in namespaces, with its user and a root that cannot be written.

An image was never built here: there is no daemon that could, and no registry of base images.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.release.image import PYTHON, Container, environment_of, words_of

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

TINI = shutil.which("tini") or ""
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        "PENSTOCK_TEST_INSTALLED" not in os.environ or os.geteuid() != 0 or not TINI or not PYTHON.exists(),
        reason="an environment of its own, for the campaign: needs root, the system's Python and tini",
    ),
]

PRICES = """
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

env = StreamExecutionEnvironment.get_execution_environment()
numbers = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(10))
env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").print()
env.execute("prices")
"""
SETTINGS = {
    "PENSTOCK_EXECUTION__CHECKPOINTING__DIR": "/data/checkpoints",
    "PENSTOCK_EXECUTION__CHECKPOINTING__INTERVAL": "1s",
    "PENSTOCK_EXECUTION__CHECKPOINTING__SAVEPOINT_DIR": "/data/savepoints",
    "PENSTOCK_EXECUTION__STATE_RECOVERY__PATH": "latest",
    "SPARK_LOCAL_HOSTNAME": "localhost",
}


@pytest.fixture(scope="module")
def environment(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    (wheel,) = built.glob("*.whl")
    return environment_of(wheel, tmp_path_factory.mktemp("image") / "environment", TINI)


@pytest.fixture
def running(environment: Path, tmp_path: Path) -> Generator[Container]:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "prices.py").write_text(PRICES)
    container = Container(tmp_path, environment, "run", "/app/prices.py", **SETTINGS)
    yield container
    container.process.kill()
    container.process.wait()


def test_doctor_finds_nothing_in_the_way(environment: Path, tmp_path: Path) -> None:
    container = Container(tmp_path, environment, *words_of("CMD"))
    assert container.wait() == 0, container.log.read_text()
    assert "failed" not in container.log.read_text()


def test_first_process_passes_the_signal_on_and_the_next_container_continues(
    running: Container, environment: Path, tmp_path: Path
) -> None:
    check = words_of("HEALTHCHECK")
    for _ in running.attempts():
        if "\n20\n" in running.log.read_text() and running.run(*check).returncode == 0:
            break
    assert running.stop() == 143
    (savepoint,) = (tmp_path / "data" / "savepoints").iterdir()
    assert (savepoint / "_metadata").is_file()
    printed = [int(line) for line in running.log.read_text().splitlines() if line.isdigit()]

    again = Container(tmp_path, environment, "run", "/app/prices.py", **SETTINGS)
    try:
        for _ in again.attempts():
            if f"\n{printed[-1] + 5}\n" in again.log.read_text():
                break
        assert again.stop() == 143
        more = [int(line) for line in again.log.read_text().splitlines() if line.isdigit()]
    finally:
        again.process.kill()
        again.process.wait()
    assert [*printed, *more] == list(range(len(printed) + len(more)))


def test_scratch_volume_of_kubernetes_is_refused_until_it_has_the_sticky_bit(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "prices.py").write_text(PRICES)
    container = Container(tmp_path, environment, "run", "/app/prices.py", tmp_mode="0777", **SETTINGS)
    assert container.wait() != 0
    assert "chmod +t /tmp" in container.log.read_text()
