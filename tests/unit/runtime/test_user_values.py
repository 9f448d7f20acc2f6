"""Texts, numbers and errors of every kind that functions may give: the job goes on, or fails with their own words."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import pickle
import signal
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.kit.epochs import Job
from tests.kit.program import Program

from penstock._engine.protocol.control import encode
from penstock.common import Types, WatermarkStrategy
from penstock.common.user_values import LONGEST_TEXT
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.functions import KeyedProcessFunction, MapFunction

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.protocol.control import TaskFailure
    from penstock.datastream import DataStream

#: What `json.loads` gives for half of a pair.
HALF = json.loads('"\\ud83d"')

CALLS: list[str] = []


class Text(str):
    """A text of a class of its own."""

    __slots__ = ()


class Number(float):
    """As NumPy's are."""

    __slots__ = ()


def note_call() -> None:
    """Count a call; by its name, as the functions of a job are copies."""
    CALLS.append("x")


def failure_of(place: Path, function: Callable[[Any], Any], records: list[Any]) -> TaskFailure:
    """Return the one failure of a job whose function was called once."""
    CALLS.clear()

    def noted(record: Any) -> Any:
        note_call()
        return function(record)

    program = Program(place)
    program.collect(program.source(records).map(noted).name("odd"))
    [failure] = Job(program.graph(), place).try_epoch().failures
    assert (failure.operator, len(CALLS)) == ("odd", 1)
    assert len(encode(failure)) < 4 * LONGEST_TEXT
    return failure


# ------------------------------------------------------------------------------------------------------------- lines


def test_a_line_of_any_text_is_shown_escaped_and_the_job_goes_on(tmp_path: Path) -> None:
    def talk(record: Any) -> Any:
        logging.getLogger("mine").warning("odd %s", HALF)
        logging.getLogger(f"n{HALF}").warning(Text("hi"))
        logging.getLogger("mine").log(2**70, "high")
        try:
            int(HALF)
        except ValueError:
            logging.getLogger("mine").exception("caught")
        logging.getLogger("mine").warning("y" * 3_000_000)
        return record

    program = Program(tmp_path)
    program.collect(program.source([1]).map(talk))
    job = Job(program.graph(), tmp_path)
    assert job.run() == {"out": [1]}
    odd, named, high, caught, long = job.log
    assert odd.message == "odd \\ud83d"
    assert (named.logger, named.message) == ("n\\ud83d", "hi")
    assert high.level == 2**63 - 1
    assert "invalid literal for int()" in caught.message
    assert long.message.endswith("… (of 3,000,000 characters)")


def test_lines_of_many_megabytes_are_counted_and_not_sent(tmp_path: Path) -> None:
    def talk(record: Any) -> Any:
        for _ in range(200):
            logging.getLogger("mine").warning("y" * 60_000)
        return record

    program = Program(tmp_path)
    program.collect(program.source([1]).map(talk))
    job = Job(program.graph(), tmp_path)
    job.run()
    assert sum(len(line.message) for line in job.log) < 5 << 20
    assert job.log[-1].message == "130 more lines were logged in this epoch and are not shown"


# ------------------------------------------------------------------------------------------------------------ errors


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Gone(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Unpicklable(Exception):
    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


class Listless:
    """An object of which an error message asks for the names."""

    __module__ = 5  # type: ignore[assignment]

    def __dir__(self) -> Any:
        raise SystemExit


def noted_error() -> Exception:
    error = ValueError("plain")
    error.add_note(f"note {HALF}")
    return error


def chained_error() -> Exception:
    error = RuntimeError("outer")
    error.__cause__ = ValueError(HALF)
    return error


HERE = "tests.unit.runtime.test_user_values"
#: Errors, and how their texts begin.
ERRORS: dict[str, tuple[Callable[[], BaseException], str]] = {
    "a lone surrogate": (lambda: ValueError(f"cannot parse {HALF}"), "ValueError: cannot parse \\ud83d"),
    "a note": (noted_error, "ValueError: plain\nnote \\ud83d"),
    "a cause": (chained_error, "RuntimeError: outer"),
    "an odd class": (
        lambda: type("E", (Exception,), {"__qualname__": HALF, "__module__": HALF})("x"),
        "\\ud83d.\\ud83d: x",
    ),
    "no module": (lambda: type("Odd", (Exception,), {"__module__": 5})("x"), "<unknown>.Odd: x"),
    "too long": (lambda: ValueError("x" * 50_000_000), "ValueError: xxx"),
    "no text": (Speechless, f"{HERE}.Speechless: <exception str() failed>"),
    "exits when asked": (Gone, f"{HERE}.Gone: <exception str() failed>"),
    "cannot be pickled": (lambda: Unpicklable("x"), f"{HERE}.Unpicklable: x"),
    "of an object that lists nothing": (lambda: AttributeError("none", name="a", obj=Listless()), "AttributeError: "),
    "exit": (lambda: SystemExit(3), "SystemExit: 3"),
    "interrupt": (lambda: KeyboardInterrupt("mine"), "KeyboardInterrupt: mine"),
    "end of a generator": (lambda: GeneratorExit("mine"), "GeneratorExit: mine"),
    "cancellation": (lambda: asyncio.CancelledError("mine"), "asyncio.exceptions.CancelledError: mine"),
    "base": (lambda: BaseException("odd"), "BaseException: odd"),
    "syntax": (lambda: SyntaxError(HALF, (HALF, 1, 2, HALF)), ""),
}


def raise_one(name: str) -> None:
    raise ERRORS[name][0]()


@cells("name", ERRORS.keys())
def test_any_error_fails_the_job_with_its_own_words_after_one_call(name: str, tmp_path: Path) -> None:
    def fail(record: Any) -> Any:
        raise_one(name)

    failure = failure_of(tmp_path, fail, [1])
    assert failure.record == "1"
    assert "in fail" in failure.traceback
    assert failure.error.startswith(ERRORS[name][1])


def test_the_text_of_a_long_error_is_cut_and_its_length_told(tmp_path: Path) -> None:
    def fail(record: Any) -> Any:
        raise ValueError("x" * 2_000_000)

    failure = failure_of(tmp_path, fail, [1])
    assert failure.error.endswith("… (of 2,000,012 characters)")
    assert failure.exception is None


def test_an_error_keeps_its_class_and_its_text_for_the_program(tmp_path: Path) -> None:
    def fail(record: Any) -> Any:
        raise LookupError(HALF)

    error = pickle.loads(failure_of(tmp_path, fail, [1]).exception or b"")
    assert (type(error), error.args) == (LookupError, (HALF,))


class Shy:
    """A record whose repr raises."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __repr__(self) -> str:
        raise self._error


class Spiteful:
    """A record that raises where it is unpickled."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise state["_error"]


ENDS = (KeyError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)


@cells("kind", ENDS)
def test_a_record_whose_repr_raises_hides_no_error(kind: type[BaseException], tmp_path: Path) -> None:
    def fail(record: Any) -> Any:
        raise ValueError("mine")

    failure = failure_of(tmp_path, fail, [Shy(kind)])
    assert failure.error == "ValueError: mine"
    assert failure.record is not None
    assert failure.record.startswith("<Shy")


@cells("kind", ENDS)
def test_what_the_repr_of_a_printed_record_raises_is_an_error_of_the_operator(
    kind: type[BaseException], tmp_path: Path
) -> None:
    program = Program(tmp_path)
    program.collect(program.source([Shy(kind)]), as_text=True)
    [failure] = Job(program.graph(), tmp_path).try_epoch().failures
    assert (failure.operator, failure.error.rpartition(".")[2]) == ("out", kind.__name__)


@cells("kind", (SystemExit, KeyboardInterrupt))
def test_a_record_that_raises_where_it_arrives_is_a_failure_with_that_name(
    kind: type[BaseException], tmp_path: Path
) -> None:
    program = Program(tmp_path)
    program.collect(program.source([1]).map(lambda _: Spiteful(kind)).rebalance().map(str))
    failures = Job(program.graph(), tmp_path).try_epoch().failures
    assert {failure.error for failure in failures} == {kind.__name__}


@cells("kind", (SystemExit, KeyboardInterrupt))
def test_a_gauge_that_exits_is_an_error_of_its_operator(kind: type[BaseException], tmp_path: Path) -> None:
    def read() -> float:
        raise kind

    class Measures(MapFunction):
        def open(self, runtime_context: Any) -> None:
            runtime_context.get_metrics_group().gauge("g", read)

        def map(self, value: Any) -> Any:
            return value

    program = Program(tmp_path)
    program.collect(program.source([1]).map(Measures()).name("odd"))
    [failure] = Job(program.graph(), tmp_path).try_epoch().failures
    assert (failure.operator, failure.error) == ("odd", kind.__name__)


def test_ctrl_c_in_a_function_stops_the_process_and_is_no_failure(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)

    def interrupted(record: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return record

    program = Program(tmp_path)
    program.collect(program.source([1]).map(interrupted))
    job = Job(program.graph(), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        job.try_epoch()
    assert signal.getsignal(signal.SIGINT) is before


class Stamps(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 10**5000


class Waits(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        ctx.timer_service().register_event_time_timer((10**5000, value))  # type: ignore[arg-type]
        yield value


STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamps())
#: What is given a number of more digits than Python prints, and the error that says so.
PLACES: dict[str, tuple[Callable[[DataStream], DataStream], str]] = {
    "key": (lambda s: s.key_by(lambda n: (10**5000, object())).reduce(max), "KeyEncodingError: The key <tuple whose"),
    "type": (lambda s: s.map(lambda n: 10**5000, Types.STRING()), "DeclaredTypeError"),
    "narrow type": (lambda s: s.map(lambda n: 10**5000, Types.INT()), "DeclaredTypeError"),
    "time": (lambda s: s.assign_timestamps_and_watermarks(STAMPED), "TimestampError"),
    "timer": (lambda s: s.key_by(lambda n: 0).process(Waits()), "TimestampError"),
    "partition": (
        lambda s: s.partition_custom(lambda key, count: 10**5000, lambda n: n).map(str).set_parallelism(2),
        "PartitionError",
    ),
}


@cells("name", PLACES.keys())
def test_a_number_that_python_does_not_print_is_refused_by_its_own_error(name: str, tmp_path: Path) -> None:
    use, error = PLACES[name]
    program = Program(tmp_path)
    program.collect(use(program.source([1])))
    failure = Job(program.graph(), tmp_path).try_epoch().failures[0]
    assert failure.error.startswith(f"penstock.errors.{error}")


# ----------------------------------------------------------------------------------------------------------- metrics


class Measured(MapFunction):
    """Gives metrics numbers of all kinds."""

    def open(self, runtime_context: Any) -> None:
        group = runtime_context.get_metrics_group()
        self._counter, self._meter = group.counter("counter"), group.meter("meter")
        self._distribution, self._endless = group.distribution("distribution"), group.distribution("endless")
        group.counter(f"half {HALF}").inc()
        values = {"large": 2**70, "small": -(2**70), "yes": True, "own": Number(1.5), "whole": 2**53 + 1}
        for name, value in {**values, "nan": math.nan, "inf": math.inf, "text": "three"}.items():
            group.gauge(name, lambda value=value: value)

    def map(self, value: Any) -> Any:
        self._counter.inc(2**70)
        self._meter.mark_event(2**70)
        self._distribution.update(2**70)
        self._endless.update(10**400)
        return value


def test_metrics_beyond_64_bits_are_clamped_and_told_once(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.collect(program.source([1, 2]).map(Measured()).name("odd"))
    job = Job(program.graph(), tmp_path)
    job.run(1)
    metrics = {
        name: value
        for ack in job.acks.values()
        for part in ack.operators.values()
        for name, value in part.metrics.items()
    }
    most = 2**63 - 1
    assert metrics.pop("nan") != metrics.get("nan")
    assert metrics == {
        "counter": most,
        "meter": most,
        "meter.rate": metrics["meter.rate"],
        "half \\ud83d": 1,
        "distribution": 2,
        "distribution.sum": most,
        "distribution.min": most,
        "distribution.max": most,
        "distribution.mean": float(2**70),
        "endless": 2,
        "endless.sum": most,
        "endless.min": most,
        "endless.max": most,
        "endless.mean": math.inf,
        "large": most,
        "small": -(2**63),
        "yes": 1,
        "own": 1.5,
        "whole": 2**53 + 1,
        "inf": math.inf,
    }
    told = [line.message for line in job.log if "beyond 64 bits" in line.message]
    assert sorted(told) == sorted(
        f"The metric {name} is beyond 64 bits, and shown as {shown}."
        for name, shown in {
            **dict.fromkeys(("counter", "meter", "distribution", "endless", "large"), most),
            "small": -(2**63),
        }.items()
    )
