from __future__ import annotations

from typing import Any

import pytest

from penstock._engine.coordinator.life.restarts import RestartStrategy, restart_strategy
from penstock._engine.coordinator.settings import RestartStrategySettings
from penstock.common.configuration import Configuration

MIDDLE = 0.5  # a chance that leaves no jitter


def strategy(kind: str, **settings: Any) -> RestartStrategy:
    return restart_strategy(RestartStrategySettings(strategy=kind, **settings))


def test_without_restarts_the_first_failure_is_the_last() -> None:
    assert strategy("none").on_failure(0, MIDDLE) is None


@pytest.mark.behaviour(166)
def test_fixed_delay_counts_all_failures_of_the_job() -> None:
    fixed = strategy("fixed-delay", fixed_attempts=2, fixed_delay_ms=7)
    assert [fixed.on_failure(at, MIDDLE) for at in (0, 10**9, 2 * 10**9)] == [7, 7, None]
    assert fixed.description == "fixed delay, 2 restarts"


@pytest.mark.behaviour(166)
def test_failure_rate_forgets_failures_that_left_the_interval() -> None:
    rate = strategy("failure-rate", rate_max_failures=2, rate_interval_ms=100, rate_delay_ms=5)
    assert [rate.on_failure(at, MIDDLE) for at in (0, 60, 100, 120)] == [5, 5, 5, None]
    assert rate.description == "failure rate, 2 failures in 100 ms"


@pytest.mark.behaviour(167)
def test_exponential_delay_grows_to_its_bound() -> None:
    growing = strategy("exponential-delay", initial_backoff_ms=100, backoff_multiplier=2.0, max_backoff_ms=500)
    assert [growing.on_failure(at, MIDDLE) for at in range(5)] == [100, 200, 400, 500, 500]


@pytest.mark.behaviour(167)
def test_exponential_delay_starts_fresh_after_a_good_time() -> None:
    growing = strategy("exponential-delay", initial_backoff_ms=100, backoff_multiplier=2.0, reset_threshold_ms=1_000)
    assert growing.on_failure(0, MIDDLE) == 100
    assert growing.on_failure(1_099, MIDDLE) == 200
    assert growing.on_failure(1_099 + 1_200, MIDDLE) == 100


def test_attempts_before_a_reset_are_bounded() -> None:
    bounded = strategy("exponential-delay", attempts_before_reset=2, reset_threshold_ms=1_000, jitter_factor=0.0)
    assert bounded.on_failure(0, MIDDLE) is not None
    assert bounded.on_failure(1, MIDDLE) is not None
    assert bounded.on_failure(2, MIDDLE) is None


@pytest.mark.parametrize(("chance", "delay"), [(0.0, 80), (0.999999, 120)])
@pytest.mark.behaviour(167)
def test_jitter_adds_or_takes_a_share_of_the_backoff(chance: float, delay: int) -> None:
    assert strategy("exponential-delay", initial_backoff_ms=100, jitter_factor=0.2).on_failure(0, chance) == delay


@pytest.mark.behaviour(167)
def test_jitter_never_exceeds_the_longest_backoff() -> None:
    settings = {"initial_backoff_ms": 100, "max_backoff_ms": 100, "jitter_factor": 0.5}
    assert strategy("exponential-delay", **settings).on_failure(0, 0.999) == 100


@pytest.mark.parametrize(("checkpointing", "expected"), [(True, "exponential-delay"), (False, "none")])
@pytest.mark.behaviour(160, 167)
def test_default_strategy_depends_on_checkpointing(expected: str, *, checkpointing: bool) -> None:
    assert RestartStrategySettings.read(Configuration(), checkpointing=checkpointing).strategy == expected


def test_defaults_are_those_of_the_keys() -> None:
    assert RestartStrategySettings.read(Configuration(), checkpointing=False) == RestartStrategySettings()


def test_strategy_that_is_set_holds_without_checkpointing() -> None:
    configuration = Configuration().set_string("restart-strategy.type", "fixed-delay")
    assert RestartStrategySettings.read(configuration, checkpointing=False).strategy == "fixed-delay"
