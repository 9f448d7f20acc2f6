from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
from tests.unit.coordinator.acks import ack

from penstock._engine.coordinator.epochs.budget import FIRST_MS, FIRST_RECORDS, BudgetPlanner, EpochCost, epoch_cost
from penstock._engine.protocol.control import IOMetrics

if TYPE_CHECKING:
    from collections.abc import Callable


def simulate(
    planner: BudgetPlanner,
    *,
    epochs: int,
    source_per_s: float,
    sink_per_s: float,
    fixed_ms: int = 300,
    opening_ms: Callable[[], float] = float,
) -> list[float]:
    """Run epochs of a source that always has more, and a slower or faster level behind it; returns their lengths."""
    lengths: list[float] = []
    for _ in range(epochs):
        budget, opening = planner.budget(0), opening_ms()
        records = max(1, min(budget.records, int(source_per_s * max(0.0, budget.time_ms - opening) / 1000)))
        reading, writing = opening + records / source_per_s * 1000, records / sink_per_s * 1000
        wall = round(fixed_ms + reading + writing)
        acks = [
            ack(0, 0, io=IOMetrics(records_in=records, bytes_out=records, busy_ms=round(reading))),
            ack(1, 0, io=IOMetrics(records_in=records, busy_ms=round(writing))),
        ]
        planner.accepted(acks, epoch_cost(acks, wall, {0: 0, 1: 1}, 2))
        lengths.append(wall)
    return lengths


def test_first_epoch_is_small() -> None:
    budget = BudgetPlanner(None, [0]).budget(0)
    assert (budget.records, budget.time_ms) == (FIRST_RECORDS, FIRST_MS)


def test_fast_source_before_a_slow_level_never_makes_an_endless_epoch() -> None:
    planner = BudgetPlanner(None, [0])
    lengths = simulate(planner, epochs=20, source_per_s=5_000_000, sink_per_s=100)
    assert lengths[0] < 11_000  # 1,000 records at 10 ms each
    assert max(lengths[1:]) < 6_500


def test_without_an_interval_the_fixed_cost_falls_to_a_tenth() -> None:
    planner = BudgetPlanner(None, [0])
    lengths = simulate(planner, epochs=20, source_per_s=1_000_000, sink_per_s=2_000_000, fixed_ms=300)
    assert 0.05 < 300 / lengths[-1] < 0.13


def test_without_an_interval_an_epoch_stays_below_five_seconds_or_so() -> None:
    planner = BudgetPlanner(None, [0])
    lengths = simulate(planner, epochs=30, source_per_s=1_000_000, sink_per_s=2_000_000, fixed_ms=3_000)
    assert max(lengths) < 3_000 + 5_000 * 1.4


@pytest.mark.parametrize("interval_ms", [1_000, 10_000])
def test_epoch_comes_to_the_length_of_the_interval(interval_ms: int) -> None:
    planner = BudgetPlanner(interval_ms, [0])
    lengths = simulate(planner, epochs=30, source_per_s=200_000, sink_per_s=100_000, fixed_ms=300)
    assert interval_ms * 0.75 < lengths[-1] < interval_ms * 1.3


def test_epoch_time_at_most_doubles() -> None:
    planner = BudgetPlanner(60_000, [0])
    lengths = simulate(planner, epochs=12, source_per_s=1_000_000, sink_per_s=1_000_000, fixed_ms=0)
    assert all(after <= 2.6 * before for before, after in itertools.pairwise(lengths[1:]))


def test_expired_epoch_halves_the_budget() -> None:
    planner = BudgetPlanner(None, [0])
    simulate(planner, epochs=10, source_per_s=1_000_000, sink_per_s=1_000_000)
    before = planner.budget(0)
    planner.expired()
    after = planner.budget(0)
    assert (after.records, after.bytes, after.time_ms) == (
        before.records // 2,
        before.bytes // 2,
        before.time_ms // 2,
    )


def test_budget_never_falls_below_one_record() -> None:
    planner = BudgetPlanner(None, [0])
    for _ in range(40):
        planner.expired()
    budget = planner.budget(0)
    assert min(budget.records, budget.bytes, budget.time_ms) >= 1


def test_pipelined_source_whose_epoch_expired_reads_fewer_records_until_epochs_are_short_again() -> None:
    planner = BudgetPlanner(2_000, [0], pipelined=True)

    def limit_behind(records: int, wall_ms: int) -> int:
        planner.accepted([ack(0, 0, io=IOMetrics(records_in=records))], EpochCost(wall_ms, (1.0,)))
        return planner.budget(0).records

    assert [limit_behind(1_000_000, 2_100) for _ in range(2)] == [0, 0]
    planner.expired()
    assert planner.budget(0).records == FIRST_RECORDS
    planner.expired()
    assert planner.budget(0).records == FIRST_RECORDS // 2
    assert limit_behind(FIRST_RECORDS // 2, 60_000) == FIRST_RECORDS // 2
    assert limit_behind(FIRST_RECORDS // 2, 500) == FIRST_RECORDS
    assert limit_behind(FIRST_RECORDS - 1, 2_100) == 0


def lasts(planner: BudgetPlanner, *walls_ms: int, work_ms: int = 0) -> int:
    """Run epochs of some lengths, and return how long the next one lasts at least that a reader wants to end."""
    for wall_ms in walls_ms:
        planner.accepted([], EpochCost(wall_ms, (float(work_ms),)))
    return planner.least_ms


@pytest.mark.parametrize("pipelined", [False, True], ids=["blocking", "pipelined"])
def test_epoch_that_readers_end_lasts_a_second_or_ten_times_its_cost_but_the_first_of_a_start_has_none(
    *, pipelined: bool
) -> None:
    planner = BudgetPlanner(2_000, [0], pipelined=pipelined)
    for _ in range(2):
        assert planner.least_ms == 0  # readers have no splits yet
        assert lasts(planner, 7_000, work_ms=2_000) == 1_000  # Python workers have started in it
        assert lasts(planner, 2_300, work_ms=2_000) == 3_000
        planner.restarted()
    assert lasts(planner, 7_000, 2_050, work_ms=2_000) == 1_050


def test_pipelined_epochs_that_readers_end_do_not_keep_the_cost_of_a_slow_one() -> None:
    planner = BudgetPlanner(60_000, [0], pipelined=True)
    assert lasts(planner, 65_000, 60_200, 1_000) == 2_000
    assert lasts(planner, 64_000) == 2_000


@pytest.mark.parametrize("share", [0.5, 1])
def test_readers_that_take_long_to_open_do_not_lower_the_budget_again_and_again(share: float) -> None:
    planner, dice = BudgetPlanner(200, [0]), random.Random(3)

    def opening() -> float:
        return 800 + 50 * dice.random() if dice.random() < share else 1

    simulate(planner, epochs=60, source_per_s=200_000, sink_per_s=100_000, fixed_ms=10, opening_ms=opening)
    assert planner.budget(0).records > 2_000


def test_slow_records_are_told_from_slow_opening() -> None:
    planner = BudgetPlanner(1_000, [0])
    lengths = simulate(planner, epochs=30, source_per_s=100, sink_per_s=100, fixed_ms=10, opening_ms=lambda: 100)
    assert 700 < lengths[-1] < 1_600


def test_epoch_that_read_little_takes_nothing_away() -> None:
    planner = BudgetPlanner(1_000, [0])
    simulate(planner, epochs=10, source_per_s=1_000_000, sink_per_s=1_000_000)
    before = planner.budget(0).records
    trickle = [ack(0, 0, io=IOMetrics(records_in=3, busy_ms=2)), ack(1, 0, io=IOMetrics(records_in=3, busy_ms=1))]
    planner.accepted(trickle, EpochCost(300, (2.0, 1.0)))
    assert planner.budget(0).records >= before


@pytest.mark.parametrize("interval_ms", [50, 300, None])
def test_epochs_of_a_source_that_waits_for_each_record_do_not_grow(interval_ms: int | None) -> None:
    planner, fixed_ms, lengths = BudgetPlanner(interval_ms, [0]), 170, list[float]()
    for _ in range(60):
        reading_ms = planner.budget(0).time_ms  # a record each millisecond, so it reads for all of its time
        figures = IOMetrics(records_in=reading_ms, busy_ms=reading_ms // 50, waited_ms=reading_ms - reading_ms // 50)
        acks = [ack(0, 0, io=figures), ack(1, 0, io=IOMetrics(records_in=reading_ms, busy_ms=reading_ms // 50))]
        lengths.append(fixed_ms + reading_ms + reading_ms // 50)
        planner.accepted(acks, epoch_cost(acks, round(lengths[-1]), {0: 0, 1: 1}, 2))
    assert lengths[-1] <= (3 * fixed_ms if interval_ms is not None else 10 * fixed_ms)


@pytest.mark.parametrize("seed", range(5))
def test_epochs_of_a_source_that_is_always_busy_with_what_comes_do_not_grow(seed: int) -> None:
    """Ten records come each millisecond, also while Python workers start; it takes them as soon as they are there."""
    planner, dice = BudgetPlanner(1_000, [0]), random.Random(seed)
    lengths, passed, taken = list[float](), 4_000.0, 0
    for _ in range(200):
        budget, fixed = planner.budget(0), dice.randint(130, 230)
        records = min(budget.records, int(10 * (passed + budget.time_ms)) - taken)
        reading = budget.time_ms if records < budget.records else records / 1_000
        acks = [
            ack(0, 0, io=IOMetrics(records_in=records, bytes_out=records, busy_ms=round(reading))),
            ack(1, 0, io=IOMetrics(records_in=records, busy_ms=30)),
        ]
        lengths.append(reading + 30 + fixed)
        planner.accepted(acks, epoch_cost(acks, round(lengths[-1]), {0: 0, 1: 1}, 2))
        taken, passed = taken + records, passed + lengths[-1]
    assert max(lengths) < 2_500  # once, behind what had waited at the start
    assert max(lengths[20:]) < 1_300
    assert min(lengths[20:]) > 700


def test_waiting_beside_a_subtask_that_works_made_the_epoch_no_longer() -> None:
    acks = [ack(0, 0, io=IOMetrics(busy_ms=500)), ack(0, 1, io=IOMetrics(busy_ms=10, waited_ms=490))]
    assert epoch_cost(acks, 670, {0: 0}, 2).fixed_ms == 170
    assert epoch_cost(acks, 1_170, {0: 0}, 1).fixed_ms == 170


def test_idle_job_looks_less_and_less_often() -> None:
    planner = BudgetPlanner(None, [0])
    assert [planner.idle() for _ in range(5)] == [200, 400, 800, 1_000, 1_000]


def test_idle_job_looks_at_least_once_an_interval() -> None:
    planner = BudgetPlanner(300, [0])
    assert [planner.idle() for _ in range(3)] == [200, 300, 300]


def test_cost_of_levels_is_shared_by_the_slots() -> None:
    acks = [ack(0, index, io=IOMetrics(busy_ms=100)) for index in range(4)] + [ack(1, 0, io=IOMetrics(busy_ms=50))]
    cost = epoch_cost(acks, 600, {0: 0, 1: 1}, 2)
    assert cost.levels_ms == (200, 50)
    assert cost.fixed_ms == 350
