from __future__ import annotations

from datetime import datetime

import pytest

from penstock._connectors.files.java_dates import compile_pattern

MOMENT = datetime(2024, 2, 9, 0, 5, 7, 123456)  # noqa: DTZ001 - a pattern shows the time as it is


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd--HH", "2024-02-09--00"),
        ("yy/M/d", "24/2/9"),
        ("uuuu DDD", "2024 040"),
        ("hh 'h' kk a", "12 h 24 AM"),
        ("HH:mm:ss.SSS", "00:05:07.123"),
        ("SSSSSSSSS", "123456000"),
        ("EEEE, d MMMM", "Friday, 9 February"),
        ("EEE MMM", "Fri Feb"),
        ("'dt='yyyyMMdd'/hour='HH", "dt=20240209/hour=00"),
        ("'it''s' ''", "it's '"),
    ],
)
def test_pattern_formats_as_java_does(pattern: str, text: str) -> None:
    assert compile_pattern(pattern)(MOMENT) == text


@pytest.mark.parametrize("pattern", ["yyyy-qq", "HHH", "'open", "MMMMM", "V"])
def test_unknown_pattern_is_an_error_that_names_it(pattern: str) -> None:
    with pytest.raises(ValueError, match="date pattern"):
        compile_pattern(pattern)
