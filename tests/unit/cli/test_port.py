"""`penstock port`: what it changes, what it leaves, and what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock._engine.cli.main import main
from penstock._engine.cli.porting import ported

if TYPE_CHECKING:
    from pathlib import Path

LEFT = """\
# pyflink in a comment
import os, json
from .pyflink import mine
import mypyflink
text = "from pyflink import x"
"""

CHANGED = """\
import pyflink
import pyflink.common as common, os
import pyflink.datastream  # the API
from pyflink.datastream import (
    StreamExecutionEnvironment,  # pyflink's
    RuntimeExecutionMode as Mode,
)
from pyflink import datastream as ds; from pyflink.common import *
def run():
    from pyflink.common import Types ; é = "ü"; pyflink.datastream.StreamExecutionEnvironment
    return x.pyflink
"""


def test_what_is_not_of_pyflink_stays() -> None:
    done = ported(LEFT)
    assert (done.text, done.changes, done.remarks) == (LEFT, 0, ())


def test_imports_and_uses_are_changed_and_all_else_stays() -> None:
    done = ported(CHANGED)
    expected = (
        CHANGED.replace("pyflink", "penstock").replace("penstock's", "pyflink's").replace("x.penstock", "x.pyflink")
    )
    assert done.text == expected
    assert (done.changes, done.remarks) == (8, ())


@pytest.mark.parametrize(
    ("line", "what", "said"),
    [
        ("from pyflink.table import StreamTableEnvironment", "penstock.table.StreamTableEnvironment", "Spark SQL"),
        ("import pyflink.table.expressions", "penstock.table.expressions", "Spark SQL"),
        ("from pyflink.datastream.connectors.pulsar import PulsarSink", "PulsarSink", "ulsar"),
        ("from pyflink.datastream import SourceFunction", "SourceFunction", "write a Source"),
        ("from pyflink.datastream import Nonsense", "penstock.datastream.Nonsense", "no such name"),
        ("import pyflink.datastream as ds; ds.SinkFunction", "SinkFunction", "Sink in Python"),
        ("env.add_jars('file:///a.jar')", "add_jars", "no effect"),
        ("stream.add_sink(sink)", "add_sink", "use sink_to"),
        ("config.enable_force_kryo()", "enable_force_kryo", "Kryo"),
        ("importlib.import_module('pyflink.common')", "'pyflink.common'", "write 'penstock.common'"),
    ],
)
def test_what_cannot_work_is_listed_with_its_line_and_what_to_do(line: str, what: str, said: str) -> None:
    remarks = ported(f"import os\n\n{line}\n").remarks
    assert [(remark.line, what in remark.what, said in remark.reason) for remark in remarks] == [(3, True, True)]


def test_command_writes_the_program_and_lists_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "job.py"
    script.write_bytes("# -*- coding: latin-1 -*-\nfrom pyflink.common import Row  # für\n".encode("latin-1"))
    assert main(["port", str(script)]) == 0
    assert capsys.readouterr().out == "# -*- coding: latin-1 -*-\nfrom penstock.common import Row  # für\n"
    assert main(["port", str(script), "-o", str(script)]) == 0
    assert script.read_bytes().decode("latin-1").endswith("from penstock.common import Row  # für\n")
    script.write_text("x = 1\nfrom pyflink.table import DataTypes\n")
    assert main(["port", str(script)]) == 1
    assert f"{script}:2: penstock.table.DataTypes: the Table API is no part" in capsys.readouterr().err


def test_command_says_what_is_no_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "job.py"
    script.write_text("from pyflink import (\n")
    assert main(["port", str(script)]) == 1
    assert "is no Python" in capsys.readouterr().err
