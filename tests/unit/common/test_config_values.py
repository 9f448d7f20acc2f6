from __future__ import annotations

import pytest

from penstock.common.config_values import BOOL, DURATION, FLOAT, INT, LIST, MAP, MEMORY, POSITIVE, choice, duration
from penstock.common.redaction import shown_name
from penstock.common.time import Duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 s", Duration.of_seconds(10)),
        ("10s", Duration.of_seconds(10)),
        (" 10  SECONDS ", Duration.of_seconds(10)),
        ("500 ms", Duration.of_millis(500)),
        ("500", Duration.of_millis(500)),
        ("1 min", Duration.of_minutes(1)),
        ("1 m", Duration.of_minutes(1)),
        ("2 hours", Duration.of_hours(2)),
        ("3 d", Duration.of_days(3)),
        ("7 µs", Duration.of_nanos(7000)),
        ("9 ns", Duration.of_nanos(9)),
    ],
)
def test_durations_are_read_in_flinks_units(text: str, expected: Duration) -> None:
    assert DURATION.parse(text) == expected


def test_the_unit_of_a_bare_number_can_be_another() -> None:
    assert duration("s").parse("3600") == Duration.of_hours(1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("128 mb", 128 << 20), ("20kb", 20480), ("1 G", 1 << 30), ("2 TB", 2 << 40), ("42", 42), ("42 bytes", 42)],
)
def test_memory_sizes_are_read_in_powers_of_1024(text: str, expected: int) -> None:
    assert MEMORY.parse(text) == expected


@pytest.mark.parametrize("value", [0, 1, 1023, 1024, 20480, 128 << 20, (1 << 30) + 1])
def test_memory_sizes_are_written_as_they_are_read(value: int) -> None:
    assert MEMORY.parse(MEMORY.format(value)) == value


@pytest.mark.parametrize("text", ["[a, 'b c', \"x;y\"]", "a; b c ;x"])
def test_lists_are_yaml_or_separated_by_semicolons(text: str) -> None:
    assert LIST.parse(text)[:2] == ("a", "b c")


@pytest.mark.parametrize("value", [(), ("a",), ("true", "1", "a, b", "[x]"), ("grün",)])
def test_lists_are_written_as_they_are_read(value: tuple[str, ...]) -> None:
    assert LIST.parse(LIST.format(value)) == value


@pytest.mark.parametrize("text", ["{a: 1, b: 'x:y'}", "a:1, b:x:y"])
def test_maps_are_yaml_or_pairs(text: str) -> None:
    assert MAP.parse(text) == {"a": "1", "b": "x:y"}


def test_maps_are_written_as_they_are_read() -> None:
    value = {"a": "true", "b": "x, y: z", "c": ""}
    assert MAP.parse(MAP.format(value)) == value


def test_empty_text_is_an_empty_list_or_map() -> None:
    assert LIST.parse(" ") == ()
    assert MAP.parse("") == {}


def test_choices_are_read_in_any_case_and_by_other_spellings() -> None:
    kind = choice("none", "fixed-delay", same={"off": "none"})
    assert [kind.parse(text) for text in ("NONE", "off", " Fixed-Delay ")] == ["none", "none", "fixed-delay"]


@pytest.mark.parametrize(
    ("parse", "text", "reason"),
    [
        (BOOL.parse, "yes", "neither true nor false"),
        (INT.parse, "1.5", "not a whole number"),
        (INT.parse, "1_000", "not a whole number"),
        (INT.parse, "", "not a whole number"),
        (POSITIVE.parse, "0", "must be 1 or more"),
        (FLOAT.parse, "a", "not a number"),
        (DURATION.parse, "s", "such as '10 s'"),
        (DURATION.parse, "-1 s", "such as '10 s'"),
        (DURATION.parse, "10 parsecs", "there is no unit 'parsecs'; the units are d, day"),
        (MEMORY.parse, "1 xb", "there is no unit 'xb'"),
        (LIST.parse, "[a, ", r"write \[a, b\]"),
        (MAP.parse, "a, b", "not a map"),
        (MAP.parse, "{a", "not a map"),
        (choice("A", "B").parse, "C", "none of A, B"),
        (choice("A", refused={"C": "C is gone"}).parse, "c", "C is gone"),
    ],
)
def test_what_cannot_be_read_says_why(parse: object, text: str, reason: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match=reason):
        parse(text)


BOMB = "[" + ", ".join(
    f"&{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    "text", [f"{BOMB}, &a x]", "[&a x, *a]", "[" * 5_000, "{a: " * 51 + "1" + "}" * 51, "[" + "a, " * 400_000]
)
def test_yaml_with_aliases_or_without_measure_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match="it starts like a list" if text.startswith("[") else "it is not a map"):
        (LIST if text.startswith("[") else MAP).parse(text)
    assert shown_name(text, "a label")
