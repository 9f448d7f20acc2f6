"""Enumerators that act while a checkpoint is cut: whatever they do counts before it or behind it, never in between."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.kit.world import NumbersEnumerator, World, numbers_job, published
from tests.unit.driver.epochs.test_enumerators import Scripted, decided, opened

from penstock._engine.coordinator import instructions as do
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors import base
from penstock.errors import JobRunError

if TYPE_CHECKING:
    from penstock._engine.driver.loop import JobLoop


class Trickling(NumbersEnumerator):
    """Gives a split away whenever a call that it made beside the loop is answered, and at no other time."""

    newest: ClassVar[Trickling]

    def __init__(self, context: Any, splits: Any) -> None:
        super().__init__(context, splits)
        type(self).newest = self

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        pass

    def trickle(self, world: World) -> None:
        """Have the answer of a call arrive now."""
        self.context.call_async(lambda: None, self.on_answer)
        world.pending.pop()()

    def on_answer(self, result: Any, error: Exception | None) -> None:
        if self.splits:
            self.context.assign_split(self.splits.pop(0), len(self.splits) % 2)
        else:
            for subtask in self.context.registered_readers:
                self.context.signal_no_more_splits(subtask)


_names = itertools.count()


class Few(Scripted):
    """A source of three splits."""

    def __init__(self, kind: type[NumbersEnumerator]) -> None:
        super().__init__(kind)
        self.limit = 15


class Moment:
    """Right before or behind an instruction: an answer arrives there, and the next epoch fails."""

    def __init__(self, number: int, world: World, loop: JobLoop) -> None:
        self.left, self.world = number, world
        self.perform, loop.perform = loop.perform, self.performing

    def performing(self, instruction: do.Instruction) -> None:
        self.pass_by()
        self.perform(instruction)
        self.pass_by()
        # All that is not given away at that moment goes out epoch by epoch, once the job runs.
        if isinstance(instruction, do.RunEpoch) and self.world.runs > 1:
            self.trickle()

    def pass_by(self) -> None:
        if self.left == 0:
            self.trickle()
            self.world.trouble[self.world.runs + 1] = RuntimeError("once")
        self.left -= 1

    def trickle(self) -> None:
        if hasattr(Trickling, "newest") and not Trickling.newest.context.closed:
            Trickling.newest.trickle(self.world)


def test_a_split_given_away_at_any_moment_is_read_once() -> None:
    """The moments before and behind each instruction in turn; right after it, the job fails and restarts."""
    for number in itertools.count():
        name = f"cuts-{next(_names)}"
        world = World(numbers_job(name, source=Few(Trickling)))
        settings = {"restart": "fixed-delay", "attempts": "3", "delay": "10 ms"}
        driver, loop = world.driver(f"memory://{name}", interval="1 s", **settings)
        moment = Moment(number, world, loop)
        driver.run(loop)
        assert driver.status is JobStatus.FINISHED, (number, driver.result.exception())
        assert published(name) == dict.fromkeys(range(15), 1), number
        if moment.left >= 0:
            break
    assert number > 60


class AtTheSnapshot(NumbersEnumerator):
    """Gives splits away just before it writes down which ones are left."""

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        pass

    def snapshot_state(self, checkpoint_id: int) -> list[tuple[int, int]]:
        if self.splits:
            self.context.assign_split(self.splits.pop(0), checkpoint_id % 2)
        else:
            for subtask in self.context.registered_readers:
                self.context.signal_no_more_splits(subtask)
        return super().snapshot_state(checkpoint_id)


@pytest.mark.parametrize("failing", range(2, 10))
def test_what_is_given_away_during_a_snapshot_is_in_that_checkpoint(failing: int) -> None:
    name = f"cuts-{next(_names)}"
    world = World(numbers_job(name, source=Scripted(AtTheSnapshot)), trouble={failing: RuntimeError("once")})
    driver, loop = world.driver(f"memory://{name}", interval="1 s", restart="fixed-delay", attempts="3", delay="10 ms")
    driver.run(loop)
    assert driver.status is JobStatus.FINISHED, driver.result.exception()
    assert published(name) == dict.fromkeys(range(40), 1)


def test_decisions_reach_the_readers_in_the_order_in_which_they_were_made() -> None:
    """What comes of a call must not overtake the answer to an instruction before it."""

    class Ends(Trickling):
        def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
            if self.splits:
                self.context.assign_split(self.splits.pop(0), subtask_id)
            if not self.splits:
                self.context.call_async(lambda: None, self.on_answer)

    name = f"cuts-{next(_names)}"
    world = World(numbers_job(name, source=Scripted(Ends)))
    driver, loop = world.driver(f"memory://{name}", interval="1 s")
    perform = loop.perform

    def eager(instruction: do.Instruction) -> None:
        perform(instruction)
        if isinstance(instruction, do.CallEnumerators):
            while world.pending:
                world.pending.pop(0)()

    loop.perform = eager
    driver.run(loop)
    assert driver.status is JobStatus.FINISHED
    assert published(name) == dict.fromkeys(range(40), 1)


def test_a_thread_of_the_enumerators_own_is_told_to_use_call_async() -> None:
    raised: list[Exception] = []

    class Threaded(NumbersEnumerator):
        def start(self) -> None:
            thread = threading.Thread(target=self.assign)
            thread.start()
            thread.join()

        def assign(self) -> None:
            try:
                self.context.registered_readers[0] = base.ReaderInfo(0)
                self.context.assign_split((0, 5), 0)
            except JobRunError as error:
                raised.append(error)

    _, assigned, _, _ = opened(Threaded)
    assert decided(assigned) == {}
    assert "'Source: numbers'" in str(raised[0])
    assert "call_async" in str(raised[0])
