"""On real Spark: a writer that hangs while it stages costs its epoch, which names it and is run again."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.fault.spark_driver import numbers
from tests.kit.settings import configured

from penstock._connectors.files.writer import FileWriter
from penstock.common import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock._engine.spark.session import SparkHandle
    from penstock.common.typeinfo import TypeInformation

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.endurance]

#: Longer than an epoch takes on a busy machine with Python workers that begin; else one expires after the other.
TIMEOUT = "30 s"


class Hanging(FileSink):
    """Writes files; the first flush hangs, as in a network disk that is gone."""

    def __init__(self, sink: FileSink, notes: Path) -> None:
        super().__init__(sink._options)
        self.notes = notes

    def for_type(self, type_info: TypeInformation | None) -> Hanging:
        return Hanging(FileSink(self._options).for_type(type_info), self.notes)

    def create_writer(self, context: Any) -> FileWriter:
        return self.restore_writer(context, [])

    def restore_writer(self, context: Any, recovered_state: Any) -> FileWriter:
        writer = FileWriter(context, self._options, recovered_state)
        original, notes = writer.flush, self.notes

        def flush(end_of_input: bool) -> None:
            with suppress(FileExistsError):
                notes.touch(exist_ok=False)
                threading.Event().wait()
            original(end_of_input)

        writer.flush = flush  # type: ignore[method-assign]
        return writer


def run(place: Path, **settings: str) -> None:
    configuration = configured(checkpoints=str(place / "checkpoints"), interval="1 s", timeout=TIMEOUT, **settings)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    builder = FileSink.for_row_format(str(place / "out"), Encoder.simple_string_encoder())
    sink = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    numbers(env).sink_to(Hanging(sink, place / "notes")).name("orders").uid("orders-out")
    env.execute("hanging")


def written(place: Path) -> Sequence[int]:
    parts = [path for path in (place / "out").rglob("part-*") if path.is_file()]
    return sorted(int(line) for path in parts for line in path.read_text().split())


@pytest.mark.behaviour(163)
def test_a_staging_call_that_hangs_ends_its_epoch_which_rolls_back_and_runs_again(
    spark: SparkHandle, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, restart="fixed-delay", attempts="3")
    assert written(tmp_path) == list(range(10_000))
    assert not list(tmp_path.rglob("*.staged"))
    assert "no task of its epoch ended for 30000 ms. Still at work: Source: numbers -> orders (" in caplog.text
    assert "uid orders-out)" in caplog.text
