"""What a sink adds to a job: operators before its writers, operators behind them, a global committer."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program

from penstock._engine.coordinator import instructions as do
from penstock._engine.rest.metrics import operator_metrics
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.base import (
    CheckpointFunction,
    CommittableWithLineage,
    Committer,
    CommittingSinkWriter,
    GlobalCommitter,
    Sink,
    StreamTransformer,
    SupportsCommitter,
    SupportsGlobalCommitter,
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreprocessing,
)
from penstock.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pathlib import Path

#: By target: (who, checkpoint, the numbers of each committable, whether it may be committed), in their order.
CALLS: dict[str, list[tuple[str, int, list[tuple[int, list[int]]], bool]]] = defaultdict(list)


class Writer(CommittingSinkWriter[int, list[int]]):
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def write(self, element: int, context: Any) -> None:
        self.numbers.append(element)

    def flush(self, end_of_input: bool) -> None:
        pass

    def prepare_commit(self) -> list[list[int]]:
        made, self.numbers = self.numbers, []
        return [made] if made else []


class Noted(Committer[Any], GlobalCommitter[Any]):
    """Notes its calls; the first of a target answers as it is told."""

    def __init__(self, target: str, who: str, answer: str = "") -> None:
        self.target, self.who, self.answer = target, who, answer

    def commit(self, requests: Any) -> None:
        requests = list(requests)
        first = not any(call[0] == self.who for call in CALLS[self.target])
        committables = [(request.subtask_id, request.get_committable()) for request in requests]
        CALLS[self.target].append(
            (self.who, requests[0].checkpoint_id, committables, any(one.may_be_committed for one in requests))
        )
        if first and self.answer == "later":
            requests[0].retry_later()
        elif first and self.answer == "known":
            requests[0].signal_failed_with_known_reason(ValueError("too old"))
        elif first and self.answer == "already":
            requests[0].signal_already_committed()
        elif first and self.answer == "raise":
            raise ValueError(self.who)


class GlobalSink(Sink[int], SupportsGlobalCommitter[Any]):
    def __init__(self, target: str, answer: str = "") -> None:
        self.target, self.answer = target, answer

    def create_writer(self, context: Any) -> Writer:
        return Writer()

    def create_global_committer(self, context: Any) -> Noted:
        assert context.operator_uid == "out"
        return Noted(self.target, "global", self.answer)


class BothSink(GlobalSink, SupportsCommitter[Any]):
    def create_committer(self, context: Any) -> Noted:
        return Noted(self.target, "committer", self.answer)

    def create_global_committer(self, context: Any) -> Noted:
        return Noted(self.target, "global")


class Merge(CheckpointFunction["CommittableWithLineage[Any]", Any]):
    def process_checkpoint(self, records: Any, state: list[Any], context: Any, end_of_input: bool) -> Any:
        state += [number for record in records for number in record.committable]
        if len(state) > 8 or end_of_input:
            numbers = sorted(state)
            state.clear()
            yield CommittableWithLineage(numbers, context.checkpoint_id, context.subtask_id)


class MergingSink(BothSink, SupportsPreCommitTopology[Any], SupportsPreprocessing):
    def get_transformer(self) -> StreamTransformer:
        return Doubled()

    def add_pre_commit_topology(self, committables: Any) -> Any:
        return committables.process_checkpoint(Merge()).name("Merge").set_parallelism(1)


class Doubled(StreamTransformer):
    def apply(self, ds: Any) -> Any:
        return ds.map(lambda number: 2 * number)


def run(place: Path, sink: Any, *, parallelism: int = 2) -> Driven:
    program = Program(place, parallelism, interval="1 s", restart="fixed-delay", attempts="5", delay="1 ms")
    program.source(list(range(10)), list(range(10, 20))).sink_to(sink).uid("out")
    driven = Driven(program.env, place / "state", Epochs(4))
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    return driven


def numbers(target: str, who: str) -> list[int]:
    return sorted(number for call in CALLS[target] if call[0] == who for _, part in call[2] for number in part)


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.mark.behaviour(117)
def test_a_global_committer_gets_all_committables_of_a_checkpoint_in_one_call(tmp_path: Path, target: str) -> None:
    run(tmp_path, GlobalSink(target))
    assert numbers(target, "global") == list(range(20))
    checkpoints = [call[1] for call in CALLS[target]]
    assert checkpoints == sorted(set(checkpoints))
    assert [subtask for subtask, _ in CALLS[target][0][2]] == [0, 1]
    assert not any(call[3] for call in CALLS[target])


@pytest.mark.behaviour(117)
def test_a_global_committer_follows_the_committer_and_waits_for_what_that_postpones(
    tmp_path: Path, target: str
) -> None:
    run(tmp_path, BothSink(target, "later"))
    order = [(who, may_be_done) for who, _, _, may_be_done in CALLS[target]]
    assert order[:3] == [("committer", False), ("committer", True), ("global", True)]
    first, again, whole = (call[2] for call in CALLS[target][:3])
    assert first == again == whole
    assert numbers(target, "global") == list(range(20))


@pytest.mark.parametrize("answer", ["raise", "later"])
def test_a_global_commit_that_fails_is_done_again_as_a_whole(tmp_path: Path, target: str, answer: str) -> None:
    run(tmp_path, GlobalSink(target, answer))
    first, again = CALLS[target][:2]
    assert first[:3] == again[:3]
    assert again[3]
    assert sorted({number for call in CALLS[target] for _, part in call[2] for number in part}) == list(range(20))


def test_what_the_committer_gives_up_does_not_come_to_the_global_one(tmp_path: Path, target: str) -> None:
    driven = run(tmp_path, BothSink(target, "known"))
    (given_up,) = driven.driver.view.given_up
    assert (given_up.uid, given_up.count) == ("out", 1)
    lost = CALLS[target][0][2][0][1]
    assert numbers(target, "global") == sorted(set(range(20)) - set(lost))


@pytest.mark.behaviour(118)
def test_operators_before_and_behind_the_writers(tmp_path: Path, target: str) -> None:
    driven = run(tmp_path, MergingSink(target))
    doubled = [2 * number for number in range(20)]
    assert numbers(target, "committer") == numbers(target, "global") == doubled
    assert all(len(call[2]) == 1 for call in CALLS[target])
    commits = driven.of(do.Commit)
    assert {commit.commit.uid for commit in commits} == {"out"}
    assert len(commits) < len(driven.of(do.RunEpoch))
    uids = set(driven.graph.operators)
    assert {"out: Map", "out", "out: Merge", "out: Committables"} <= uids
    sizes = {node.name: vertex.parallelism for vertex in driven.graph.vertices for node in vertex.operators}
    assert (sizes["Map"], sizes["Sink: out"], sizes["Merge"], sizes["Committables"]) == (2, 2, 1, 2)


class Behind(MergingSink, SupportsPostCommitTopology[Any]):
    def __init__(self, target: str, inside: Sink[Any]) -> None:
        super().__init__(target)
        self.inside = inside

    def add_post_commit_topology(self, committables: Any) -> None:
        committables.flat_map(lambda one: one.committable).sink_to(self.inside)


def test_a_sink_behind_a_committer_has_topologies_of_its_own(tmp_path: Path, target: str) -> None:
    driven = run(tmp_path, Behind(target, MergingSink(f"{target}/inside")))
    assert numbers(target, "committer") == [2 * number for number in range(20)]
    assert numbers(f"{target}/inside", "committer") == [4 * number for number in range(20)]
    uids = set(driven.graph.operators)
    assert {"out: Merge", "out: Committed", "out: Sink"} <= uids
    assert {"out: Sink: Map", "out: Sink: Merge", "out: Sink: Committables"} <= uids
    assert {commit.commit.uid for commit in driven.of(do.Commit)} == {"out", "out: Sink"}


class Flawed(MergingSink):
    def add_pre_commit_topology(self, committables: Any) -> Any:
        return committables.map(lambda one: one.committable)


def test_topologies_that_return_something_else_are_named(tmp_path: Path, target: str) -> None:
    program = Program(tmp_path, 1, restart="none")
    stream = program.source([1])
    sink = MergingSink(target)
    sink.add_pre_commit_topology = lambda committables: None  # type: ignore[method-assign]
    with pytest.raises(TypeError, match=r"has to come from add_pre_commit_topology\(\), not None"):
        stream.sink_to(sink)
    with pytest.raises(TypeError, match="must be a CheckpointFunction"):
        stream.process_checkpoint(len)  # type: ignore[arg-type]

    class NoCommitter(Sink[int], SupportsPreCommitTopology[Any]):
        def create_writer(self, context: Any) -> Writer:
            return Writer()

        def add_pre_commit_topology(self, committables: Any) -> Any:
            return committables

    with pytest.raises(UnsupportedOperationError, match="it has no committer"):
        stream.sink_to(NoCommitter())

    class NothingCommitted(Sink[int], SupportsPostCommitTopology[Any]):
        def create_writer(self, context: Any) -> Writer:
            return Writer()

        def add_post_commit_topology(self, committables: Any) -> None:
            committables.print()

    with pytest.raises(UnsupportedOperationError, match=r"post-commit topology of NothingCommitted .*no committer"):
        stream.sink_to(NothingCommitted())
    flawed = Program(tmp_path, 1, restart="none")
    flawed.source([1]).sink_to(Flawed(target))
    driven = Driven(flawed.env, tmp_path / "state", Epochs())
    driven.run()
    assert "has to return CommittableWithLineage, not [2]" in str(driven.driver.result.exception().__cause__)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("", {"failedCommittables": 0, "retriedCommittables": 0}),
        ("later", {"failedCommittables": 0, "retriedCommittables": 2}),
        ("known", {"failedCommittables": 1, "retriedCommittables": 0}),
        ("already", {"failedCommittables": 0, "alreadyCommittedCommittables": 1}),
    ],
)
def test_committables_are_counted_under_the_names_of_flink(
    tmp_path: Path, target: str, answer: str, expected: dict[str, int]
) -> None:
    view = run(tmp_path, GlobalSink(target, answer)).driver.view
    (counted,) = view.commit_metrics.values()
    assert counted.items() >= expected.items()
    outcomes = ("successfulCommittables", "alreadyCommittedCommittables", "failedCommittables")
    made = sum(len(call[2]) for call in CALLS[target]) - int(counted["retriedCommittables"])
    assert counted["totalCommittables"] == sum(counted[name] for name in outcomes) == made
    uids = [{node.uid for node in vertex.operators} for vertex in view.plan.vertices]
    vertex = next(place for place, of_vertex in enumerate(uids) if "out" in of_vertex)
    found = {name: value for (uid, name), value in operator_metrics(view, vertex, 0).items() if uid == "out"}
    assert found.items() >= {**counted, "pendingCommittables": 0}.items()
    assert ("out", "totalCommittables") not in operator_metrics(view, vertex, 1)
