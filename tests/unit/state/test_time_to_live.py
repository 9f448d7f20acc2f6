"""State that expires, through the functions that use it, in a store with room for almost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.operators.starved import OperatorHarness, TwoInputHarness, starved
from tests.unit.state.test_kinds import CASES, Ask

from penstock.common import Time
from penstock.datastream import (
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    MapFunction,
    ProcessWindowFunction,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import EventTimeTrigger, TumblingEventTimeWindows
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pathlib import Path

NEVER_SEEN = StateTtlConfig.new_builder(Time.milliseconds(100)).build()
RENEWED = StateTtlConfig.new_builder(Time.milliseconds(100)).update_ttl_on_read_and_write().build()
SEEN_ONCE = StateTtlConfig.new_builder(Time.milliseconds(100)).return_expired_if_not_cleaned_up().build()
OFF = StateTtlConfig.new_builder(Time.milliseconds(100)).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
EMPTY: dict[str, Any] = {"list": [], "map": {}}


def expiring(descriptor: Any, config: StateTtlConfig | None) -> Any:
    """Return a descriptor like another one, with a time to live."""
    import copy

    made = copy.copy(descriptor)
    if config is not None:
        made.enable_time_to_live(config)
    return made


class Job:
    """A function with one state of a kind."""

    def __init__(self, directory: Path, case: str, config: StateTtlConfig | None) -> None:
        self.call, self.descriptor, self.write, self.look, _ = CASES[case]
        self.directory, self.case = directory, case
        self.harness: Any = None
        self.start(config)

    def start(self, config: StateTtlConfig | None) -> None:
        """Start the job, from a snapshot of what was before."""
        before = self.harness
        made = starved(OperatorHarness, self.directory / f"{id(config)}-{before is None}")
        function = Ask(expiring(self.descriptor, config), self.call)
        self.harness = made.for_keyed_process(function, lambda pair: pair[0])
        if before is not None:
            self.harness.clock.set(before.clock.now_ms())
            self.harness.restore(before.snapshot())
            before.close()

    def put(self, number: int) -> None:
        self.harness.process_element(("k", lambda state: self.write(state, number)))

    def read(self) -> Any:
        self.harness.process_element(("k", self.look))
        return self.harness.values()[-1]

    @property
    def empty(self) -> Any:
        return EMPTY.get(self.case)


def removed(harness: OperatorHarness) -> int:
    """Return how many entries have been removed because they had expired."""
    return int(harness.metrics.snapshot()["numExpiredStateEntries"]["count"])


@pytest.fixture(params=[case for case in CASES if case != "folding"])
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.behaviour(187)
def test_state_is_not_seen_once_it_has_expired_and_is_counted(tmp_path: Path, case: str) -> None:
    job = Job(tmp_path, case, NEVER_SEEN)
    job.put(1)
    held = job.read()
    job.harness.clock.advance(99)
    assert job.read() == held != job.empty
    job.harness.clock.advance(1)
    assert job.read() == job.empty
    assert removed(job.harness) == 1
    job.harness.clock.jump(-50)
    assert job.read() == job.empty  # what has been seen to be over does not come back
    job.start(NEVER_SEEN)
    assert job.read() == job.empty


def test_reads_renew_where_that_is_asked_for(tmp_path: Path, case: str) -> None:
    job = Job(tmp_path, case, RENEWED)
    job.put(1)
    held = job.read()
    for _ in range(4):
        job.harness.clock.advance(60)
        assert job.read() == held
        job.start(RENEWED)
    job.harness.clock.advance(100)
    assert job.read() == job.empty


def test_reads_renew_a_list_that_is_stored_in_pieces(tmp_path: Path) -> None:
    job, items = Job(tmp_path, "list", RENEWED), list(range(1_000))
    job.harness.process_element(("k", lambda state: state.add_all(items)))
    for _ in range(4):
        job.harness.clock.advance(60)
        assert list(job.read()) == items
    job.harness.process_element(("k", lambda state: state.add(1_000)))
    assert list(job.read()) == [*items, 1_000]


def test_expired_state_is_seen_until_it_is_removed_where_that_is_asked_for(tmp_path: Path, case: str) -> None:
    job = Job(tmp_path, case, SEEN_ONCE)
    job.put(1)
    held = job.read()
    job.harness.clock.advance(100)
    assert [job.read(), job.read()] == [held, job.empty]
    job.put(1)
    job.harness.clock.advance(100)
    job.start(SEEN_ONCE)  # a snapshot leaves it out
    assert job.read() == job.empty


def test_what_is_added_to_state_that_has_expired_starts_fresh(tmp_path: Path, case: str) -> None:
    job, other = Job(tmp_path / "one", case, SEEN_ONCE), Job(tmp_path / "other", case, None)
    job.put(5)
    job.harness.clock.advance(100)
    job.put(3)
    other.put(3)
    found, alone = job.read(), other.read()
    assert found == (alone if case != "map" else {3: -3, 5: -5})


def test_each_entry_and_item_has_a_time_of_its_own(tmp_path: Path) -> None:
    entries, items = Job(tmp_path / "map", "map", NEVER_SEEN), Job(tmp_path / "list", "list", NEVER_SEEN)
    for number in range(300):
        for job in (entries, items):
            job.put(number)
            job.harness.clock.advance(1)
        if number % 70 == 0:
            entries.start(NEVER_SEEN)
            items.start(NEVER_SEEN)
    assert sorted(entries.read()) == items.read() == list(range(201, 300))


def test_time_to_live_is_added_changed_and_removed_between_starts(tmp_path: Path, case: str) -> None:
    job = Job(tmp_path, case, None)
    job.put(1)
    held = job.read()
    job.harness.clock.advance(1_000)
    job.start(NEVER_SEEN)  # counts from here
    job.harness.clock.advance(99)
    job.start(NEVER_SEEN)  # and not anew from each start
    assert job.read() == held
    longer = StateTtlConfig.new_builder(Time.milliseconds(500)).build()
    job.start(longer)
    job.harness.clock.advance(300)
    assert job.read() == held
    job.start(OFF)
    job.harness.clock.advance(10_000)
    assert job.read() == held
    job.start(NEVER_SEEN)  # stamps from before do not count
    assert job.read() == held
    job.harness.clock.advance(100)
    assert job.read() == job.empty


def test_entries_that_are_written_while_expired_ones_are_gone_through_stay(tmp_path: Path) -> None:
    job = Job(tmp_path, "map", SEEN_ONCE)
    for number in range(5):
        job.put(number)
    job.harness.clock.advance(100)

    def renew(state: Any) -> list[Any]:
        return [state.put((key + 1) % 5, "new") for key in state]

    job.harness.process_element(("k", renew))
    assert job.read() == dict.fromkeys(range(5), "new")


def test_list_whose_clock_goes_back_does_not_lose_older_items_to_newer_ones(tmp_path: Path) -> None:
    job = Job(tmp_path, "list", NEVER_SEEN)
    assert job.read() == []
    job.harness.clock.advance(1_000)
    for number in range(3):
        job.put(number)
        job.harness.clock.advance(5)
    job.harness.clock.jump(-80)
    job.put(3)
    job.harness.clock.advance(110)  # the last item is over, the first ones are not
    job.start(NEVER_SEEN)
    assert job.read() == [0, 1, 2]


class Pairs(KeyedCoProcessFunction, KeyedBroadcastProcessFunction):
    """Counts what both inputs bring, for a time."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(expiring(ValueStateDescriptor("count"), NEVER_SEEN))

    def counted(self) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self.counted()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self.counted()

    def process_element(self, value: Any, ctx: Any) -> Any:
        return self.counted()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        found: list[Any] = []
        descriptor = ValueStateDescriptor("count")  # as it was asked for first
        ctx.apply_to_keyed_state(descriptor, lambda key, state: found.append(state.value()))
        yield found


def test_functions_of_two_inputs_have_it(tmp_path: Path) -> None:
    made = starved(TwoInputHarness, tmp_path)
    harness = made.for_keyed_co_process(Pairs(), lambda value: "k", lambda value: "k")
    harness.process_element(1)
    harness.process_element2(1)
    harness.clock.advance(100)
    harness.process_element2(1)
    assert harness.values() == [1, 2, 1]


def test_functions_beside_a_broadcast_have_it(tmp_path: Path) -> None:
    made = starved(TwoInputHarness, tmp_path)
    harness = made.for_keyed_broadcast_process(Pairs(), lambda value: "k", MapStateDescriptor("limits"))
    harness.process_element(1)
    harness.process_element2(0)
    harness.clock.advance(100)
    harness.process_element2(0)
    harness.process_element(1)
    assert harness.values() == [1, [1], [None], 1]


class Firings(ProcessWindowFunction):
    """Counts the firings of a window and of its key, for a time."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        counts = []
        for state in (context.window_state(), context.global_state()):
            count = state.get_state(expiring(ValueStateDescriptor("fired"), NEVER_SEEN))
            count.update((count.value() or 0) + 1)
            counts.append(count.value())
        yield counts


@pytest.mark.parametrize("trigger", [None, EventTimeTrigger.create()], ids=["aligned", "of single keys"])
def test_window_functions_have_it_for_the_window_and_for_all(tmp_path: Path, trigger: Any) -> None:
    windows = TumblingEventTimeWindows.of(Time.milliseconds(10))
    harness = starved(OperatorHarness, tmp_path).for_window(
        lambda value: "k", windows, function=Firings(), allowed_lateness_ms=1_000, trigger=trigger
    )
    harness.process_element(1, 5)
    harness.process_watermark(9)
    harness.process_element(1, 6)
    harness.process_element(1, 15)
    harness.process_watermark(19)
    harness.clock.advance(100)
    harness.process_element(1, 7)
    assert harness.values() == [[1, 1], [2, 2], [1, 3], [1, 1]]


class Waits(MapFunction, CheckpointedFunction):
    """Asks for an operator list that is to expire."""

    def initialize_state(self, context: Any) -> None:
        context.get_operator_state_store().get_list_state(expiring(ListStateDescriptor("waiting"), NEVER_SEEN))

    def snapshot_state(self, context: Any) -> None: ...

    def map(self, value: Any) -> Any:
        return value


def test_operator_state_that_is_to_expire_is_refused_rather_than_kept_for_ever() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"time to live of the state 'waiting'.*take out what is old"):
        OperatorHarness.for_map(Waits()).open()


@pytest.mark.parametrize("memory", [1, 1 << 26])
def test_what_nobody_reads_leaves_memory_and_disk_while_others_are_written(tmp_path: Path, memory: int) -> None:
    """A key is written once and never again; there are as many as live, and a part more."""
    call, descriptor, write, _, _ = CASES["map"]
    harness = OperatorHarness.for_keyed_process(
        Ask(expiring(descriptor, NEVER_SEEN), call),
        lambda pair: pair[0],
        state_memory_bytes=memory,
        state_directory=tmp_path,
    )
    left, stored = [], []
    for epoch in range(30):
        harness.process_elements([(epoch * 400 + place, lambda state: write(state, 1)) for place in range(400)])
        harness.snapshot(incremental=True)
        harness.clock.advance(10)  # so ten epochs live
        left.append(400 * (epoch + 1) - removed(harness))
        stored.append(sum(file.stat().st_size for file in tmp_path.iterdir()))
    assert max(left) <= 400 * 10 * 2
    assert memory > 1 or 0 < stored[-1] <= stored[19], "what is written takes the place of what has gone"
    for _ in range(3):
        harness.clock.advance(100)
        harness.snapshot(incremental=True)
    assert removed(harness) == 400 * 30
