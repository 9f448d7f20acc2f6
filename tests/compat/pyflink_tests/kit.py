"""What PyFlink's own tests find in the place of its test kit, after they are ported; all of it is written for Penstock.

Ported tests import from here `test_case_utils`, `DataStreamTestSinkFunction`, and the two ways to Java that stand in
their `setUp`. Any other name that Penstock does not have is a `Missing`, which says so where a test uses it.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import pickle
import shutil
import tempfile
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Never

import cloudpickle
import fastavro
import numpy

from penstock.common import Configuration, Row, Types
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.base import Sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest


def on_windows() -> bool:
    return False


class MissingNameError(Exception):
    """A test has used a name of PyFlink's that Penstock does not have."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"{self.name} is missing: {self.reason}"


class Missing:
    """Stands for a name that is missing; its first use raises the reason."""

    def __init__(self, name: str, reason: str) -> None:
        self._name, self._reason = name, reason

    def __call__(self, *_arguments: Any, **_named: Any) -> Never:
        raise MissingNameError(self._name, self._reason)

    def __getattr__(self, name: str) -> Never:
        if name.startswith("__"):
            raise AttributeError(name)
        self()

    def __mro_entries__(self, bases: tuple[object, ...]) -> Never:
        self()


# ------------------------------------------------------------------------------------------------ the bases of tests


class PyFlinkTestCase(unittest.TestCase):
    tempdir: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.tempdir = tempfile.mkdtemp()

    @classmethod
    def tearDownClass(cls) -> None:
        shutil.rmtree(cls.tempdir, ignore_errors=True)

    @classmethod
    def assert_equals(cls, actual: list[Any], expected: list[Any]) -> None:
        assert sorted(actual) == sorted(expected)


class _WithEnvironment(PyFlinkTestCase):
    mode = RuntimeExecutionMode.STREAMING
    env: StreamExecutionEnvironment

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Give each test an environment of its own: one that fails leaves its streams to no other."""
        self.env = StreamExecutionEnvironment.get_execution_environment()
        self.env.set_parallelism(2)
        self.env.set_runtime_mode(self.mode)
        return super().run(result)


class PyFlinkUTTestCase(_WithEnvironment):
    pass


class PyFlinkStreamingTestCase(_WithEnvironment):
    pass


class PyFlinkBatchTestCase(_WithEnvironment):
    mode = RuntimeExecutionMode.BATCH


class PythonAPICompletenessTestCase:
    def test_completeness(self) -> None:
        raise MissingNameError("the methods of a Java class", "there is no Java class to compare with")


# ------------------------------------------------------------------------------------------------- what a test gets


class SecondColumnTimestampAssigner(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class DataStreamTestSinkFunction:
    """Keeps the records of a stream that `add_sink` gives to it."""

    def __init__(self) -> None:
        # A file, as some jobs run in other processes.
        descriptor, name = tempfile.mkstemp(".records")
        os.close(descriptor)
        self.path = Path(name)

    def get_results(self, is_python_object: bool = False, stringify: bool = True) -> list[Any]:
        """Return the records as texts, Java's or Python's, and forget them."""
        given: list[Any] = []
        with self.path.open("rb") as file, contextlib.suppress(EOFError):
            while True:
                given.append(pickle.load(file))
        self.clear()
        if is_python_object:
            return [str(value) for value in given] if stringify else given
        return [java_text(value) for value in given]

    def clear(self) -> None:
        self.path.write_bytes(b"")


class _Keep:
    """Adds records to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, value: Any) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(cloudpickle.dumps(value))


def java_text(value: Any) -> str:
    """Return what Java's `toString` gives for a record of a type."""
    for kind, text in _TEXTS:
        if isinstance(value, kind):
            return text(value)
    return str(value)


def _number(value: float) -> str:
    narrow = numpy.float32(value)  # a number that a FLOAT holds exactly is shown as one
    return str(narrow) if float(narrow) == value else repr(value)


def _time_of_day(value: datetime.datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}.{f'{value.microsecond:06}'.rstrip('0') or '0'}"


def _joined(values: Any, separator: str) -> str:
    return separator.join(map(java_text, values))


#: What Java prints of a value, by its class; the first class that fits counts.
_TEXTS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (type(None), lambda _: "null"),
    (bool, lambda value: str(value).lower()),
    (float, _number),
    ((bytes, bytearray), lambda value: java_text([byte - 256 if byte > 127 else byte for byte in value])),
    (Row, lambda value: f"{value.get_row_kind()}[{_joined(value, ', ')}]"),
    (tuple, lambda value: f"({_joined(value, ',')})"),
    (list, lambda value: f"[{_joined(value, ', ')}]"),
    (datetime.datetime, _time_of_day),
    (datetime.time, lambda value: f"{value:%H:%M:%S}"),
)


class DataTypes:
    """The types that PyFlink's formats take of the Table API, as Penstock's formats take them."""

    BOOLEAN, TINYINT, SMALLINT, INT, BIGINT = Types.BOOLEAN, Types.BYTE, Types.SHORT, Types.INT, Types.LONG
    FLOAT, DOUBLE, STRING, DATE, TIME = Types.FLOAT, Types.DOUBLE, Types.STRING, Types.SQL_DATE, Types.SQL_TIME

    @staticmethod
    def DECIMAL(precision: int, scale: int) -> Any:
        del precision, scale
        return Types.BIG_DEC()

    @staticmethod
    def ARRAY(element: Any) -> Any:
        return Types.BASIC_ARRAY(element)


class DatumReader:
    """A reader of Avro's package, which needs no setting here."""


def DataFileReader(file: Any, _reader: DatumReader) -> Iterator[Any]:
    with file:
        yield from fastavro.reader(file)


# --------------------------------------------------------------------------------- ways to Java that stand in `setUp`


class JavaEnvironment:
    """What stands for the Java side of an environment: its configuration alone."""

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Never:
        raise MissingNameError(f"{name} of the Java environment", "there is no Java object behind it")


class JavaConfiguration:
    """What stands for Java's configuration of an environment."""

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        self.held = env._configuration

    def setString(self, key: str, value: str) -> None:
        self.held.set_string(key, value)

    def __getattr__(self, name: str) -> Never:
        raise MissingNameError(f"{name} of a Java configuration", "there is no Java object behind it")


def get_j_env_configuration(environment: JavaEnvironment) -> JavaConfiguration:
    return JavaConfiguration(environment.env)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let streams end in the sink of tests, and environments and configurations show what stands for Java."""
    add_sink, begin = DataStream.add_sink, Configuration.__init__

    def adding(stream: DataStream[Any], sink: Any) -> Any:
        if not isinstance(sink, DataStreamTestSinkFunction):
            return add_sink(stream, sink)
        return stream.sink_to(Sink.from_function(_Keep(sink.path)))

    def beginning(
        self: Configuration, other: Configuration | None = None, j_configuration: JavaConfiguration | None = None
    ) -> None:
        begin(self, other)
        if j_configuration is not None:
            self._values = j_configuration.held._values

    monkeypatch.setattr(DataStream, "add_sink", adding)
    monkeypatch.setattr(Configuration, "__init__", beginning)
    monkeypatch.setattr(
        StreamExecutionEnvironment, "_j_stream_execution_environment", property(JavaEnvironment), raising=False
    )
