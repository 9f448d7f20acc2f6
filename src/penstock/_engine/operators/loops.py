"""The loops of map, filter, reduce, aggregate and process, compiled for the shape of the current records.

Each record that leaves a function is checked for mutability. For most records this is a check of their type, or of the
types of a tuple's fields; a call per record would take as long as a typical user function. So the check is inside the
loop, generated for tuples of that size, and compares with the types of the record before. `own` checks a record of
another shape.

Where the results have a declared type, the loop expects the shape of that, and checks ranges beside the types of the
fields; it converts any other result.

If all records of a batch had one shape, the batch says so: later operators need not check again, and edges have a quick
encoding for it.

Example:
    >>> loops = Loops()
    >>> loops.map(lambda number: (number, [number]), [1, 2])
    ([(1, [1]), (2, [2])], None)
    >>> loops.map(lambda number: number + 1, [1, 2])
    ([2, 3], <class 'int'>)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from textwrap import indent
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

from penstock._api.functions.wrong_results import refuse_no_records, refuse_none
from penstock._engine.state.table import ABSENT
from penstock.common.conversion import range_functions
from penstock.common.copies import IMMUTABLE, all_immutable, copy_if_mutable, may_change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._engine.operators.batch import Shape
    from penstock._engine.operators.side_outputs import SideOutputs
    from penstock.common.conversion import Conversion

#: Larger tuples are left to `own`.
_MOST_FIELDS: Final = 8


@dataclass(frozen=True)
class _Template:
    """The text of a loop over records."""

    #: The arguments of the loop.
    arguments: str
    #: What the loop does for each record; `{body}` stands where there is a `result`, and goes on with the next one.
    each: str
    #: What it does with a result of the expected shape.
    known: str
    #: What it does with any other result.
    other: str
    begin: str = "results = []"
    end: str = "results"
    #: Where results have a declared type: the further conditions of each part, on `{v}`.
    ranges: tuple[str, ...] | None = None


_MAP: Final = _Template(
    "call, records",
    """
    for record in records:
        result = call(record)
        {body}
    """,
    "results.append(result)",
    "results.append(copy_if_mutable(result))",
)

#: With object reuse the check only determines the shape.
_MAP_WITH_REUSE: Final = replace(_MAP, other="results.append(result)")

_FILTER: Final = replace(
    _MAP,
    each="""
    for result in records:
        if not call(result):
            continue
        {body}
    """,
)

#: A result that is None where the one before may have been changed in its place: a `return` is missing.
_NOT_NONE: Final = (
    "if result is None and before is not ABSENT and may_change(before): refuse_none(call, before, record)"
)

_REDUCE: Final = _Template(
    "call, records, keys, hot, load, store_copy",
    """
    for key, record in zip(keys, records, strict=True):
        try:
            before = hot[key]
        except KeyError:
            before = load(key)
        result = record if before is ABSENT else call(before, record)
        {body}
    """,
    "hot[key] = result; results.append(result)",
    f"{_NOT_NONE}\nresults.append(store_copy(key, result))",
)

_AGGREGATE: Final = _Template(
    "add, records, keys, hot, load, create",
    """
    for key, record in zip(keys, records):
        try:
            before = hot[key]
        except KeyError:
            before = load(key)
        if before is ABSENT:
            before = copy_if_mutable(create())
        result = add(record, before)
        if result is before:
            hot[key] = result
            continue
        {body}
    """,
    "hot[key] = result",
    "if result is None and may_change(before): refuse_none(add, before, record)\nhot[key] = copy_if_mutable(result)",
    end="[hot[key]] if others else []",
)

#: A reduce whose results are only kept.
_FOLD: Final = replace(
    _REDUCE,
    arguments="call, records, keys, hot, load",
    each=_REDUCE.each.replace(", strict=True", ""),
    known="hot[key] = result",
    other=f"{_NOT_NONE}\nhot[key] = copy_if_mutable(result)",
    end="[hot[key]] if others else []",
)

#: A process function: each call gives any number of results, or None. They are added to those of earlier calls.
_PROCESS: Final = _Template(
    "call, turns, context, results, stamps, give, function",
    """
    for context.at, record in turns:
        given = call(record, context)
        if given is None:
            continue
        try:
            for result in given:
                {body}
        except TypeError:
            refuse_no_records(function, given)
            raise
    """,
    "results.append(result)",
    "give(result, context.at)",
    begin="given = None",
    end="given",
)
_PROCESS_STAMPED: Final = replace(_PROCESS, known="results.append(result); stamps.append(context.at)")


@cache
def _typed(template: _Template, ranges: tuple[str, ...]) -> _Template:
    """Return a template of a loop that converts results."""
    return replace(
        template,
        arguments=f"convert, {template.arguments}",
        # An accumulator that was changed in place may have got something that does not fit.
        each=template.each.replace("if result is before:", "if result is before and convert(result) is before:"),
        other=f"result = convert(result)\n{template.other}",
        ranges=ranges,
    )


def _keyed(template: _Template) -> _Template:
    each = template.each.replace("context.at, record", "context.at, record, key.key, key.normal")
    return replace(template, arguments=f"key, {template.arguments}", each=each)


#: A function of pairs, which all have timestamps.
_JOIN: Final = replace(
    _PROCESS_STAMPED,
    arguments="call, pairs, results, stamps, give, function",
    each=_PROCESS.each.replace("context.at, record in turns", "context, left, right in pairs").replace(
        "record, context", "left, right, context"
    ),
)
_PROCESS_KEYED: Final = _keyed(_PROCESS)
_PROCESS_KEYED_STAMPED: Final = _keyed(_PROCESS_STAMPED)

_LOOP: Final = """
def loop({arguments}, kind, tuple_kind, {kinds}):
    {begin}
    others = 0
    {each}
    return {end}, others
"""

_CHECK_VALUE: Final = """
if {tests}:
    {known}
    continue
"""

#: A tuple is unpacked: that is quicker than to ask for its length and for each field.
_CHECK_TUPLE: Final = """
if kind(result) is tuple_kind:
    try:
        {parts}, = result
    except ValueError:
        pass
    else:
        if {tests}:
            {known}
            continue
"""


@cache
def _code(template: _Template, size: int | None) -> CodeType:
    """Return the code of a loop for tuples of `size` fields, or for values that are no tuples.

    `kind` and `tuple_kind` are local names of the function, not of the module: that saves a tenth of the loop's time.
    """
    fields = range(1 if size is None else size)
    parts = ["result"] if size is None else [f"part_{place}" for place in fields]
    tests = " and ".join(
        f"kind({part}) is kind_{place}{more and f' and ({more.format(v=part)})'}"
        for place, (part, more) in enumerate(zip_longest(parts, template.ranges or (), fillvalue=""))
    )
    check = (_CHECK_VALUE if size is None else _CHECK_TUPLE).strip()
    check = check.format(parts=", ".join(parts), tests=tests, known=template.known)
    body = f"{check}\nothers += 1\n{template.other}"
    line = next(line for line in template.each.splitlines() if "{body}" in line)
    source = _LOOP.format(
        arguments=template.arguments,
        kinds=", ".join(f"kind_{place}" for place in fields),
        begin=template.begin,
        each=template.each.replace(line, indent(body, line.removesuffix("{body}"))).strip(),
        end=template.end,
    )
    space: dict[str, Any] = {}
    # Below the name of this file its frames count as the library's, which tracebacks leave out.
    exec(compile(source, f"{__file__}/loop", "exec"), space)  # noqa: S102 - the text above, with numbers in it
    return space["loop"].__code__


#: What the loops use.
_GLOBALS: Final = {
    "copy_if_mutable": copy_if_mutable,
    "ABSENT": ABSENT,
    "may_change": may_change,
    "refuse_none": refuse_none,
    "refuse_no_records": refuse_no_records,
    **range_functions(),
}


class _NoShape:
    """The kind of no result."""


class Loops:
    """The loops of one operator, compiled for the shape of its function's results."""

    def __init__(self) -> None:
        #: The shape of the previous record.
        self._shape: Shape = int
        self._compiled: dict[tuple[_Template, int | None], FunctionType] = {}

    def map(
        self, call: Callable[[Any], Any], records: Iterable[Any], *, copies: bool = True
    ) -> tuple[list[Any], Shape | None]:
        """Return the result of a function for each record, copied where it may change, and the common shape.

        Args:
            call: The function.
            records: The records.
            copies: Whether to copy mutable results; else they are passed on as they are.
        """
        return self._run(_MAP if copies else _MAP_WITH_REUSE, call, records)

    def filter(self, call: Callable[[Any], Any], records: Iterable[Any]) -> tuple[list[Any], Shape | None]:
        """Return the records for which a function is true, copied where they may change, and the common shape."""
        return self._run(_FILTER, call, records)

    def reduce(
        self,
        call: Callable[[Any, Any], Any],
        records: Iterable[Any],
        keys: list[Any],
        state: tuple[dict[Any, Any], Callable[[Any], Any]],
        store_copy: Callable[[Any, Any], Any],
        *,
        held: Conversion | None = None,
    ) -> tuple[list[Any], Shape | None]:
        """Fold each record into the value of its key; return the value after each record, and the common shape.

        Args:
            call: The reduce function.
            records: The records.
            keys: Their keys.
            state: The values by key, and a function that loads a missing one.
            store_copy: Stores a mutable value of a key, and returns the copy to emit.
            held: Converts the values, where they have a declared type.
        """
        return self._run(_REDUCE, call, records, keys, *state, store_copy, held=held)

    def fold(
        self,
        call: Callable[[Any, Any], Any],
        records: Iterable[Any],
        keys: list[Any],
        state: tuple[dict[Any, Any], Callable[[Any], Any]],
        *,
        held: Conversion | None = None,
    ) -> None:
        """Fold each record into the value of its key, which is copied where it may change.

        Args:
            call: The reduce function.
            records: The records; one is taken for each key.
            keys: Their keys.
            state: The values by key, and a function that loads a missing one.
            held: Converts the values, where they have a declared type.
        """
        self._run(_FOLD, call, records, keys, *state, held=held)

    def aggregate(
        self,
        add: Callable[[Any, Any], Any],
        records: Iterable[Any],
        keys: list[Any],
        state: tuple[dict[Any, Any], Callable[[Any], Any]],
        create: Callable[[], Any],
        *,
        held: Conversion | None = None,
    ) -> None:
        """Add each record to the accumulator of its key, which is copied unless the function has changed it in place.

        Args:
            add: Returns the accumulator with a record.
            records: The records; one is taken for each key.
            keys: Their keys.
            state: The accumulators by key, and a function that loads a missing one.
            create: Makes an accumulator; it may return one object several times.
            held: Converts the accumulators, where they have a declared type.
        """
        self._run(_AGGREGATE, add, records, keys, *state, create, held=held)

    def process(
        self, call: Callable[[Any, Any], Any], turns: Iterable[Any], context: Any, out: SideOutputs, key: Any = None
    ) -> Any:
        """Call a process function for each record, and add its results to the outputs.

        Args:
            call: The method of the function.
            turns: Timestamp and record; with a key also its key and normal key.
            context: The context of the function; its `at` is set to each timestamp.
            out: The outputs.
            key: The context of the current key, which is set for each record.

        Returns:
            What the last call returned.

        Raises:
            FunctionResultError: The results of a call are no iterable.
        """
        stamped = out.stamps_main
        if key is None:
            return self._add(out, _PROCESS_STAMPED if stamped else _PROCESS, call, turns, context)
        return self._add(out, _PROCESS_KEYED_STAMPED if stamped else _PROCESS_KEYED, key, call, turns, context)

    def join(self, call: Callable[[Any, Any, Any], Any], pairs: Iterable[Any], out: SideOutputs) -> None:
        """Call a function for each pair, and add its results to the outputs as `process` does.

        Args:
            call: The method of the function.
            pairs: The context, which has the time of the results, the left and the right record.
            out: Takes the results.
        """
        self._add(out, _JOIN, call, pairs)

    def _add(self, out: SideOutputs, template: _Template, *arguments: Any) -> Any:
        """Run a loop that adds results to the outputs; return what its last call returned."""
        main = out.main
        start = len(main.records)
        takers = main.records, main.timestamps, out.give, out.function
        given, others = self._loop(template, *arguments, *takers)
        main.note_shape(start, self._learned(main.records, others))
        return given

    def _run(
        self, template: _Template, *arguments: Any, held: Conversion | None = None
    ) -> tuple[list[Any], Shape | None]:
        """Run a loop; return its results, and their common shape if they have one."""
        if held is not None:
            self._shape = _NoShape if held.shape is None else held.shape
            results, others = self._loop(_typed(template, held.ranges), held.value, *arguments)
            return results, None if others else self._shape
        results, others = self._loop(template, *arguments)
        return results, self._learned(results, others)

    def _loop(self, template: _Template, *arguments: Any) -> tuple[Any, int]:
        """Run a loop; return what it returns, and the number of results that have another shape than expected."""
        shape = self._shape
        kinds, size = (shape, len(shape)) if isinstance(shape, tuple) else ((shape,), None)
        if (loop := self._compiled.get((template, size))) is None:
            # A copy of the code for each operator: CPython specialises code for what it calls.
            loop = FunctionType(_code(template, size).replace(), _GLOBALS)
            self._compiled[template, size] = loop
        return loop(*arguments, type, tuple, *kinds)

    def _learned(self, results: list[Any], others: int) -> Shape | None:
        """Return the shape of results, where all have that which was expected; else expect that of the last one."""
        if not others:
            return self._shape
        if results:
            self._shape = _shape_of(results[-1]) or self._shape
        return None


def _shape_of(record: Any) -> Shape | None:
    """Return the shape of a record, None where it has none or may change."""
    kind = cast("type[Any]", type(record))
    if kind is not tuple:
        return kind if kind in IMMUTABLE else None
    kinds: tuple[type[Any], ...] = tuple(map(type, record))
    return kinds if 0 < len(kinds) <= _MOST_FIELDS and all_immutable(kinds) else None
