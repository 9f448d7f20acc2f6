"""Commits that cannot succeed: the error names the committable, and one start option decides what becomes of it."""

from __future__ import annotations

import json
import pickle
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells
from tests.kit.world import TARGETS, TargetCommitter, TargetSink, World, numbers_job, published

from penstock._api.connectors.transactional import StagedRecords
from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.processes.exit_codes import ExitCode, exit_code_of
from penstock._engine.processes.given_up import take_given_up
from penstock._engine.protocol.committables import committable_ids
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.protocol.non_recoverable import is_non_recoverable
from penstock._engine.protocol.versioned import pack
from penstock._engine.rest.job_progress import job_progress
from penstock._engine.savepoints.chains import read_chains
from penstock._engine.savepoints.pending import _contents, pending_committables
from penstock._engine.storage.opening import open_storage
from penstock.common.interrupts import _Noted
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.base import Sink
from penstock.errors import (
    CommitOutcomeUnknownError,
    ConfigurationError,
    JobExecutionError,
    LostCommittableError,
    UnclaimedStateError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.protocol.metadata import ChainEntry

LIMIT = 20
POISON = 7
COMMITTABLES = "penstock.committables"


class PoisonSink(TargetSink):
    """A sink whose target refuses what holds one number."""

    def __init__(self, target: str, *, names_it: bool = True, reads: bool = True) -> None:
        super().__init__(target)
        self.names_it, self.reads = names_it, reads

    def create_committer(self, context: Any) -> PoisonCommitter:
        return PoisonCommitter(self)


class PoisonCommitter(TargetCommitter):
    def __init__(self, sink: PoisonSink) -> None:
        super().__init__(TARGETS.setdefault(sink.target, {}))
        self.sink = sink

    def commit(self, requests: Any) -> None:
        for request in requests:
            if POISON in request.get_committable()[1]:
                error = ValueError("new row violates check constraint")
                if not self.sink.names_it:
                    raise error
                request.signal_failed_with_unknown_reason(error)
            else:
                super().commit([request])

    def describe(self, committable: Any) -> str:
        return f"{len(committable[1])} rows"

    def read_records(self, committable: Any) -> Any:
        return list(committable[1]) if self.sink.reads else None


class ForgetfulSink(TargetSink):
    """A sink whose target has lost its marks: nothing can tell what was committed before this start."""

    def create_committer(self, context: Any) -> ForgetfulCommitter:
        return ForgetfulCommitter(TARGETS.setdefault(self.target, {}))


class ForgetfulCommitter(TargetCommitter):
    def commit(self, requests: Any) -> None:
        for request in requests:
            if request.may_be_committed:
                reason = "its mark in the target has expired"
                request.signal_failed_with_unknown_reason(CommitOutcomeUnknownError("A checkpoint", reason))
            else:
                super().commit([request])


def run(name: str, sink: Any, *, cancel_after: int | None = None, **settings: str) -> JobDriver:
    world = World(numbers_job(name, limit=LIMIT, split_size=10, sink=sink), patience=3)
    given = {"interval": "1 s", "recover": "latest", "restart": "none", **settings}
    driver, loop = world.driver(f"memory://{name}", **given)
    perform, epochs = loop.perform, iter(range(1, 1000))

    def watched(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.PublishProgress) and next(epochs) == cancel_after:
            loop._mailbox.post(ev.CancelRequested())

    loop.perform = watched  # type: ignore[method-assign]
    driver.run(loop)
    return driver


def entries(name: str) -> list[ChainEntry]:
    [chain] = read_chains(open_storage(f"memory://{name}"))
    return [chain.entries[number] for number in sorted(chain.entries)]


def pending(name: str) -> dict[str, tuple[int, ...]]:
    """Return the committables that the newest entry of a job lists, by id, with their numbers."""
    commits = entries(name)[-1].commits
    assert commits is not None
    return {
        id_: pickle.loads(item.payload[4:])[1]
        for commit in commits.outstanding
        for id_, item in zip(committable_ids(commit), commit.committables, strict=True)
    }


def poisoned(name: str, sink: Any = None) -> str:
    """Run a job that ends because of the poison, and return the id of the committable that has it."""
    driver = run(name, sink or PoisonSink(name))
    assert driver.status is JobStatus.FAILED
    [id_] = [id_ for id_, numbers in pending(name).items() if POISON in numbers]
    return id_


def numbers(counted: Any) -> set[int]:
    return set(counted.elements())


def test_the_error_names_sink_committable_its_first_record_the_targets_words_and_the_way_out(name: str) -> None:
    driver = run(name, PoisonSink(name))
    error = driver.result.exception()
    [(id_, held)] = [item for item in pending(name).items() if POISON in item[1]]
    assert isinstance(error, JobExecutionError)
    for part in (
        *("'Sink: target' (uid 'target')", f"committable {id_},", f"{len(held)} rows, first of all {held[0]}"),
        *("new row violates check constraint", "--committable ID=give-up", COMMITTABLES),
    ):
        assert part in str(error)
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("is_typed", [False, True])
def test_a_committer_that_cannot_describe_hides_no_error_of_a_commit_and_no_interrupt(
    name: str, monkeypatch: pytest.MonkeyPatch, *, is_typed: bool
) -> None:
    def interrupted(self: PoisonCommitter, committable: Any) -> str:
        monkeypatch.setattr(_Noted, "came", is_typed)
        raise KeyboardInterrupt

    monkeypatch.setattr(PoisonCommitter, "describe", interrupted)
    if is_typed:
        with pytest.raises(KeyboardInterrupt):
            run(name, PoisonSink(name))
    else:
        error = str(run(name, PoisonSink(name)).result.exception())
        assert "new row violates check constraint" in error
        assert "its committer tells nothing (KeyboardInterrupt())" in error


def test_an_error_that_names_no_committable_is_about_all_of_its_checkpoint(name: str) -> None:
    error = run(name, PoisonSink(name, names_it=False)).result.exception()
    left = pending(name)
    [poison] = [id_ for id_, held in left.items() if POISON in held]
    together = [id_ for id_ in left if id_.partition("-")[0] == poison.partition("-")[0]]
    assert len(together) > 1
    assert re.search(r"committables \S+, .*, the first of which holds \d+ rows", str(error))
    assert all(id_ in str(error) for id_ in together)


@pytest.mark.parametrize("reads", [True, False])
def test_a_corrected_program_goes_on_without_the_poison_and_loses_nothing_else(
    name: str, tmp_path: Path, reads: bool
) -> None:
    id_ = poisoned(name)
    lost = set(pending(name)[id_])
    file = tmp_path / "lost.jsonl"
    driver = run(name, PoisonSink(name, reads=reads), **{COMMITTABLES: f"{id_}=give-up:{file}"})
    assert driver.status is JobStatus.FINISHED
    assert set(published(name).values()) == {1}
    assert numbers(published(name)) | lost == set(range(LIMIT))
    assert numbers(published(name)).isdisjoint(lost)
    lines = list(map(json.loads, file.read_text().splitlines()))
    if reads:
        assert set(lines) == lost
    else:
        assert [(line["committable"], line["sink"]) for line in lines] == [(id_, "target")]
    [shown] = job_progress(driver.view).given_up_committables
    assert (shown.uid, shown.count) == ("target", 1)  # in REST, and below by the exit code and in the result
    assert [line for line in take_given_up() if id_ in line]
    [told] = driver.result.result(0).get_given_up_committables()
    assert (told.operator_uid, told.count) == ("target", 1)
    assert id_ in told.reason
    assert str(file) in told.reason


def test_what_is_given_up_stays_so_from_the_takeover_on(name: str) -> None:
    id_ = poisoned(name)
    run(name, PoisonSink(name), **{COMMITTABLES: f"{id_}=give-up"})
    takeover = [entry for entry in entries(name) if entry.kind is ChainEntryKind.TAKEOVER][-1]
    assert takeover.commits is not None
    assert id_ not in {one for commit in takeover.commits.outstanding for one in committable_ids(commit)}
    assert [one.count for one in takeover.commits.given_up] == [1]


def test_the_log_of_the_start_has_each_decision(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A job without an end has no result and no exit code that would tell them."""
    file = tmp_path / "lost.jsonl"
    for action, told in (
        ("give-up", "is given up, and its records are in no output (penstock.committables)"),
        (f"give-up:{file}", f"(penstock.committables); what it held is in {file}"),
        ("skip", "counts as committed, and is not committed"),
        ("publish", "is committed, although it may have been before"),
    ):
        job = f"{name}-{action.partition(':')[0]}-{len(action)}"
        id_ = poisoned(job)
        caplog.clear()
        run(job, PoisonSink(job), **{COMMITTABLES: f"{id_}={action}"})
        [line] = [record.getMessage() for record in caplog.records if f"committable {id_} of" in record.getMessage()]
        assert told in line
        assert "(uid 'target')" in line


def test_an_id_that_does_not_exist_is_an_error_before_anything_is_touched(name: str, tmp_path: Path) -> None:
    id_ = poisoned(name)
    before = [entry.nonce for entry in entries(name)]
    file = tmp_path / "lost.jsonl"
    given = f"{id_}=give-up:{file};7-0-000000000000=skip"
    error = run(name, PoisonSink(name), **{COMMITTABLES: given}).result.exception()
    assert isinstance(error, UnknownStateError)
    assert "7-0-000000000000" in str(error)
    assert id_ in str(error)
    assert [entry.nonce for entry in entries(name)] == before
    assert not file.exists()


def test_a_file_with_something_else_in_it_is_not_written_over(name: str, tmp_path: Path) -> None:
    id_, file = poisoned(name), tmp_path / "lost.jsonl"
    file.write_text("mine")
    before = len(entries(name))
    error = run(name, PoisonSink(name), **{COMMITTABLES: f"{id_}=give-up:{file}"}).result.exception()
    assert isinstance(error, ConfigurationError)
    assert file.read_text() == "mine"
    assert len(entries(name)) == before


def test_a_job_that_starts_fresh_has_nothing_to_decide_about(name: str) -> None:
    error = run(name, PoisonSink(name), **{COMMITTABLES: "7-0-000000000000=skip"}).result.exception()
    assert isinstance(error, ConfigurationError)
    assert "execution.state-recovery.path: latest" in str(error)


@pytest.mark.parametrize(
    "given", ["7-0-5f", "7-0-5f=drop", "7-0-5f=skip:/tmp/x", "a=skip;a=publish", "a=give-up:/x;b=give-up:/x"]
)
def test_what_is_no_decision_is_refused(name: str, given: str) -> None:
    with pytest.raises(ConfigurationError, match=COMMITTABLES):
        run(name, PoisonSink(name), **{COMMITTABLES: given})


def test_where_nobody_knows_the_start_ends_for_good_until_the_user_decides(name: str) -> None:
    id_ = poisoned(name)  # it was never committed; the other ones of its checkpoint were
    error = run(name, ForgetfulSink(name), restart="fixed-delay").result.exception()
    assert isinstance(error, JobExecutionError)
    assert id_ in str(error)
    assert "ID=skip" in str(error)
    assert "ID=publish" in str(error)
    assert isinstance(error.__cause__, CommitOutcomeUnknownError)
    assert is_non_recoverable(error.__cause__)
    assert exit_code_of(error) == ExitCode.UNDECIDED


@pytest.mark.parametrize("action", ["publish", "skip"])
def test_the_user_decides_by_one_option_and_nothing_is_twice(name: str, action: str) -> None:
    id_ = poisoned(name)
    held, before = pending(name), numbers(published(name))
    driver = run(name, ForgetfulSink(name), **{COMMITTABLES: ";".join(f"{one}={action}" for one in held)})
    assert driver.status is JobStatus.FINISHED
    assert set(published(name).values()) == {1}
    missing = set() if action == "publish" else {number for some in held.values() for number in some} - before
    assert id_ in held
    assert numbers(published(name)) == set(range(LIMIT)) - missing
    assert not driver.result.result(0).get_given_up_committables()


@pytest.mark.parametrize("by_path", [False, True], ids=["latest", "by its path"])
def test_what_is_known_as_committed_when_a_job_is_cancelled_is_not_committed_again(name: str, by_path: bool) -> None:
    run(name, ForgetfulSink(name), cancel_after=3)
    last = entries(name)[-1]
    assert last.kind is ChainEntryKind.CANCELED
    assert last.parent is not None
    assert last.commits is not None
    assert not last.commits.outstanding
    path = f"memory://{name}/{last.parent.path}" if by_path else "latest"
    driver = run(name, ForgetfulSink(name), recover=path)
    assert driver.status is JobStatus.FINISHED
    assert published(name) == dict.fromkeys(range(LIMIT), 1)


def test_an_entry_tells_what_is_still_to_be_committed_as_far_as_plain_values_go(name: str) -> None:
    id_ = poisoned(name)
    *before, end = entries(name)
    [checkpoint] = [entry for entry in before if end.parent and entry.checkpoint_id == end.parent.checkpoint_id]
    for entry in (end, checkpoint):
        [one] = [one for one in pending_committables(entry) if one.id == id_]
        assert (one.uid, f"{one.checkpoint_id}-{one.subtask}") == ("target", id_.rpartition("-")[0])
        assert str(POISON) in one.contents
        assert "(" in one.contents


def changed(name: str, sink: Any, uid: str, **settings: str) -> JobDriver:
    """Run a job, poisoned before, with another sink or another uid."""
    graph = numbers_job(name, limit=LIMIT, split_size=10, sink=sink)
    reader, writer = graph.vertices
    target, *others = writer.operators
    writer = replace(writer, operators=(replace(target, uid=uid), *others))
    driver, loop = World(replace(graph, vertices=(reader, writer)), patience=3).driver(
        f"memory://{name}", **{"interval": "1 s", "recover": "latest", "restart": "fixed-delay", **settings}
    )
    driver.run(loop)
    return driver


@pytest.mark.parametrize("by_path", [False, True], ids=["latest", "by its path"])
def test_what_a_dropped_sink_had_to_commit_is_told_before_and_after_it_is_lost(name: str, by_path: bool) -> None:
    poisoned(name)
    count = len(pending(name))
    [*_, end] = entries(name)
    assert end.parent is not None
    given = {"recover": f"memory://{name}/{end.parent.path}"} if by_path else {}
    refused = changed(name, None, "other", **given).result.exception()
    assert isinstance(refused, UnclaimedStateError)
    assert f"{count} committables" in str(refused)
    driver = changed(name, None, "other", **given, **{"execution.state-recovery.ignore-unclaimed-state": "true"})
    assert driver.status is JobStatus.FINISHED
    told = driver.result.result(0).get_given_up_committables()
    assert [one.operator_uid for one in told] == ["target", "target"]
    assert sum(one.count for one in told) == count
    assert take_given_up()


class PlainSink(Sink):
    """A sink that commits nothing."""

    def create_writer(self, context: Any) -> Any:
        raise AssertionError("the world writes itself")


def test_a_uid_that_is_no_sink_with_a_committer_now_is_told_with_the_ways_out(name: str, tmp_path: Path) -> None:
    poisoned(name)
    left = list(pending(name))
    error = changed(name, PlainSink(), "target").result.exception()
    assert isinstance(error, JobExecutionError)
    assert "sink that commits" in str(error)
    assert left[0] in str(error)
    decisions = ";".join(f"{id_}=give-up:{tmp_path / id_}" for id_ in left)
    driver = run(name, PlainSink(), cancel_after=1, **{COMMITTABLES: decisions})
    assert driver.result.result(0).get_given_up_committables()
    assert [json.loads((tmp_path / id_).read_text())["committable"] for id_ in left] == left


class HalfCommitter(PoisonCommitter):
    def commit(self, requests: Any) -> None:
        for request in requests:
            if POISON in request.get_committable()[1]:
                raise ValueError("refused")
            TargetCommitter.commit(self, [request])


class HalfSink(PoisonSink):
    """A sink that commits one after the other, and does not say which one was refused."""

    def create_committer(self, context: Any) -> PoisonCommitter:
        return HalfCommitter(self)


def test_an_error_about_several_advises_to_look_which_of_them_the_target_has(name: str) -> None:
    error = run(name, HalfSink(name)).result.exception()
    assert "some may be in the target already" in str(error)
    assert "some may be in the target already" not in str(run(name, PoisonSink(name)).result.exception())


class LosingCommitter(PoisonCommitter):
    def commit(self, requests: Any) -> None:
        for request in requests:
            request.signal_failed_with_unknown_reason(LostCommittableError("A part", "what was staged is gone"))


class LosingSink(PoisonSink):
    """A sink whose staged data is gone."""

    def create_committer(self, context: Any) -> PoisonCommitter:
        return LosingCommitter(self)


def test_an_error_about_staged_data_that_is_gone_does_not_say_that_nothing_is_lost(name: str) -> None:
    error = str(run(name, LosingSink(name)).result.exception())
    assert "ID=give-up" in error
    assert "Nothing is lost" not in error
    assert "Nothing is lost" in str(run(name, PoisonSink(name)).result.exception())


class Own:
    """A class of the program, which is not called to tell of it."""

    def __reduce__(self) -> Any:
        return sys.exit, ("its code was run",)


@dataclass(frozen=True)
class Pickled:
    """A committable and what is told of its contents."""

    payload: bytes
    told: str


@cells(
    "case",
    {
        "plain": Pickled(pickle.dumps((7, "a")), "(7, 'a')"),
        "built-in": Pickled(pickle.dumps(StagedRecords("1", ("a",))), "StagedRecords(attempt='1', names=('a',))"),
        "own": Pickled(pickle.dumps(Own()), "a sys.exit"),
        "no pickle": Pickled(b"\xff\x00", "bytes of version 1 of its serializer"),
    },
)
def test_contents_are_told_without_running_any_code(case: Pickled) -> None:
    assert _contents(pack(1, case.payload)) == case.told
