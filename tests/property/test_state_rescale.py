from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.asking import Subtasks
from tests.property.state_model import BEFORE, STATES, Model, steps, values
from tests.unit.state.checkpoints import as_if_large

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import OperatorSnapshot

#: Many keys, so that some are at the edges of what a subtask has; and timers that come and go.
crowds = st.lists(
    st.one_of(
        st.tuples(st.just("write"), values, st.integers(-50, 50), st.one_of(st.integers(0, 9), st.none())),
        st.tuples(st.just("count"), values, st.lists(st.integers(-200, 200), max_size=40)),
        st.tuples(st.just("flip"), st.integers(0, 3), st.integers(0, 3)),
    ),
    max_size=12,
)
#: What each epoch does, and whether its checkpoint has all state or what has changed.
epochs = st.lists(st.tuples(steps, crowds, st.booleans()), min_size=1, max_size=4)
parallelisms = st.sampled_from([1, 2, 3, 7])


@pytest.fixture(autouse=True, scope="module")
def _unloads() -> Iterator[None]:
    with as_if_large():
        yield


@settings(max_examples=settings().max_examples // 2)
@given(
    jobs=st.lists(st.tuples(parallelisms, epochs, st.sampled_from([1, 3_000, 1 << 26])), min_size=2, max_size=3),
)
def test_rescaled_state_is_the_same_state(tmp_path_factory: pytest.TempPathFactory, jobs: list[Any]) -> None:
    model = Model()
    snapshots: list[OperatorSnapshot] = []
    for parallelism, todo, memory_bytes in jobs:
        subtasks = Subtasks(STATES, parallelism, tmp_path_factory.mktemp("run"), memory_bytes, BEFORE)
        for some, crowd, cut in todo:
            subtasks.begin(snapshots)
            model.check(subtasks)
            for step in [*some, *crowd]:
                model.run(subtasks, step)
            snapshots = subtasks.end(incremental=not cut)
    final = Subtasks(STATES, 5, now_ms=BEFORE)
    final.begin(snapshots)
    model.check(final)
    model.check_timers(final)
