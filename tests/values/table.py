"""What becomes of each value on each path: the same, refused by a good error, or converted as a line says.

A path writes records and reads them back; its module in ``paths`` says how. The files in ``conversions`` have the
lines, each with a rule (``rules.py``) that computes what has to come back. Whatever else comes back is a fault.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.values import column_rules, rules
from tests.values.same import same
from tests.values.values import FIELD, VALUES, Value

from penstock.common import Row
from penstock.common.types import field_names
from penstock.common.user_values import short_repr
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HERE = File(__file__).parent

#: What a path gave for a value: the records that came back, or the error.
Outcome: TypeAlias = list[Any] | Exception


class UntypedError(Exception):
    """A path cannot declare the type of a value; the cause is the error that says so."""


class NotAskedError(Exception):
    """A path has nothing to say about a value, such as one without a type where all have one."""


class LostError(Exception):
    """What a path has written cannot be read; the cause says why."""


def read_back(read: Callable[[], list[Any]]) -> list[Any]:
    """Read what was written.

    Raises:
        LostError: It cannot be read, so that writing it should have been refused.
    """
    try:
        return read()
    except Exception as error:
        raise LostError(str(error)) from error


@dataclass(frozen=True)
class Path:
    """A way on which records go out and come back.

    Attributes:
        name: Its name in the page, in the conversions and among the recorded verdicts.
        about: What it is, as a sentence of the page.
        run: Gives the outcome of each value, in their order; one call has all values, to share what is dear.
        in_every_run: Whether it needs no server, so that each run of the tests takes it.
        names_operator: Whether a job runs, so that errors have to name the operator as well.
    """

    name: str
    about: str
    run: Callable[[Sequence[Value]], Iterable[Outcome]]
    in_every_run: bool = True
    names_operator: bool = False

    def __str__(self) -> str:
        return self.name


def each(
    program: Callable[[Value], Callable[[list[dict[str, Any]]], list[Any]]],
) -> Callable[[Sequence[Value]], Iterable[Outcome]]:
    """Make a path's ``run`` of a function that declares a type, and returns what writes records and reads them back.

    What the function itself raises means that the type cannot be declared; NotAskedError leaves the value out.
    """

    def outcome(value: Value) -> Outcome:
        try:
            there_and_back = program(value)
        except NotAskedError as error:
            return error
        except Exception as error:  # noqa: BLE001 - it is judged
            untyped = UntypedError(str(error))
            untyped.__cause__ = error
            return untyped
        try:
            return there_and_back([dict(one) for one in value.records])
        except Exception as error:  # noqa: BLE001 - it is judged
            return error

    return lambda values: map(outcome, values)


class Sign(Enum):
    """What became of a value; the value is what the page shows."""

    SAME = "="
    REFUSED = "✗"
    CONVERTED = "~"
    #: The format has no such type, which the error says when the program is built.
    UNTYPED = "—"
    NOT_ASKED = "·"
    FAULT = "!"


@dataclass(frozen=True)
class Verdict:
    """What became of a value on a path.

    Attributes:
        sign: The kind of the verdict.
        note: The name of the conversion's line, or what is wrong.
    """

    sign: Sign
    note: str = ""


@dataclass(frozen=True)
class Conversion:
    """A line of the conversions.

    Attributes:
        name: A short name.
        paths: Patterns of the names of paths.
        values: Patterns of ``kind: name`` of values.
        becomes: What becomes of them, as a sentence.
        why: The part of Flink that does so, or the option that asks for it.
        rule: The function of ``rules.py`` that gives what comes back.
    """

    name: str
    paths: list[str]
    values: list[str]
    becomes: str
    why: str
    rule: str

    def covers(self, path: Path, value: Value) -> bool:
        """Tell whether the line is about a cell."""
        return any(fnmatchcase(path.name, one) for one in self.paths) and any(
            fnmatchcase(str(value), one) for one in self.values
        )

    def expects(self, value: Value) -> list[dict[str, Any]] | None:
        """Return the records that come back by the rule; None where it says nothing about such a value."""
        rule = getattr(rules, self.rule, None) or getattr(column_rules, self.rule)
        try:
            return [rule(record, value) for record in value.records]
        except (rules.DoesNotApplyError, TypeError, ValueError, AttributeError, ArithmeticError):
            return None


@cache
def conversions() -> list[Conversion]:
    """Read the lines; each file has those of one format or store, and their order does not matter."""
    found: list[Conversion] = []
    for file in sorted((HERE / "conversions").glob("*.toml")):
        found += [Conversion(name, **line) for name, line in tomllib.loads(file.read_text("utf-8")).items()]
    return found


def verdicts(path: Path, values: Sequence[Value] = VALUES) -> dict[Value, Verdict]:
    """Send all values through a path."""
    outcomes = zip(values, path.run(values), strict=True)
    return {value: judged(path, value, outcome) for value, outcome in outcomes}


def judged(path: Path, value: Value, outcome: Outcome) -> Verdict:
    """Return what an outcome means."""
    if isinstance(outcome, Exception):
        return _judged_error(path, value, outcome)
    back = [fields_of(one) for one in outcome]
    if same(back, list(value.records)):
        return Verdict(Sign.SAME)
    for line in conversions():
        if line.covers(path, value) and same(back, line.expects(value)):
            return Verdict(Sign.CONVERTED, line.name)
    return Verdict(Sign.FAULT, f"{short_repr(value.records)} came back as {short_repr(back)}")


def _judged_error(path: Path, value: Value, error: Exception) -> Verdict:
    match error:
        case NotAskedError():
            return Verdict(Sign.NOT_ASKED)
        case UntypedError():
            cause = error.__cause__
            named = isinstance(cause, (PenstockError, ValueError, TypeError)) and FIELD in str(cause)
            return Verdict(Sign.UNTYPED) if named else Verdict(Sign.FAULT, f"no good error of a type: {cause!r:.300}")
        case LostError():
            return Verdict(Sign.FAULT, f"it is written, and cannot be read: {error.__cause__!r:.300}")
        case _:
            lacks = lacking(path, value, error)
            told = f"{lacks}: {type(error).__name__}: {error!s:.300}"
            return Verdict(Sign.FAULT, told) if lacks else Verdict(Sign.REFUSED)


def lacking(path: Path, value: Value, error: Exception) -> str:
    """Return what an error lacks: it is ours, and names the field, the value and, in a job, the operator."""
    text = str(error)
    if not isinstance(error, PenstockError):
        return "not our error"
    if FIELD in value.records[0] and FIELD not in text and "extra" not in text:
        return "names no field"
    if path.names_operator and "operator" not in text.lower():
        return "names no operator"
    told = [leaf for record in value.records for leaf in leaves(record)]
    return "" if any(one in text for one in told) or not told else "names no value"


def fields_of(record: Any) -> Any:
    """Return a row as a dict, or as a list if it has no names; anything else unchanged."""
    if not isinstance(record, Row):
        return record
    return list(record) if field_names(record) is None else record.as_dict()


def leaves(value: Any) -> Iterable[str]:
    """Yield the beginnings of the texts by which an error may tell a value, or a part of it."""
    try:
        yield from {repr(value)[:40], str(value)[:40], ascii(value)[:40]}
    except ValueError:  # an int with more digits than Python shows
        yield short_repr(value)[:40]
    value = fields_of(value)
    if isinstance(value, dict):
        yield from leaves(list(value.values()) + list(value))
    elif isinstance(value, (list, tuple, set)):
        for part in value:
            yield from leaves(part)
