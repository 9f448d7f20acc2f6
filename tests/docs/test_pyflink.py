"""The page about PyFlink says what is there today."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.docs.pyflink import DOCUMENT, REFUSED, document

from penstock.common import Configuration, Time
from penstock.datastream import (
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import (
    MapStateDescriptor,
    StateTtlConfig,
)
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable


def test_page_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run python -m tests.docs.pyflink"


def expiring() -> MapStateDescriptor:
    descriptor = MapStateDescriptor("limits")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    return descriptor


def batch() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([1]).print()
    env.execute()


ENV = StreamExecutionEnvironment.get_execution_environment
TRIED: dict[str, list[Callable[[], object]]] = {
    "StateTtlConfig": [lambda: ENV().from_collection([1]).broadcast(expiring())],
    "BATCH": [batch],
    "add_source": [
        lambda: ENV().add_source(None),
        lambda: ENV().create_input(None),
        lambda: ENV().from_collection([1]).add_sink(None),
    ],
    "add_jars": [lambda: ENV().add_jars("file:///a.jar"), lambda: ENV().add_classpaths("file:///a")],
}


@pytest.mark.parametrize(("what", "number"), [(what, n) for what, calls in TRIED.items() for n in range(len(calls))])
def test_what_the_page_calls_refused_is(what: str, number: int) -> None:
    with pytest.raises(UnsupportedOperationError):
        TRIED[what][number]()


def test_all_that_the_page_calls_refused_is_tried() -> None:
    assert [sum(name in what for name in TRIED) for what in REFUSED] == [1] * len(REFUSED)
