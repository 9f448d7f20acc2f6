from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.common.configuration import Configuration
from penstock.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration


@pytest.mark.parametrize(
    ("strategy", "keys"),
    [
        (RestartStrategies.no_restart(), {"restart-strategy.type": "none"}),
        (RestartStrategies.fall_back_restart(), {}),
        (
            RestartStrategies.fixed_delay_restart(3, 10_000),
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "3",
                "restart-strategy.fixed-delay.delay": "10 s",
            },
        ),
        (
            RestartStrategies.failure_rate_restart(2, timedelta(minutes=5), 500),
            {
                "restart-strategy.type": "failure-rate",
                "restart-strategy.failure-rate.max-failures-per-interval": "2",
                "restart-strategy.failure-rate.failure-rate-interval": "5 min",
                "restart-strategy.failure-rate.delay": "500 ms",
            },
        ),
    ],
)
def test_strategies_know_their_keys(strategy: RestartStrategyConfiguration, keys: dict[str, str]) -> None:
    assert strategy.to_configuration() == Configuration.from_dict(keys)
    assert strategy.get_description()


def test_strategies_give_back_what_they_were_made_of() -> None:
    fixed = RestartStrategies.fixed_delay_restart(3, timedelta(seconds=1))
    assert (fixed.get_restart_attempts(), fixed.get_delay_between_attempts_interval()) == (3, timedelta(seconds=1))
    rate = RestartStrategies.failure_rate_restart(2, 60_000, 500)
    assert rate.get_max_failure_rate() == 2
    assert rate.get_failure_interval() == timedelta(minutes=1)
    assert rate.get_delay_between_attempts_interval() == timedelta(milliseconds=500)


def test_strategies_are_equal_by_value() -> None:
    assert RestartStrategies.fixed_delay_restart(3, 1000) == RestartStrategies.fixed_delay_restart(
        3, timedelta(seconds=1)
    )
    assert RestartStrategies.fixed_delay_restart(3, 1000) != RestartStrategies.fixed_delay_restart(3, 1001)
    assert RestartStrategies.no_restart() != RestartStrategies.fall_back_restart()
    assert hash(RestartStrategies.no_restart()) == hash(RestartStrategies.no_restart())


def test_a_time_is_a_timedelta_or_milliseconds() -> None:
    with pytest.raises(TypeError, match="delay_between_attempts_interval is a timedelta or an int"):
        RestartStrategies.fixed_delay_restart(3, "10 s")  # pyright: ignore[reportArgumentType]
