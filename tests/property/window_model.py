"""Windows as Flink's rules have them, in plain dicts, record by record: what the engine is compared with."""

from __future__ import annotations

from typing import Any

from penstock.datastream.state import ReducingStateDescriptor
from penstock.datastream.window import MergingWindowAssigner, TimestampedValue, Trigger, WindowAssigner

FIRST, LAST = -(1 << 63), (1 << 63) - 1


class Cell:
    """A state of one key, and perhaps of one window."""

    def __init__(self, cells: dict[Any, Any], place: Any, add: Any = None) -> None:
        self._cells, self._place, self._add = cells, place, add

    def get(self) -> Any:
        return self._cells.get(self._place)

    value = get

    def add(self, value: Any) -> None:
        held = self._cells.get(self._place)
        self._cells[self._place] = value if held is None else self._add(held, value)

    def update(self, value: Any) -> None:
        self._cells[self._place] = value

    def clear(self) -> None:
        self._cells.pop(self._place, None)


class Context(Trigger.OnMergeContext, WindowAssigner.WindowAssignerContext):
    """What triggers, evictors and assigners see of the model, for one key and window."""

    def __init__(self, model: WindowModel, key: Any, window: Any = None, parts: Any = ()) -> None:
        self._model, self._key, self._window, self._parts = model, key, window, parts

    def get_current_processing_time(self) -> int:
        return self._model.clock

    def get_current_watermark(self) -> int:
        return self._model.watermark

    def get_metric_group(self) -> Any:
        raise NotImplementedError

    def get_runtime_context(self) -> Any:
        return self

    def get_state(self, descriptor: Any) -> Any:
        return Cell(self._model.states, (self._key, descriptor.get_name()))

    def get_partitioned_state(self, state_descriptor: Any) -> Any:
        assert isinstance(state_descriptor, ReducingStateDescriptor)
        place = self._key, self._window, state_descriptor.get_name()
        return Cell(self._model.states, place, state_descriptor.get_reduce_function().reduce)

    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        here = self.get_partitioned_state(state_descriptor)
        for part in self._parts:
            there = Context(self._model, self._key, part).get_partitioned_state(state_descriptor)
            if there.get() is not None:
                here.add(there.get())
            there.clear()

    def register_processing_time_timer(self, time: int) -> None:
        self._model.timers.add((False, time, self._key, self._window))

    def register_event_time_timer(self, time: int) -> None:
        self._model.timers.add((True, time, self._key, self._window))

    def delete_processing_time_timer(self, time: int) -> None:
        self._model.timers.discard((False, time, self._key, self._window))

    def delete_event_time_timer(self, time: int) -> None:
        self._model.timers.discard((True, time, self._key, self._window))


def _order(timer: tuple[bool, int, Any, Any]) -> tuple[int, str]:
    return timer[1], str(timer[2:])


class WindowModel:
    """All keys of one window operator."""

    def __init__(self, assigner: Any, trigger: Any, lateness: int, evictor: Any = None) -> None:
        self.assigner, self.trigger, self.lateness, self.evictor = assigner, trigger, lateness, evictor
        self.merges = isinstance(assigner, MergingWindowAssigner)
        self.watermark, self.clock = FIRST, 0
        self.contents: dict[Any, list[tuple[str, int]]] = {}
        self.windows: dict[Any, set[Any]] = {}
        self.states: dict[Any, Any] = {}
        self.timers: set[tuple[bool, int, Any, Any]] = set()
        #: How often windows have fired that are not over yet.
        self.firings: dict[Any, int] = {}
        #: (key, window, the records' values in one text, how often the window has fired) and the late values.
        self.fired: list[tuple[Any, Any, str, int]] = []
        self.late: list[str] = []

    def record(self, key: Any, value: str, stamp: int) -> None:
        taken = False
        windows = list(self.assigner.assign_windows((key, value), stamp, Context(self, key)))
        for assigned in windows:
            window = self._merged(key, assigned) if self.merges else assigned
            if self.assigner.is_event_time() and self._end(window) <= self.watermark:
                self.windows.get(key, set()).discard(window)
                continue
            taken = True
            self.contents.setdefault((key, window), []).append((value, stamp))
            context = Context(self, key, window)
            self._follow(self.trigger.on_element((key, value), stamp, window, context), key, window)
            if self._end(window) < LAST:
                self.timers.add((self.assigner.is_event_time(), self._end(window), key, window))
        is_late = self.assigner.is_event_time() and stamp + self.lateness <= self.watermark
        if not taken and (windows or is_late):
            self.late.append(value)

    def advance(self, watermark: int) -> None:
        if watermark > self.watermark:
            self.watermark = watermark
            self._fire(watermark, is_event=True)

    def tick(self, clock: int) -> None:
        self.clock = clock
        self._fire(clock, is_event=False)

    def _fire(self, limit: int, *, is_event: bool) -> None:
        while due := [timer for timer in self.timers if timer[0] is is_event and timer[1] <= limit]:
            self._fire_one(min(due, key=_order))

    def fire_left(self) -> None:
        """Fire the timers of the clock that are left at the end of a batch, without those that are set meanwhile."""
        for timer in sorted((timer for timer in self.timers if not timer[0]), key=_order):
            if timer in self.timers:
                self._fire_one(timer)

    def _fire_one(self, timer: tuple[bool, int, Any, Any]) -> None:
        self.timers.discard(timer)
        is_event, time, key, window = timer
        if self.merges and window not in self.windows.get(key, ()):
            return
        call = self.trigger.on_event_time if is_event else self.trigger.on_processing_time
        self._follow(call(time, window, Context(self, key, window)), key, window)
        if is_event is self.assigner.is_event_time() and time == self._end(window):
            self.contents.pop((key, window), None)
            self.firings.pop((key, window), None)
            self.trigger.clear(window, Context(self, key, window))
            self.windows.get(key, set()).discard(window)

    def _follow(self, result: Any, key: Any, window: Any) -> None:
        held = self.contents.get((key, window))
        if result.is_fire() and held:
            self.contents[key, window] = held = self._evicted("evict_before", held, window, key)
            self.firings[key, window] = self.firings.get((key, window), 0) + 1
            self.fired.append((key, window, "".join(value for value, _ in held), self.firings[key, window]))
            self.contents[key, window] = self._evicted("evict_after", held, window, key)
        if result.is_purge():
            self.contents.pop((key, window), None)

    def _evicted(self, method: str, held: list[Any], window: Any, key: Any) -> list[Any]:
        if self.evictor is None:
            return held
        elements = [TimestampedValue((key, value), stamp) for value, stamp in held]
        left = getattr(self.evictor, method)(elements, len(elements), window, None)
        return [(one.value[1], one.timestamp) for one in left]

    def _end(self, window: Any) -> int:
        late = self.lateness if self.assigner.is_event_time() else 0
        return min(window.max_timestamp() + late, LAST)

    def _merged(self, key: Any, window: Any) -> Any:
        there = self.windows.setdefault(key, set())
        parts, whole = set[Any](), window
        while more := {one for one in there - parts if one.intersects(whole)}:
            parts |= more
            for one in more:
                whole = whole.cover(one)
        if parts - {whole}:
            self.trigger.on_merge(whole, Context(self, key, whole, parts - {whole}))
            for part in parts - {whole}:
                self.trigger.clear(part, Context(self, key, part))
                self.timers.discard((self.assigner.is_event_time(), self._end(part), key, part))
                self.contents.setdefault((key, whole), []).extend(self.contents.pop((key, part), []))
        there -= parts
        there.add(whole)
        return whole
