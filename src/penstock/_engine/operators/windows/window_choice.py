"""Chooses the window operator of a node: aligned windows have operators of their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock._api.windows.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
)
from penstock._api.windows.time_windows import (
    AlignedWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock._api.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger
from penstock._api.windows.window import MergingWindowAssigner
from penstock._engine.operators.windows.clock_windows import ClockWindowOperator
from penstock._engine.operators.windows.keyed_windows import KeyedWindowOperator
from penstock._engine.operators.windows.session_windows import SessionWindowOperator
from penstock._engine.operators.windows.sliding_windows import SlidingWindowOperator
from penstock._engine.operators.windows.window import WindowOperator
from penstock._engine.operators.windows.window_contents import EvictedContents, WindowContents
from penstock._engine.operators.windows.window_function import KeyedWindowContext, MergingWindowContext, window_results
from penstock._engine.operators.windows.window_namespaces import WindowNamespaces
from penstock._engine.operators.windows.window_strategy import PaneStrategy

if TYPE_CHECKING:
    from penstock._api.windows.window import WindowAssigner
    from penstock._engine.operators.windows.windowed import WindowedOperator

#: The operators of windows that fire at their end, by the class of the assigner; all others use `KeyedWindowOperator`.
_ALIGNED: Final[dict[type[Any], type[WindowOperator]]] = {
    TumblingEventTimeWindows: WindowOperator,
    SlidingEventTimeWindows: SlidingWindowOperator,
}

#: The operators of windows of single keys that are filled by blocks where they fire at their end, by the assigner.
_BY_BLOCKS: Final[dict[type[Any], type[KeyedWindowOperator]]] = {
    EventTimeSessionWindows: SessionWindowOperator,
    ProcessingTimeSessionWindows: SessionWindowOperator,
    DynamicEventTimeSessionWindows: SessionWindowOperator,
    DynamicProcessingTimeSessionWindows: SessionWindowOperator,
    TumblingProcessingTimeWindows: ClockWindowOperator,
    SlidingProcessingTimeWindows: ClockWindowOperator,
}


def _of_keys(assigner: WindowAssigner[Any, Any], trigger: Any, evictor: Any) -> type[KeyedWindowOperator]:
    """Return the operator of windows of single keys."""
    at_its_end = EventTimeTrigger if assigner.is_event_time() else ProcessingTimeTrigger
    if type(trigger) is at_its_end and evictor is None:
        return _BY_BLOCKS.get(type(assigner), KeyedWindowOperator)
    return KeyedWindowOperator


def window_operator(
    key_selector: Any,
    assigner: WindowAssigner[Any, Any],
    *,
    allowed_lateness_ms: int,
    late_tag: str | None,
    strategy: str,
    function: Any,
    window_function: Any,
    trigger: Any = None,
    evictor: Any = None,
) -> WindowedOperator:
    """Return the window operator for a node's payload."""
    panes = PaneStrategy.named(strategy, function)
    trigger = trigger or assigner.get_default_trigger(None)
    fires_at_its_end = type(trigger) is EventTimeTrigger and evictor is None
    aligned = _ALIGNED.get(type(assigner)) if fires_at_its_end else None
    if aligned is None or not isinstance(assigner, AlignedWindows):
        namespaces = WindowNamespaces(assigner.get_window_serializer())
        merges = isinstance(assigner, MergingWindowAssigner)
        context = MergingWindowContext if merges else partial(KeyedWindowContext, namespaces=namespaces)
        return _of_keys(assigner, trigger, evictor)(
            key_selector,
            assigner,
            trigger,
            allowed_lateness_ms=allowed_lateness_ms,
            late_tag=late_tag,
            contents=WindowContents(panes) if evictor is None else EvictedContents(panes, evictor),
            results=window_results(strategy, function, window_function, context),
            namespaces=namespaces,
        )
    results = window_results(strategy, function, window_function)
    return aligned(
        key_selector,
        assigner,
        allowed_lateness_ms=allowed_lateness_ms,
        late_tag=late_tag,
        strategy=panes,
        results=results,
    )
