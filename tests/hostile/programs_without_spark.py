"""Has the jobs of this process run in it, without Spark: for programs that are started as a whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock._engine.spark import epoch, session, shipping
from penstock.testing.in_process import InProcessEpochRunner


def _runner(*_: object, **__: object) -> InProcessEpochRunner:
    return InProcessEpochRunner()


def install() -> None:
    """Put the runner of tests in the place of the one on Spark."""
    places: Any = session, epoch, shipping
    places[0].get_session = lambda *_, **__: SimpleNamespace(slots=2, session=SimpleNamespace(sparkContext=None))
    places[0].slot_count = lambda _: 2
    places[1].SparkEpochRunner = _runner
    places[2].is_local = lambda _: True


install()
