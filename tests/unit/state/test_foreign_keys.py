"""A key that is written on a subtask that does not own it ends the epoch: a later start would not find its state."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.state.checkpoints import ABSENT, Checkpoints, write

from penstock._engine.protocol.key_groups import key_group
from penstock._engine.protocol.keys import normal_key
from penstock.common.types import Row
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import InternalError
from penstock.testing.harness import OperatorHarness

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.state.keyed_state import KeyedState

OWN = range(64)
KINDS: list[list[Any]] = [
    list(range(20)),
    [f"k{number}" for number in range(20)],
    [("k", number) for number in range(20)],
    [Row(a=number) for number in range(20)],
    [1, "a", 2**70, None, "b", "c", "d", "e", 5, 6],
]


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> KeyedState:
    checkpoints = Checkpoints(OWN)
    store = checkpoints.memory_store() if request.param == "memory" else checkpoints.keyed_store(tmp_path / "s", 1)
    store.catch_up(())
    return store


def parted(keys: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the normal keys that belong here, and the others."""
    normals = list(map(normal_key, keys))
    own = [normal for normal in normals if key_group(normal, 128) in OWN]
    return own, [normal for normal in normals if normal not in own]


@pytest.mark.parametrize("keys", KINDS, ids=lambda keys: repr(keys[0]))
@pytest.mark.parametrize("value", [1, ABSENT])
@pytest.mark.parametrize("end", ["delta", "snapshot"])
def test_written_key_of_another_subtask_ends_the_epoch_with_an_error(
    store: KeyedState, keys: list[Any], value: Any, end: str
) -> None:
    own, foreign = parted(keys)
    pane = store.table("count").pane()
    for normal in own:
        write(pane, normal, 1)
    write(pane, foreign[0], value)
    if (value, end) == (ABSENT, "snapshot"):
        b"".join(store.snapshot(1, 1))  # what is not there is in no snapshot
        return
    with pytest.raises(InternalError, match=r"state 'count' has the key .* key selector"):
        store.delta(1, 1) if end == "delta" else list(store.snapshot(1, 1))


@pytest.mark.parametrize("keys", KINDS, ids=lambda keys: repr(keys[0]))
def test_keys_of_the_subtask_pass(store: KeyedState, keys: list[Any]) -> None:
    for normal in parted(keys)[0]:
        write(store.table("count").pane(), normal, 1)
        store.timers("event").register(5, normal)
    assert store.delta(1, 1) is not None


def test_timer_for_a_key_of_another_subtask_ends_the_epoch_with_an_error(store: KeyedState) -> None:
    store.timers("event").register(5, parted(KINDS[0])[1][0])
    with pytest.raises(InternalError, match="state 'event'"):
        store.delta(1, 1)


def test_window_of_a_key_of_another_subtask_that_comes_and_goes_within_an_epoch_is_seen(tmp_path: Path) -> None:
    harness = OperatorHarness.for_window(
        lambda pair: pair[0], TumblingEventTimeWindows(10, 0), reduce=max, parallelism=2
    )
    harness._check_key = lambda key: None  # type: ignore[method-assign]
    harness.process_elements([(number, 1) for number in range(20)], timestamp=1)
    with pytest.raises(InternalError, match="window-contents"):
        harness.process_watermark(9)


def test_error_survives_a_pickle() -> None:
    error = InternalError("state 'a' has the key 1")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
