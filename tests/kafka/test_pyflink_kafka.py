"""PyFlink's Kafka examples of release 2.3 run with imports, addresses and a bound changed."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

import pytest
from tests.services.tools import PYFLINK

from penstock._engine.cli.porting import ported

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.conftest import Topics

EXAMPLES = PYFLINK / "pyflink" / "examples" / "datastream" / "connectors"

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.usefixtures("spark"),
    pytest.mark.skipif(not EXAMPLES.is_dir(), reason="PyFlink's examples are not here (make tools)"),
]

_EARLIEST = ".set_starting_offsets(KafkaOffsetsInitializer.earliest())"
_WORDS = ((1, "hi"), (2, "hello"), (3, "hi"), (4, "hello"), (5, "hi"), (6, "hello"), (6, "hello"))


@pytest.mark.parametrize("name", ["json", "csv", "avro"])
def test_example_reads_what_it_has_written(
    topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text = ported((EXAMPLES / f"kafka_{name}_format.py").read_text(encoding="utf-8")).text
    assert _EARLIEST in text
    text = text.replace(_EARLIEST, f"{_EARLIEST}\n        .set_bounded(KafkaOffsetsInitializer.latest())")
    text = text.replace("localhost:9092", topics.bootstrap)
    topics.new(name=f"test_{name}_topic")
    program = tmp_path / f"kafka_{name}_format.py"
    program.write_text(text, encoding="utf-8")
    runpy.run_path(str(program), run_name="__main__")
    lines = [line.partition("> ")[2] or line for line in capsys.readouterr().out.splitlines()]
    assert sorted(line for line in lines if line.startswith("+I[")) == sorted(f"+I[{n},{word}]" for n, word in _WORDS)
