"""`penstock port`: what it changes, what it leaves, and what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.cells import cells
from tests.services.tools import PYFLINK

from penstock._engine.cli.main import main
from penstock._engine.cli.porting import ported
from penstock.common import Configuration, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import AbsentAttributeError, UnsupportedOperationError

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = PYFLINK / "pyflink" / "examples" / "datastream"

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
    assert (done.text, done.changes, done.findings) == (LEFT, 0, ())


def test_imports_and_uses_are_changed_and_all_else_stays() -> None:
    done = ported(CHANGED)
    expected = (
        CHANGED.replace("pyflink", "penstock").replace("penstock's", "pyflink's").replace("x.penstock", "x.pyflink")
    )
    assert done.text == expected
    assert (done.changes, done.findings) == (8, ())


#: Lines of programs, with what is said about each: the subject, words of the reason, and whether the line may stay.
HABITS = [
    ("from pyflink.table import StreamTableEnvironment", "penstock.table.StreamTableEnvironment", "Spark SQL", False),
    ("import pyflink.table.expressions", "penstock.table.expressions", "Spark SQL", False),
    ("from pyflink.datastream.connectors.pulsar import PulsarSink", "PulsarSink", "ulsar", False),
    ("from pyflink.datastream import SourceFunction", "SourceFunction", "write a Source", False),
    ("from pyflink.datastream import Nonsense", "penstock.datastream.Nonsense", "no such name", False),
    ("import pyflink.datastream as ds; ds.SinkFunction", "SinkFunction", "Sink in Python", False),
    ("import pyflink.datastream; pyflink.datastream.SinkFunction", "SinkFunction", "Sink in Python", False),
    ("from pyflink.datastream import *; TimeCharacteristic.EventTime", "TimeCharacteristic", "always on", False),
    ("stream.add_sink(sink)", "add_sink", "use sink_to", False),
    ("config.enable_force_kryo()", "enable_force_kryo", "Kryo", False),
    ("importlib.import_module('pyflink.common')", "'pyflink.common'", "write 'penstock.common'", False),
    ("importlib.import_module('pyflink')", "'pyflink'", "write 'penstock'", False),
    ("env._j_stream_execution_environment.getConfig()", "_j_stream_execution_environment", "no Java", False),
    ("stream._j_data_stream.rebalance()", "_j_data_stream", "no Java object", False),
    ("window._j_window_operator", "_j_window_operator", "no Java object", False),
    ("Configuration(j_configuration=java)", "j_configuration=", "no Java object", False),
    ("from py4j.protocol import Py4JJavaError", "Py4JJavaError", "catch penstock.errors.PenstockError", False),
    ("from py4j.java_gateway import java_import", "java_import", "JVM of Spark", False),
    ("import py4j", "py4j", "JVM of Spark", False),
    ("error.java_exception.getMessage()", "java_exception", "catch penstock.errors.PenstockError", False),
    ("from pyflink.datastream import TimeCharacteristic", "TimeCharacteristic", "always on", False),
    ("from pyflink.datastream.time_characteristic import TimeCharacteristic", "TimeChar", "always on", False),
    ("env.set_stream_time_characteristic(x)", "set_stream_time_characteristic", "always on", False),
    ("from pyflink.datastream import FsStateBackend", "FsStateBackend", "taken it out", False),
    ("from pyflink.common.serialization import JsonRowDeserializationSchema", "Json", "formats.json", False),
    ("from pyflink.testing.test_case_utils import PyFlinkTestCase", "PyFlinkTestCase", "penstock.testing", False),
    ("from pyflink.testing import source_sink_utils", "source_sink_utils", "penstock.testing", False),
    ("env.add_jars('file:///a.jar')", "add_jars", "Java code", True),
    ("env.set_state_backend(backend)", "set_state_backend", "LMDB", True),
    ("stream.slot_sharing_group('a')", "slot_sharing_group", "are the slots", True),
    ("stream.set_buffer_timeout(10)", "set_buffer_timeout", "no network buffers", True),
    ("env.get_checkpoint_config().enable_unaligned_checkpoints()", "enable_unaligned", "no barriers", True),
    ("import pyflink; c.set_string('state.checkpoints.dir', d)", "'state.checkpoints.dir'", "an older name of", True),
    ("import pyflink; c.set_string('state.backend.type', d)", "'state.backend.type'", "LMDB", True),
    ("import pyflink; c.set_string('rest.flamegraph.enabled', d)", "rest.flamegraph", "no effect", True),
]


@cells("line, what, said, may_stay", HABITS)
def test_what_needs_to_be_looked_at_is_listed_with_its_line_and_what_to_do(
    line: str, what: str, said: str, may_stay: bool
) -> None:
    found = ported(f"import os\n\n{line}\n").findings
    assert [(one.line, one.may_stay) for one in found] == [(3, may_stay)], found
    assert what in found[0].what
    assert said in found[0].reason


def test_a_program_with_tables_is_told_what_to_do_in_place_of_each_bridge() -> None:
    program = "from pyflink.table import X\nt.from_data_stream(s)\nt.to_data_stream(q)\nt.execute_sql('SELECT 1')\n"
    said = {one.what: one.reason for one in ported(program).findings}
    assert "stream.to_dataframe()" in said["from_data_stream"]
    assert "env.from_dataframe(df)" in said["to_data_stream"]
    assert "spark.sql" in said["execute_sql"]
    assert ported("t.execute_sql('SELECT 1')\n").findings == ()


def test_texts_that_are_data_are_no_advice() -> None:
    texts = ("pyflink", "pyflink.", "pyflink is fast", "pyflink.org", "/pyflink.zip", "pyflink.common!")
    for text in texts:
        assert ported(f"import pyflink\nlabel = {text!r}\n").findings == (), text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_pythons(end: str) -> None:
    """A form feed, a separator of Unicode or another end of lines neither moves a change nor adds to it."""
    program = end.join(
        [
            '"""One\u2028two\x85three\x0bfour."""',
            "\x0c",
            "\x0cfrom pyflink.common import Row",
            "text = 'a\u2029b\x1c'; import pyflink  # \u2028 pyflink",
            "pyflink.common; 'pyflink.common'",
            "",
        ]
    )
    done = ported(program)
    changed = program.replace("from pyflink", "from penstock").replace("import pyflink", "import penstock")
    assert done.text == changed.replace("pyflink.common; ", "penstock.common; ")
    assert (done.changes, [one.line for one in done.findings]) == (3, [5])


def test_an_absent_name_gives_its_reason_also_when_the_program_runs() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    owners = {
        "_j_stream_execution_environment": env,
        "set_stream_time_characteristic": env,
        "_j_data_stream": env.from_collection([1]),
        "_j_checkpoint_config": env.get_checkpoint_config(),
        "_j_execution_config": env.get_config(),
        "_j_configuration": Configuration(),
        "_j_typeinfo": Types.INT(),
    }
    for name, owner in owners.items():
        (found,) = ported(f"x.{name}\n").findings
        with pytest.raises(AbsentAttributeError) as refused:
            getattr(owner, name)
        assert found.reason in str(refused.value)
        assert not hasattr(owner, name)
    with pytest.raises(UnsupportedOperationError, match="no Java object"):
        Configuration(j_configuration=object())  # type: ignore[arg-type]


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="PyFlink's examples are not here (make tools)")
def test_of_pyflinks_examples_all_is_found_and_nothing_else() -> None:
    """By the name of an example: what has to be changed by hand, and what may stay."""
    tables = {"penstock.table.DataTypes", "penstock.table.Schema", "to_data_stream"} | {
        f"penstock.table.{name}" for name in ("StreamTableEnvironment", "TableDescriptor")
    }
    pulsar = ("PulsarSink", "PulsarSource", "StartCursor", "DeliveryGuarantee", "StopCursor", "TopicRoutingMode")
    old_elasticsearch = "penstock.datastream.connectors.elasticsearch.Elasticsearch6SinkBuilder"
    expected: dict[str, set[str]] = {
        "streaming_word_count": tables,
        "remote_model_inference": tables,
        "pulsar": {f"penstock.datastream.connectors.pulsar.{name}" for name in pulsar},
        "elasticsearch": {old_elasticsearch},
    }
    jars = {"elasticsearch", "pulsar", *(f"kafka_{name}_format" for name in ("avro", "bytearray", "csv", "json"))}
    programs = {path.stem: ported(path.read_text(encoding="utf-8")) for path in EXAMPLES.rglob("*.py")}
    assert len(programs) >= 15
    for name, done in programs.items():
        assert {one.what for one in done.findings if not one.may_stay} == expected.get(name, set()), name
        assert {one.what for one in done.findings if one.may_stay} == ({"add_jars"} if name in jars else set()), name
        assert "pyflink" not in "".join(line for line in done.text.splitlines() if "import" in line), name


#: Six programs with what programs do: each line that needs to be looked at ends with `# here`, or `# may stay`.
PROGRAMS = {
    "gateway": """
from py4j.protocol import Py4JJavaError  # here
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway  # here
env = StreamExecutionEnvironment.get_execution_environment()
java = env._j_stream_execution_environment  # here
config = Configuration(
    j_configuration=java.getConfiguration(),  # here
)
try:
    env.execute()
except Py4JJavaError as error:  # here
    print(error.java_exception.getMessage())  # here
""",
    "old": """
from pyflink.common.serialization import SimpleStringSchema, JsonRowDeserializationSchema  # here
from pyflink.datastream import (
    FsStateBackend,  # here
    StreamExecutionEnvironment,
    TimeCharacteristic,  # here
)
env = StreamExecutionEnvironment.get_execution_environment()
env.set_stream_time_characteristic(TimeCharacteristic.EventTime)  # here
env.set_state_backend(FsStateBackend("file:///tmp"))  # may stay
""",
    "settings": """
from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment, SlotSharingGroup
config = Configuration()
config.set_string("state.checkpoints.dir", "/tmp/checkpoints")  # may stay
config.set_string("state.backend", "rocksdb")  # may stay
config.set_string("execution.checkpointing.interval", "1 s")
env = StreamExecutionEnvironment.get_execution_environment(config)
env.add_jars("file:///a.jar")  # may stay
env.register_slot_sharing_group(SlotSharingGroup.builder("a").build())  # may stay
env.from_collection([1]).slot_sharing_group("a").set_buffer_timeout(5).print()  # may stay
""",
    "bridges": """
from pyflink import datastream as ds
from pyflink.table import StreamTableEnvironment, Schema  # here
env = ds.StreamExecutionEnvironment.get_execution_environment()
tables = StreamTableEnvironment.create(env)
tables.create_temporary_view("a", tables.from_data_stream(env.from_collection([1])))  # here
tables.to_data_stream(tables.sql_query("SELECT 1")).print()  # here
""",
    "tests": """
import importlib, logging
from unittest import mock
from pyflink.testing.test_case_utils import PyFlinkStreamingTestCase  # here
logging.getLogger("pyflink").setLevel(1)
common = importlib.import_module("pyflink.common")  # here
with mock.patch("pyflink.datastream.MapFunction"):  # here
    pass
""",
    "feeds": """\x0c
import pyflink.datastream
NAME = "pyflink"; TEXT = "a\u2028b"
stream = pyflink.datastream.StreamExecutionEnvironment.get_execution_environment().from_collection([1])
stream._j_data_stream.getType()  # here
stream.add_sink(pyflink.datastream.SinkFunction())  # here
""",
}


def test_of_programs_with_the_habits_all_is_found_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, program in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(program, encoding="utf-8")
        found = ported(program).findings
        lines = program.split("\n")
        for mark, may_stay in (("# here", False), ("# may stay", True)):
            wanted = {number for number, line in enumerate(lines, 1) if line.endswith(mark)}
            assert {one.line for one in found if one.may_stay == may_stay} - wanted == set(), (name, may_stay)
            assert wanted - {one.line for one in found} == set(), name
    assert main(["port", str(tmp_path)]) == 1
    said = capsys.readouterr().err.splitlines()
    reasons = [line.partition(" ")[2] for line in said]
    assert len(set(reasons)) == len(said), "a line of noise twice"


def test_command_shows_the_changes_or_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "job.py"
    before = "# -*- coding: latin-1 -*-\r\nfrom pyflink.common import Row  # für\r\n".encode("latin-1")
    script.write_bytes(before)
    assert main(["port", str(script)]) == 0
    shown = capsys.readouterr()
    assert "-from pyflink.common import Row" in shown.out
    assert "+from penstock.common import Row" in shown.out
    assert "Would change 1 use of pyflink in 1 of 1 file; 0 to be changed by hand, 0 may stay." in shown.err
    assert script.read_bytes() == before
    assert main(["port", "--write", str(script)]) == 0
    assert script.read_bytes() == before.replace(b"pyflink", b"penstock")
    assert "Changed 1 use of pyflink" in capsys.readouterr().err


def test_check_fails_where_something_is_left_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "job.py"
    for program, code in (
        ("from pyflink.common import Row\n", 1),
        ("from penstock.common import Row\nenv.add_jars('a')\n", 0),
        ("from penstock.common import Row\nenv.add_sink(x)\n", 1),
        ("from penstock.table import DataTypes\n", 1),
    ):
        script.write_text(program)
        assert main(["port", "--check", str(script)]) == code, program
        assert (script.read_text(), capsys.readouterr().out) == (program, "")
    assert main(["port", "--check", "--write", str(script)]) == 2


def test_folders_are_ported_and_equal_findings_are_one_line_with_their_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = tmp_path / "jobs" / "inner"
    inner.mkdir(parents=True)
    (inner / "a.py").write_text("from pyflink.table import A, B\nstream.add_sink(x)\nstream.add_sink(y)\n")
    (tmp_path / "jobs" / "b.py").write_text("stream.add_sink(z)\nenv.add_jars('a')\n")
    (tmp_path / "jobs" / "notes.txt").write_text("import pyflink")
    for skipped in (".git", "venv", "__pycache__"):
        (tmp_path / "jobs" / skipped).mkdir()
        (tmp_path / "jobs" / skipped / "c.py").write_text("import pyflink\n")
    (tmp_path / "jobs" / "venv" / "pyvenv.cfg").touch()
    jobs = str(tmp_path / "jobs")
    assert main(["port", "--write", jobs, f"{jobs}/b.py"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "To be changed by hand:"
    assert said[1].startswith(f"{jobs}/b.py:1: add_sink: it takes a Java object")
    assert said[1].endswith(f" (3 times; also {jobs}/inner/a.py:2, 3).")
    assert said[2].startswith(f"{jobs}/inner/a.py:1: penstock.table.A, penstock.table.B: the Table API is not part")
    assert said[2].endswith(" (2 times).")
    assert said[3].startswith("Without effect, or with a newer name")
    assert said[4].startswith(f"{jobs}/b.py:2: add_jars:")
    assert said[5:] == ["Changed 1 use of pyflink in 1 of 2 files; 5 to be changed by hand, 1 may stay."]


def test_command_says_what_is_no_python_and_ports_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text("from pyflink import (\n")
    (tmp_path / "b.py").write_bytes(b"x = '\xff'\n")
    (tmp_path / "c.py").write_bytes(b"x = '\0'\n")
    (tmp_path / "d.py").write_text("import pyflink\ns = '\\d'\n")
    assert main(["port", "--write", str(tmp_path)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert ["is no Python" in line for line in said] == [True, True, True, False]
    assert (tmp_path / "d.py").read_text() == "import penstock\ns = '\\d'\n"
