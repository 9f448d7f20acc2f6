"""Whatever is done to a program without uids, no operator goes on with the state of another one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hypothesis import assume, given
from hypothesis import strategies as st

from penstock._engine.coordinator.checkpoints.snapshots import fresh_snapshot
from penstock._engine.coordinator.restore.state_assignment import assign_state
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.protocol.metadata import JobSnapshot, SourceCoordinatorState
from penstock._engine.protocol.state_handle import StateHandle
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, MapFunction, ReduceFunction, StreamExecutionEnvironment
from penstock.errors import RestoreError
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.graph.job_graph import JobGraph

PATH = "job/chk-7"


class Steps(MapFunction):
    def __init__(self, number: int) -> None:
        self.number = number

    def map(self, value: Any) -> Any:
        return value


class Folds(ReduceFunction):
    def __init__(self, number: int) -> None:
        self.number = number

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2


class Counts(KeyedProcessFunction):
    def __init__(self, number: int) -> None:
        self.number = number

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


STAGES: dict[str, Callable[[Any, int], Any]] = {
    "map": lambda stream, number: stream.map(Steps(number)),
    "reduce": lambda stream, number: stream.key_by(str).reduce(Folds(number)),
    "count": lambda stream, number: stream.key_by(str).process(Counts(number)),
}
STATEFUL = {"source", "reduce", "count"}


@dataclass(frozen=True)
class Piece:
    """An operator of a program: which one it is, and what it reads; a source reads nothing."""

    number: int
    kind: str
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Program:
    """Operators in the order in which the program makes them."""

    pieces: tuple[Piece, ...]
    #: The next number that no operator has had.
    following: int
    parallelism: int = 1
    chaining: bool = True
    #: Whether the operators have names of their own; else their functions alone tell them apart.
    named: bool = False

    def graph(self) -> JobGraph:
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(self.parallelism)
        if not self.chaining:
            env.disable_operator_chaining()
        streams: dict[int, Any] = {}
        for piece in self.pieces:
            if piece.kind == "source":
                source = ListSource([piece.number], happened_in="nowhere")
                name = f"{piece.number}" if self.named else "numbers"
                stream = env.from_source(source, WatermarkStrategy.no_watermarks(), name)
                stream.map(Steps(-1)).name("reader")  # else a source that nothing reads is not in the job
            else:
                first, *others = (streams[number] for number in piece.inputs)
                stream = STAGES[piece.kind](first.union(*others) if others else first, piece.number)
                if self.named:
                    stream.name(f"{piece.number}")
            streams[piece.number] = stream
        return build_job_graph(env._stream_graph("job"))

    def order_is_possible(self) -> bool:
        made: set[int] = set()
        for piece in self.pieces:
            if not made.issuperset(piece.inputs):
                return False
            made.add(piece.number)
        return True


def numbers(program: Program, graph: JobGraph) -> dict[str, int]:
    """Which operator each uid is, of those that keep state."""
    uids = [uid for uid in graph.places if graph.operators[uid].name != "reader"]
    found = zip(uids, program.pieces, strict=True)
    return {uid: piece.number for uid, piece in found if graph.operators[uid].stateful}


def stored(program: Program, graph: JobGraph) -> JobSnapshot:
    """A checkpoint in which each operator's state says whose it is."""
    snapshot, whose = fresh_snapshot(graph), numbers(program, graph)
    operators = dict(snapshot.operators)
    for uid, number in whose.items():
        record = operators[uid]
        if graph.operators[uid].factory.kind == "source":
            operators[uid] = replace(record, enumerator=SourceCoordinatorState(b"%d" % number))
        else:
            handle = StateHandle(1, 1, "snapshot", str(number), None, 10, 1, 0, (0, 127))
            first = replace(record.subtasks[0], lineage=(handle,))
            operators[uid] = replace(record, subtasks=(first, *record.subtasks[1:]))
    return replace(snapshot, operators=operators)


def owners(snapshot: JobSnapshot) -> dict[str, int]:
    """Whose state each uid has."""
    found: dict[str, int] = {}
    for uid, record in snapshot.operators.items():
        if record.enumerator is not None:
            found[uid] = int(record.enumerator.state)
        for part in record.subtasks:
            for handle in part.lineage:
                found[uid] = int(handle.path or -1)
    return found


@st.composite
def programs(draw: st.DrawFn) -> Program:
    pieces = [Piece(0, "source")]
    for number in range(1, draw(st.integers(2, 6))):
        kind = draw(st.sampled_from(["source", *STAGES]))
        inputs: tuple[int, ...] = ()
        if kind != "source":
            inputs = tuple(draw(st.lists(st.sampled_from(range(number)), min_size=1, max_size=2, unique=True)))
        pieces.append(Piece(number, kind, inputs))
    return Program(tuple(pieces), len(pieces), draw(st.integers(1, 3)), draw(st.booleans()), draw(st.booleans()))


def rewired(pieces: list[Piece], old: int, new: tuple[int, ...]) -> list[Piece]:
    def inputs(piece: Piece) -> tuple[int, ...]:
        found = (other for number in piece.inputs for other in (new if number == old else (number,)))
        return tuple(dict.fromkeys(found))

    return [replace(piece, inputs=inputs(piece)) for piece in pieces]


@st.composite
def edited(draw: st.DrawFn, program: Program) -> Program:
    """One edit, as a user makes it."""
    pieces = list(program.pieces)
    at = draw(st.integers(0, len(pieces) - 1))
    here, new = pieces[at], program.following
    kind = draw(st.sampled_from(["map", "reduce", "count"]))
    match draw(st.sampled_from(["before", "after", "beside", "source", "swap", "remove", "kind", "run"])):
        case "before" if here.inputs:
            pieces[at:] = [Piece(new, kind, here.inputs), replace(here, inputs=(new,)), *pieces[at + 1 :]]
        case "after":
            pieces[at + 1 :] = [Piece(new, kind, (here.number,)), *rewired(pieces[at + 1 :], here.number, (new,))]
        case "beside" if here.inputs:
            added = Piece(new, draw(st.sampled_from([here.kind, kind])), here.inputs)
            pieces[at:at] = draw(st.sampled_from([[added], []])) or []
            if len(pieces) == len(program.pieces):
                pieces.insert(draw(st.integers(at, len(pieces))), added)
        case "source":
            pieces.insert(at, Piece(new, "source"))
        case "swap":
            other = draw(st.integers(0, len(pieces) - 1))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        case "remove" if len(pieces) > 1:
            del pieces[at]
            pieces = [
                piece for piece in rewired(pieces, here.number, here.inputs) if piece.kind == "source" or piece.inputs
            ]
            known = {piece.number for piece in pieces}
            assume(all(known.issuperset(piece.inputs) for piece in pieces))
        case "kind" if here.inputs:
            pieces[at] = Piece(new, kind, here.inputs)
            assume(kind != here.kind)
            pieces = rewired(pieces, here.number, (new,))
        case "run":
            return replace(program, parallelism=draw(st.integers(1, 3)), chaining=draw(st.booleans()))
        case _:
            pass
    result = replace(program, pieces=tuple(pieces), following=new + 1)
    assume(pieces)
    assume(result.order_is_possible())
    return result


def keeps_what_is_its_own(snapshot: JobSnapshot, was: dict[str, int], now: dict[str, int]) -> None:
    """Check that an operator has its own state; only one that stands where a removed one stood may pass for that."""
    for uid, owner in owners(snapshot).items():
        changed_in_its_place = owner not in now.values() and now[uid] not in was.values()
        assert owner == now[uid] or changed_in_its_place


@given(st.data(), programs(), st.integers(1, 3))
def test_an_operator_has_its_own_state_or_the_start_is_refused(
    data: st.DataObject, program: Program, edits: int
) -> None:
    before = program.graph()
    checkpoint, was = stored(program, before), numbers(program, before)
    for _ in range(edits):
        program = data.draw(edited(program))
    after = program.graph()
    now = numbers(program, after)
    try:
        snapshot = assign_state(checkpoint, after, PATH, ignore_unclaimed=False, stops=False).snapshot
    except RestoreError:
        pass
    else:
        keeps_what_is_its_own(snapshot, was, now)
    snapshot = assign_state(checkpoint, after, PATH, ignore_unclaimed=True, stops=False).snapshot
    keeps_what_is_its_own(snapshot, was, now)
    assert snapshot.places == after.places, "the next start compares with this program"


@given(programs(), st.integers(1, 3), st.booleans(), st.data())
def test_a_program_that_only_goes_on_further_and_runs_otherwise_has_all_its_state(
    program: Program, parallelism: int, chaining: bool, data: st.DataObject
) -> None:
    before = program.graph()
    was = numbers(program, before)
    last = program.pieces[-1].number
    grown = (Piece(program.following, data.draw(st.sampled_from(sorted(STAGES))), (last,)),)
    longer = replace(program, pieces=program.pieces + grown, parallelism=parallelism, chaining=chaining)
    after = longer.graph()
    snapshot = assign_state(stored(program, before), after, PATH, ignore_unclaimed=False, stops=False).snapshot
    assert sorted(owners(snapshot).values()) == sorted(was.values())
    keeps_what_is_its_own(snapshot, was, numbers(longer, after))
