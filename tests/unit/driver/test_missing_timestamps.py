"""Records without a timestamp where event time is needed, in both modes: an error that names operator and uid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kit.cells import cells
from tests.unit.driver.test_raising_functions import (
    BY_KEY,
    FIRST,
    MODES,
    RULES,
    SESSIONS,
    SLIDING,
    TUMBLING,
    Combinable,
    OwnTrigger,
    OwnWindows,
    Total,
    failure,
    nothing,
    raising,
    stamped,
)

from penstock.common import Time
from penstock.datastream import functions as f
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EndOfStreamWindows,
    GlobalWindows,
    TriggerResult,
)
from penstock.errors import MissingTimestampError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def late(self: Any, value: Any, ctx: Any) -> None:
    ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)


def removed(self: Any, value: Any, ctx: Any) -> None:
    ctx.timer_service().delete_event_time_timer(ctx.timestamp() + 60_000)


class Behind(OwnTrigger):
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        ctx.register_event_time_timer(timestamp + 60_000)
        return TriggerResult.CONTINUE


def timeless(use: Any, windows: Any) -> Any:
    return lambda stream: use(stream.key_by(BY_KEY).window(windows))


def mixed(stream: Any) -> Any:
    return stream.filter(lambda record: record[0] == "b").union(stamped(stream.filter(lambda record: record[0] == "a")))


WITHOUT_TIME: dict[str, Callable[[Any], Any]] = {
    "reduce": timeless(lambda window: window.reduce(FIRST), TUMBLING),
    "aggregate": timeless(lambda window: window.aggregate(Total()), TUMBLING),
    "combined": timeless(lambda window: window.aggregate(Combinable()), TUMBLING),
    "combined, some have one": lambda stream: timeless(lambda window: window.aggregate(Combinable()), TUMBLING)(
        mixed(stream)
    ),
    "combined slices": timeless(lambda window: window.aggregate(Combinable()), SLIDING),
    "reduce, some have one": lambda stream: timeless(lambda window: window.reduce(FIRST), SLIDING)(mixed(stream)),
    "sessions": timeless(lambda window: window.aggregate(Combinable()), SESSIONS),
    "a trigger": timeless(lambda window: window.trigger(CountTrigger(2)).reduce(FIRST), SLIDING),
    "an evictor": timeless(lambda window: window.evictor(CountEvictor.of(1)).reduce(FIRST), TUMBLING),
    "without keys": lambda stream: stream.window_all(TUMBLING).reduce(FIRST),
    "windows of the program": timeless(lambda window: window.reduce(FIRST), OwnWindows()),
    "continuous trigger": timeless(
        lambda window: window.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(5))).reduce(FIRST),
        GlobalWindows.create(),
    ),
    "trigger's timer": timeless(lambda window: window.trigger(Behind()).reduce(FIRST), EndOfStreamWindows.get()),
    "interval join": lambda stream: (
        stream.key_by(BY_KEY)
        .interval_join(stream.key_by(BY_KEY))
        .between(Time.milliseconds(0), Time.milliseconds(5))
        .process(raising(f.ProcessJoinFunction, "process_element"))
    ),
    "window join": lambda stream: (
        stream.join(stream).where(BY_KEY).equal_to(BY_KEY).window(TUMBLING).apply(lambda one, other: one)
    ),
    "timer": lambda stream: stream.key_by(BY_KEY).process(
        raising(f.KeyedProcessFunction, "on_timer", process_element=late)
    ),
    "deleted timer": lambda stream: stream.key_by(BY_KEY).process(
        raising(f.KeyedProcessFunction, "on_timer", process_element=removed)
    ),
    "timer of two": lambda stream: (
        stream.key_by(BY_KEY)
        .connect(stream.key_by(BY_KEY))
        .process(raising(f.KeyedCoProcessFunction, "on_timer", process_element1=late, process_element2=nothing))
    ),
    "timer beside a broadcast": lambda stream: (
        stream.key_by(BY_KEY)
        .connect(stream.broadcast(RULES))
        .process(
            raising(
                f.KeyedBroadcastProcessFunction, "on_timer", process_element=late, process_broadcast_element=nothing
            )
        )
    ),
}


@cells("use, mode", {f"{use} in {mode}": (use, mode) for use in WITHOUT_TIME for mode in MODES})
def test_a_record_without_a_timestamp_where_event_time_is_needed(
    use: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = failure(WITHOUT_TIME[use], mode, tmp_path, monkeypatch)
    assert isinstance(error.__cause__, MissingTimestampError), error
    place = error.place
    assert place is not None
    assert (place.operator_name, place.operator_uid) == ("raising", "own uid")
    assert place.record is not None
    assert f"the record {place.record} has no timestamp" in str(error)
