from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._engine.state.timers import Timers

times, keys = st.integers(-5, 20), st.sampled_from(["a", "b", 1, b"t"])
namespaces = st.sampled_from([(), (0, 10)])
changes = st.lists(st.tuples(st.booleans(), times, keys, namespaces), max_size=6)
rounds = st.lists(st.tuples(changes, times, st.lists(changes, max_size=8)), max_size=6)


@given(rounds)
@pytest.mark.behaviour(181, 182)
def test_timers_behave_like_a_sorted_set(todo: list[Any]) -> None:
    timers = Timers("event")
    model: set[tuple[int, Any, Any]] = set()

    def change(what: list[Any]) -> None:
        for is_set, time, key, namespace in what:
            (timers.register if is_set else timers.delete)(time, key, namespace)
            (model.add if is_set else model.discard)((time, key, namespace))

    for first, limit, callbacks in todo:
        change(first)
        answers = iter(callbacks)
        for time, key, namespace, _ in timers.pop_due(limit):
            assert time <= limit
            assert (time, key, namespace) in model
            assert time == min(due for due, _, _ in model)
            model.discard((time, key, namespace))
            change(next(answers, []))
        assert not [timer for timer in model if timer[0] <= limit]
        assert len(timers) == len(model)
        assert timers.next() == min((time for time, _, _ in model), default=None)
    journal = {(time, key, namespace): is_set for (key, namespace, time), is_set in timers.journal.items()}
    assert {timer for timer, is_set in journal.items() if is_set} == model
    assert all(journal.values())
