"""Reading and writing the text of configuration values, in Flink's notation.

One :class:`ValueType` per kind of value: its name in messages, how its text is read and how a value is written.
Reading raises ValueError with a clause that says what is wrong; the caller adds the key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import yaml

from penstock.common.paths import absolute_path, scheme_of
from penstock.common.time import Duration
from penstock.errors import PathError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T]):
    """A kind of configuration value.

    Args:
        name: Its name in messages and listings.
        parse: Reads the text; raises ValueError.
        format: Writes a value, so that ``parse`` gives it back.
        depends_on_place: Whether the text has another meaning in another directory, so that its absolute form is kept
            instead.
    """

    name: str
    parse: Callable[[str], T]
    format: Callable[[T], str]
    depends_on_place: bool = False

    def where(self, holds: Callable[[T], bool], rule: str) -> ValueType[T]:
        """Return this kind, narrowed to the values for which a rule holds.

        Args:
            holds: Tells whether a value is allowed.
            rule: The rule for values, a clause.
        """

        def parse(text: str) -> T:
            value = self.parse(text)
            if not holds(value):
                msg = f"it must be {rule}"
                raise ValueError(msg)
            return value

        return replace(self, name=f"{self.name}, {rule}", parse=parse)

    def unless(self, word: T) -> ValueType[T]:
        """Return this kind with one more allowed text, which is its own value.

        Args:
            word: The value.
        """

        def either(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
            return lambda value: value if value == word else convert(value)

        return replace(self, name=f"{self.name}, or {word}", parse=either(self.parse), format=either(self.format))


def _parse_bool(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.strip().lower()]
    except KeyError:
        msg = "it is neither true nor false"
        raise ValueError(msg) from None


def _parse_int(text: str) -> int:
    if not re.fullmatch(r"\s*[+-]?\d+\s*", text):
        msg = "it is not a whole number"
        raise ValueError(msg)
    return int(text)


def _parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        msg = "it is not a number"
        raise ValueError(msg) from None


def _parse_path(text: str) -> str:
    try:
        return absolute_path(text)
    except PathError as error:
        raise ValueError(error.reason) from None


STRING: ValueType[str] = ValueType("text", str, str)
PATH: ValueType[str] = ValueType("path or URL", _parse_path, _parse_path, depends_on_place=True)
"""Both directions make it absolute."""
LOCAL_PATH = PATH.where(lambda path: not scheme_of(path), "a directory of this machine")
BOOL: ValueType[bool] = ValueType("true or false", _parse_bool, lambda value: "true" if value else "false")
INT: ValueType[int] = ValueType("whole number", _parse_int, str)
FLOAT: ValueType[float] = ValueType("number", _parse_float, repr)
COUNT = INT.where(lambda value: value >= 0, "0 or more")
POSITIVE = INT.where(lambda value: value >= 1, "1 or more")

_QUANTITY = re.compile(r"\s*(\d+)\s*([a-zµ]*)\s*", re.IGNORECASE)

_DURATION_UNITS: dict[str, int] = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
}
_MEMORY_UNITS: dict[str, int] = {
    **dict.fromkeys(("b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}


def _parse_quantity(text: str, units: dict[str, int], bare: str, example: str) -> int:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        msg = f"it is not a number with a unit, such as {example!r}"
        raise ValueError(msg)
    number, unit = found.group(1), found.group(2).lower() or bare
    if unit not in units:
        msg = f"there is no unit {found.group(2)!r}; the units are {', '.join(units)}"
        raise ValueError(msg)
    return int(number) * units[unit]


def duration(bare: str = "ms") -> ValueType[Duration]:
    """Return the kind of a length of time.

    Args:
        bare: The unit of a number without one.

    Example:
        >>> duration().parse("10 min"), duration().parse("250"), duration("s").parse("250")
        (Duration(10 min), Duration(250 ms), Duration(250 s))
    """
    return ValueType("duration", lambda text: Duration(_parse_quantity(text, _DURATION_UNITS, bare, "10 s")), str)


DURATION = duration()


def _format_memory(value: int) -> str:
    for unit, size in (("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)):
        if value and value % size == 0:
            return f"{value // size} {unit}"
    return f"{value} bytes"


MEMORY: ValueType[int] = ValueType(
    "memory size", lambda text: _parse_quantity(text, _MEMORY_UNITS, "b", "128 mb"), _format_memory
)
"""Bytes; units are powers of 1024, a number without unit is bytes."""


def choice(*values: str, refused: dict[str, str] | None = None, same: dict[str, str] | None = None) -> ValueType[str]:
    """Return the kind of one out of some words, in any case; the value is the word as the list has it.

    Args:
        *values: The words.
        refused: Words that Flink has and Penstock does not, each with the reason, a clause.
        same: Other spellings, each with its word.

    Example:
        >>> choice("STREAMING", "BATCH").parse("batch")
        'BATCH'
    """
    words = {value.lower(): value for value in values} | (same or {})
    reasons = refused or {}

    def parse(text: str) -> str:
        word = text.strip().lower()
        if word in words:
            return words[word]
        if word.upper() in reasons:
            raise ValueError(reasons[word.upper()])
        msg = f"it is none of {', '.join(values)}"
        raise ValueError(msg)

    return ValueType(" or ".join(values), parse, str)


#: The longest YAML in characters, and its deepest list or map: a short text of a hostile program could take hours.
_MOST_YAML: Final = 1 << 20
_DEEPEST_YAML: Final = 50
_TOO_MUCH: Final = "it is too long or too deep, or has an alias"


class _PlainLoader(yaml.BaseLoader):
    """Loads YAML without aliases, by which a few letters could stand for millions of items."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Take in one node, and what is in it."""
        if self.check_event(yaml.AliasEvent) or self._depth == _DEEPEST_YAML:
            raise yaml.YAMLError(_TOO_MUCH)
        self._depth += 1
        node: Any = super().compose_node(parent, index)
        self._depth -= 1
        return node


def load_yaml(text: str) -> object:
    """Read YAML with every scalar as text.

    Python's YAML reads ``off``, ``010`` and ``10:30`` as a truth value and numbers (YAML 1.1), where Flink's reads
    what stands there (YAML 1.2); the kinds above read the scalars instead. BaseLoader makes only str, list and dict.

    Raises:
        yaml.YAMLError: It is no YAML, has an alias, or is too long or too deep.

    Example:
        >>> load_yaml("{a: [1, on]}")
        {'a': ['1', 'on']}
    """
    if len(text) > _MOST_YAML:
        raise yaml.YAMLError(_TOO_MUCH)
    return yaml.load(text, Loader=_PlainLoader)  # noqa: S506 - as safe as SafeLoader: text, lists and dicts only


def _parse_list(text: str) -> tuple[str, ...]:
    """Read ``[a, b]`` or lines ``- a`` (YAML), or ``a;b``."""
    if not text.strip():
        return ()
    if text.lstrip().startswith(("[", "- ")):
        try:
            loaded = load_yaml(text)
        except yaml.YAMLError:
            msg = "it starts like a list, but is none; write [a, b] or a;b"
            raise ValueError(msg) from None
        return tuple(_text_of(item) for item in cast("list[object]", loaded))
    return tuple(item.strip() for item in text.split(";"))


def _parse_map(text: str) -> Mapping[str, str]:
    """Read ``{a: b, c: d}`` (YAML) or ``a:b,c:d``."""
    if not text.strip():
        return {}
    try:
        if text.lstrip().startswith("{"):
            loaded = cast("dict[str, object]", load_yaml(text))
            return {key: _text_of(value) for key, value in loaded.items()}
        pairs = (entry.split(":", 1) for entry in text.split(","))
        return {key.strip(): value.strip() for key, value in pairs}
    except (yaml.YAMLError, ValueError):
        msg = "it is not a map; write {a: b, c: d} or a:b,c:d"
        raise ValueError(msg) from None


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else flow_yaml(value)


def flow_yaml(value: Any) -> str:
    """Write lists and dicts of text on one line, as ``[a, b]`` and ``{a: b}``."""
    return yaml.safe_dump(
        value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False
    ).strip()


LIST: ValueType[tuple[str, ...]] = ValueType("list of texts", _parse_list, lambda value: flow_yaml(list(value)))
MAP: ValueType[Mapping[str, str]] = ValueType("map of texts", _parse_map, lambda value: flow_yaml(dict(value)))
