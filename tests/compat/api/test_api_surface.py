"""PyFlink's names and parameters against ours: each is there, or the table says why not, and so do the errors."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.compat.api import surface

from penstock import _absent
from penstock.errors import AbsentAttributeError, AbsentImportError, UnsupportedOperationError

REFERENCE = surface.items(json.loads((Path(__file__).parent / "pyflink_api.json").read_text(encoding="utf-8")))
PACKAGES = ("common", "datastream", "metrics")


ROWS = _absent.table()


def _built(path: str) -> bool:
    return surface.problem_with("penstock", path, REFERENCE[path]) is None


def _row(path: str) -> tuple[str, str] | None:
    """Return the row that explains a name: its own, that of its class, or that of its module or a package above."""
    module, _, name = path.partition(":")
    parts, packages = name.split("."), module.split(".")
    rows = [
        *((module, ".".join(parts[:count])) for count in range(len(parts), 0, -1)),
        *((".".join(packages[:count]), "*") for count in range(len(packages), 0, -1)),
    ]
    return next((row for row in rows if row in ROWS), None)


ABSENT = {path: row for path in REFERENCE if (row := _row(path)) is not None}


def test_every_pyflink_name_is_built_or_explained() -> None:
    lacking = {
        path: surface.problem_with("penstock", path, item) for path, item in REFERENCE.items() if path not in ABSENT
    }
    assert {path: problem for path, problem in lacking.items() if problem is not None} == {}


def test_a_name_that_is_built_has_left_the_table() -> None:
    assert [path for path in ABSENT if _built(path)] == [], "take them out of src/penstock/absent_names.txt"


def test_every_row_of_pyflinks_packages_stands_for_a_recorded_name() -> None:
    rows = {row for row in _absent.public() if row[0].startswith(PACKAGES)}
    # Later names of the connectors, and those of a module that has a row as a whole.
    beyond = {
        *(("datastream.connectors", name) for name in ("KafkaSink", "KafkaOffsetsInitializer", "PulsarSink")),
        *(("datastream.connectors", f"Kafka{name}") for name in ("RecordSerializationSchema", "TopicPartition")),
        ("datastream.connectors", "KafkaOffsetResetStrategy"),
        *(row for row in rows if row[1] != "*" and (row[0], "*") in rows),
    }
    assert rows - set(ABSENT.values()) - beyond == set()


@pytest.mark.parametrize("module", sorted({path.partition(":")[0] for path in ABSENT}))
def test_an_absent_name_says_why_when_it_is_imported_or_called(module: str) -> None:
    for path, row in ABSENT.items():
        if path.partition(":")[0] != module:
            continue
        name, *members = path.partition(":")[2].split(".")
        if members and row == (module, name):
            continue  # of a class that is not there itself
        if not members:
            with pytest.raises(AbsentImportError) as refused:
                exec(f"from penstock.{module} import {name}")
        else:
            with pytest.raises(AbsentAttributeError if row[1] != "*" else AbsentImportError) as refused:
                exec(f"from penstock.{module} import {name}\n{'.'.join((name, *members))}")
        assert ROWS[row] in str(refused.value)
        assert isinstance(refused.value, UnsupportedOperationError)


def test_a_module_says_what_its_classes_lack_whichever_other_modules_are_loaded() -> None:
    for module in sorted({module for module, name in ROWS if "." in name}):
        assert hasattr(import_module(f"penstock.{module}"), "__getattr__"), f"{module} calls no explain()"


def test_an_absent_name_is_an_attribute_error_where_it_is_no_import() -> None:
    import penstock
    from penstock import common, datastream
    from penstock.datastream import functions

    assert not any(hasattr(place, "SinkFunction") for place in (penstock, common, datastream, functions))
    with pytest.raises(AbsentAttributeError, match="from_source and sink_to"):
        _ = datastream.SinkFunction  # type: ignore[attr-defined]
    with pytest.raises(AbsentAttributeError, match="Spark SQL"):
        _ = penstock.table  # type: ignore[attr-defined]


def test_a_stream_says_what_it_does_not_have_where_its_module_was_never_named() -> None:
    program = """
from penstock.datastream import StreamExecutionEnvironment
stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
try:
    stream.cache()
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    absent = ("datastream.data_stream", "DataStream.cache")
    assert absent not in ROWS or ROWS[absent] in done.stdout


@pytest.mark.parametrize(
    "statement",
    ["import penstock.table", "from penstock.table.expressions import col", "from penstock import table",
     "from penstock.java_gateway import get_gateway"],
)  # fmt: skip
def test_a_package_that_is_no_part_of_penstock_says_so(statement: str) -> None:
    with pytest.raises(AbsentImportError, match=r"not part|JVM"):
        exec(statement)


def test_a_name_that_pyflink_does_not_have_is_missing_as_in_any_module() -> None:
    for statement in ("from penstock.datastream.window import Tumbling", "from penstock.datastream import Tumbling"):
        with pytest.raises(ImportError, match="cannot import name 'Tumbling'") as refused:
            exec(statement)
        assert not isinstance(refused.value, UnsupportedOperationError)
    with pytest.raises(AttributeError, match="has no attribute 'Tumbling'"):
        exec("import penstock.common; penstock.common.Tumbling")


class Sample:
    def exact(self, a: int, b: int = 0) -> None: ...
    def renamed(self, x: int, b: int = 0) -> None: ...
    def no_default(self, a: int, b: int) -> None: ...
    def extra(self, a: int, b: int = 0, c: int = 0) -> None: ...
    def too_much(self, a: int, b: int = 0, *, c: int) -> None: ...

    @property
    def turned_property(self) -> None: ...


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("exact", None),
        ("extra", None),
        ("renamed", "parameter 1 is 'x', not 'a'"),
        ("no_default", "parameter 'b' must be optional"),
        ("too_much", "extra required keyword 'c'"),
        ("turned_property", "is a property, not a method"),
        ("absent", "missing"),
    ],
)
def test_a_call_written_for_the_reference_must_bind(
    name: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {"what": "method", "kind": "method", "params": [{"name": "a"}, {"name": "b", "default": "0"}]}
    monkeypatch.setattr("penstock.common.Sample", Sample, raising=False)
    assert surface.problem_with("penstock", f"common:Sample.{name}", wanted) == expected
