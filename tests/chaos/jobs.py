"""Random jobs: sources, operators and sinks as plain data, which a life writes as a program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.chaos.operators import BUILD, STATEFUL, TWO_INPUTS

from penstock.common import Row

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

#: No two keys of a kind are equal.
KEYS: dict[str, tuple[Any, ...]] = {
    "int": (0, 1, -7, 1 << 40),
    "bool": (True, False),
    "str": ("", "a", "ü", "key 1"),
    "bytes": (b"", b"\0x", b"ab"),
    "tuple": ((1, "a"), (1, "b"), ()),
    "float": (0.5, -2.25, 1e300),
    "Decimal": (Decimal("1.0"), Decimal("2.50"), Decimal("-3")),
    "Row": (Row(1, "a"), Row(1, "b"), Row(2, None)),
    "mixed": (1, "1", b"1", (1,), 1.5, Decimal("2.5")),
}
#: Keys whose type can be declared, and operators behind which it is.
TYPED_KEYS = ("int", "bool", "str", "float", "Decimal")
TYPED = ("map", "filter", "flat map")
VALUES = (
    None, True, 3, 2.5, "text", b"\0", (1, None), Decimal("3.14"), Row(a=1, b=None), [1, 2.0], {"a": None}, "", 1 << 70,
)  # fmt: skip
SOURCES = ("list", "endless", "timely", "function", "file", "many splits")
SINKS = ("files", "folder", "told", "upsert")
#: What a batch job cannot have.
OF_STREAMS = {"endless source", "state in files", "alignment", "pipelined"}


# ------------------------------------------------------------------------------------------------------------ the data


@dataclass(frozen=True)
class Source:
    """A source: its kind, and the records of each of its splits."""

    kind: str
    splits: tuple[tuple[Any, ...], ...]
    aligned: bool = False

    @property
    def records(self) -> list[Any]:
        return [record for split in self.splits for record in split]


@dataclass(frozen=True)
class Operator:
    """An operator, and the streams that it takes, by number; sources have the first numbers."""

    kind: str
    inputs: tuple[int, ...]
    edge: str = "forward"
    declared: bool = False


@dataclass(frozen=True)
class Output:
    """A sink, and the stream that it takes."""

    kind: str
    stream: int
    rolls: bool = True


@dataclass(frozen=True)
class Job:
    """A job."""

    sources: tuple[Source, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Output, ...]
    keys: str
    batch: bool = False
    #: Whether a batch job recovers from a lost driver.
    recovers: bool = False
    uids: bool = True
    #: Whether all state is in files, and none in the metadata.
    in_files: bool = True
    #: Whether the levels of an epoch run at the same time.
    pipelined: bool = False

    @property
    def endless(self) -> bool:
        return any(source.kind == "endless" for source in self.sources)

    @property
    def vertices(self) -> int:
        """How many sources, operators and sinks have a parallelism of their own."""
        return len(self.sources) + len(self.operators) + len(self.outputs)

    def before(self, *streams: int) -> Iterator[Operator]:
        """Yield the operators that streams come from, some of them several times."""
        makers = [one for one in self.operators for _ in range(2 if one.kind == "side output" else 1)]
        pending = list(streams)
        while pending:
            number = pending.pop() - len(self.sources)
            if number >= 0:
                yield makers[number]
                pending += makers[number].inputs

    def declares(self, operator: Operator) -> bool:
        """Tell whether the type of what comes out of an operator is declared: it has the keys of the sources."""
        can_be = self.keys in TYPED_KEYS and operator.kind in TYPED
        return can_be and operator.declared and all(one.kind != "other key" for one in self.before(*operator.inputs))

    def features(self) -> set[str]:
        """Return what is in it, by the names of the table of pairs."""
        named = {
            "batch": self.batch and not self.recovers,
            "batch with recovery": self.recovers,
            "no uids": not self.uids,
            "state in files": self.in_files and not self.batch and any(o.kind in STATEFUL for o in self.operators),
            "alignment": any(source.aligned for source in self.sources),
            "declared types": any(map(self.declares, self.operators)),
            "several sinks": len(self.outputs) > 1,
            "pipelined": self.pipelined,
        }
        return {
            *(f"{source.kind} source" for source in self.sources),
            *(operator.kind for operator in self.operators),
            *(f"sink: {output.kind}" for output in self.outputs),
            f"keys: {self.keys}",
            *(name for name, is_there in named.items() if is_there),
        }


# ------------------------------------------------------------------------------------------------------ what draws them


def draw_job(choose: random.Random, wanted: set[str]) -> Job:
    """Draw a job that has what is wanted of it, by the names of the table of pairs."""
    batch = bool({"batch", "batch with recovery"} & wanted) or (choose.random() < 0.15 and not OF_STREAMS & wanted)
    recovers = batch and "batch" not in wanted and ("batch with recovery" in wanted or choose.random() < 0.5)
    keys = next((kind for kind in KEYS if f"keys: {kind}" in wanted), None)
    keys = keys or choose.choice(TYPED_KEYS if "declared types" in wanted else list(KEYS))
    kinds = [kind for kind in SOURCES if f"{kind} source" in wanted] or [draw_source(choose, batch=batch)]
    if "alignment" in wanted:
        kinds = ["timely", "timely"]
    if choose.random() < 0.4 and len(kinds) < 2:
        kinds.append(draw_source(choose, batch=batch))
    numbers, odd = count(1), choose.randrange(2)
    aligned = "alignment" in wanted or choose.random() < 0.3
    sources = tuple(
        Source(kind, draw_splits(choose, kind, KEYS[keys], numbers, odd), aligned and kind == "timely" and not batch)
        for kind in kinds
    )
    must = [kind for kind in BUILD if kind in wanted]
    must += [choose.choice(TYPED)] if "declared types" in wanted else []
    more = [choose.choice(list(BUILD)) for _ in range(max(0, choose.randint(2, 5) - len(must)))]
    operators = draw_operators(choose, len(sources), choose.sample([*must, *more], len(must) + len(more)))
    operators = tuple(replace(one, declared="declared types" in wanted or one.declared) for one in operators)
    sinks = [kind for kind in SINKS if f"sink: {kind}" in wanted]
    job = Job(sources, operators, (), keys, batch, recovers)
    return replace(
        job,
        outputs=draw_outputs(choose, job, sinks, 2 if "several sinks" in wanted else 1),
        uids=("no uids" not in wanted and choose.random() < 0.75) or recovers,
        in_files="state in files" in wanted or choose.random() < 0.7,
        pipelined=not batch and ("pipelined" in wanted or choose.random() < 0.3),
    )


def draw_source(choose: random.Random, *, batch: bool) -> str:
    kinds = [kind for kind in SOURCES if not (batch and kind == "endless")]
    return choose.choices(kinds, [1 if kind == "many splits" else 5 for kind in kinds])[0]


def draw_splits(
    choose: random.Random, kind: str, keys: Sequence[Any], numbers: count[int], odd: int
) -> tuple[Any, ...]:
    """Draw records by split; all times are even, or odd, and the gap of sessions is odd, so that no sessions touch."""

    def records(most: int) -> tuple[Any, ...]:
        stamps = sorted(2 * choose.randint(0, 50) + odd for _ in range(choose.randint(0, most)))
        return tuple((choose.choice(keys), stamp, next(numbers), choose.choice(VALUES)) for stamp in stamps)

    if kind == "many splits":
        return tuple(records(1) if choose.random() < 0.03 else () for _ in range(1_000))
    return tuple(records(12) for _ in range(choose.randint(1, 4)))


def draw_operators(choose: random.Random, sources: int, kinds: list[str]) -> tuple[Operator, ...]:
    """Connect operators of these kinds, each to streams before it, above all to those that nobody takes yet."""
    operators: list[Operator] = []
    streams, loose = sources, set(range(sources))

    def one() -> int:
        found = choose.choice(sorted(loose)) if loose and choose.random() < 0.8 else choose.randrange(streams)
        loose.discard(found)
        return found

    for drawn in kinds:
        inputs = (one(), one()) if drawn in TWO_INPUTS else (one(),)
        is_odd = drawn == "union" and inputs[0] == inputs[1]  # a stream is united with another one only
        kind, inputs = ("map", inputs[:1]) if is_odd else (drawn, inputs)
        edge = choose.choice(["forward", "forward", "rebalance", "rescale", "shuffle"])
        operators.append(Operator(kind, inputs, edge, choose.random() < 0.3))
        made = 2 if kind == "side output" else 1
        loose |= set(range(streams, streams + made))
        streams += made
    return tuple(operators)


def draw_outputs(choose: random.Random, job: Job, sinks: list[str], least: int) -> tuple[Output, ...]:
    """Draw sinks for the streams that nobody takes, at most three, else for others."""
    taken = {number for operator in job.operators for number in operator.inputs}
    made = sum(2 if operator.kind == "side output" else 1 for operator in job.operators) + len(job.sources)
    loose = [number for number in range(made) if number not in taken] or [made - 1]
    several = max(least, len(sinks), min(3, len(loose)))
    streams = [*loose, *(choose.randrange(made) for _ in range(several))][:several]
    kinds = [*sinks, *(choose.choice(SINKS) for _ in range(several))][:several]
    return tuple(Output(kind, stream, choose.random() < 0.7) for kind, stream in zip(kinds, streams, strict=True))
