from __future__ import annotations

import datetime

import pytest

from penstock.common.config_values import DURATION
from penstock.common.time import Duration, Instant, Time


@pytest.mark.parametrize("milliseconds", [-1001, -1000, -1, 0, 1, 999, 1_700_000_000_123])
def test_instant_gives_back_the_milliseconds_it_was_made_of(milliseconds: int) -> None:
    assert Instant.of_epoch_milli(milliseconds).to_epoch_milli() == milliseconds


def test_instant_before_the_epoch_has_positive_nanoseconds() -> None:
    assert Instant.of_epoch_milli(-1) == Instant(-1, 999_000_000)
    assert repr(Instant(5, 7)) == "Instant<5, 7>"


def test_times_are_equal_by_value_and_print_milliseconds() -> None:
    assert Time.minutes(1) == Time.seconds(60) == Time.milliseconds(60_000)
    assert Time.days(1) == Time.hours(24)
    assert Time.seconds(1) != Duration.of_seconds(1)
    assert len({Time.seconds(1), Time.milliseconds(1000)}) == 1
    assert str(Time.seconds(3)) == "3000 ms"


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (Duration.of_days(2), "2 d"),
        (Duration.of_hours(1), "1 h"),
        (Duration.of_minutes(90), "90 min"),
        (Duration.of_seconds(10), "10 s"),
        (Duration.of_millis(1500), "1500 ms"),
        (Duration.of_nanos(1), "1 ns"),
        (Duration(0), "0 ms"),
    ],
)
def test_duration_prints_in_its_largest_whole_unit_as_configuration_reads_it(duration: Duration, text: str) -> None:
    assert str(duration) == text
    assert DURATION.parse(text) == duration


def test_duration_rounds_down_to_the_unit_asked_for() -> None:
    assert Duration.of_nanos(1_999_999).to_millis() == 1
    assert Duration.of_nanos(1_999).to_timedelta() == datetime.timedelta(microseconds=1)


def test_durations_are_ordered_and_hashable() -> None:
    assert Duration.of_seconds(1) < Duration.of_millis(1001)
    assert {Duration.of_seconds(60): 1}[Duration.of_minutes(1)] == 1
