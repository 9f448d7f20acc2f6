"""The page about PyFlink says what is there today."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.docs.compatibility import DOCUMENT, REFUSED, WITHOUT_EFFECT, document

from penstock.common import Configuration, Time
from penstock.datastream import (
    HashMapStateBackend,
    SlotSharingGroup,
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
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run python -m tests.docs.compatibility"


def expiring() -> MapStateDescriptor:
    descriptor = MapStateDescriptor("limits")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    return descriptor


ENV = StreamExecutionEnvironment.get_execution_environment
TRIED: dict[str, list[Callable[[], object]]] = {
    "StateTtlConfig": [lambda: ENV().from_collection([1]).broadcast(expiring())],
    "add_source": [
        lambda: ENV().add_source(None),
        lambda: ENV().create_input(None),
        lambda: ENV().from_collection([1]).add_sink(None),
    ],
}


@pytest.mark.parametrize(("what", "number"), [(what, n) for what, calls in TRIED.items() for n in range(len(calls))])
def test_what_the_page_calls_refused_is(what: str, number: int) -> None:
    with pytest.raises(UnsupportedOperationError):
        TRIED[what][number]()


def test_all_that_the_page_calls_refused_is_tried() -> None:
    assert [sum(name in what for name in TRIED) for what in REFUSED] == [1] * len(REFUSED)


ACCEPTED: dict[str, list[Callable[[], object]]] = {
    "add_jars": [lambda: ENV().add_jars("file:///a.jar"), lambda: ENV().add_classpaths("file:///a")],
    "set_buffer_timeout": [
        lambda: ENV().set_buffer_timeout(7),
        lambda: ENV().from_collection([1]).set_buffer_timeout(7),
    ],
    "set_state_backend": [
        lambda: ENV().set_state_backend(HashMapStateBackend()),
        lambda: ENV(Configuration().set_string("state.backend.type", "rocksdb")),
    ],
    "slot_sharing_group": [
        lambda: ENV().from_collection([1]).slot_sharing_group("all"),
        lambda: ENV().register_slot_sharing_group(
            SlotSharingGroup.builder("all").set_cpu_cores(2.0).set_task_heap_memory_mb(9).build()
        ),
    ],
}


@pytest.mark.parametrize(("what", "number"), [(what, n) for what, calls in ACCEPTED.items() for n in range(len(calls))])
def test_what_the_page_calls_without_effect_is_accepted_and_said_once(
    what: str, number: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.common.config_check._said", set())
    reason = next(why for row, why in WITHOUT_EFFECT.items() if what in row)
    for _ in range(2):
        ACCEPTED[what][number]()
    assert [record.getMessage().partition(" has no effect: ")[2] for record in caplog.records] == [f"{reason}."]


def test_all_that_the_page_calls_without_effect_is_tried() -> None:
    assert [sum(name in what for name in ACCEPTED) for what in WITHOUT_EFFECT] == [1] * len(WITHOUT_EFFECT)
