"""Async functions against a plain model: any interleaving of records, answers, watermarks, checkpoints, moves, losses.

A life has one or more subtasks, each with workers between which its epochs move. The model knows of none of this: each
record gives what its function answers, or what the timeout does, once and with the record's timestamp.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from itertools import count
from typing import Any, Final
from weakref import WeakKeyDictionary

import pytest

from penstock._engine.operators.async_functions.async_wait import AsyncWaitOperator
from penstock._engine.operators.batch import RowBatch
from penstock._engine.protocol.key_groups import key_group_range
from penstock._engine.protocol.rows import MAX_WATERMARK, MIN_WATERMARK
from penstock.datastream.async_retry_strategies import FixedDelayRetryStrategy, NoRetryStrategy
from penstock.datastream.functions import AsyncFunction
from penstock.testing._virtual_loop import VirtualLoop
from penstock.testing.harness import OperatorHarness, StreamRecord, Watermark
from penstock.testing.operator_snapshot import OperatorSnapshot, restored_subtask

SEEDS: Final = range(1_000 if os.environ.get("PENSTOCK_ALL_CELLS") else 60)
TIMEOUT_MS: Final = 1_000
BACKOFF_MS: Final = 7
#: How long one attempt takes; no sum of them is the timeout.
DELAYS: Final = (0, 0, 3, 40, 411, 3_000)

#: (number, milliseconds of an attempt, attempts that fail)
Record = tuple[int, int, int]


def answer(record: Record, *, retries: bool) -> list[Any]:
    """The model."""
    number, delay, fails = record
    fails = fails if retries else 0
    if (fails + 1) * delay + fails * BACKOFF_MS > TIMEOUT_MS:
        return [("late", number)]
    return [number] * (number % 3)


class Flaky(AsyncFunction):
    """Answers as the model does; the first attempts of a call fail, where there are retries."""

    def __init__(self, *, retries: bool) -> None:
        self.retries = retries
        self.calls: Counter[int] = Counter()
        self.attempts: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    async def async_invoke(self, value: Any) -> Any:
        number, delay, fails = value
        task = asyncio.current_task()
        attempt = self.attempts[task] = self.attempts.get(task, 0) + 1
        self.calls[number] += attempt == 1
        if delay:
            await asyncio.sleep(delay / 1000)
        if self.retries and attempt <= fails:
            raise OSError("not yet")
        return [number] * (number % 3)

    def timeout(self, value: Any) -> Any:
        return [("late", value[0])]


class Worker(OperatorHarness):
    """A worker's object of the operator; it runs an epoch only when the life says so."""

    tokens = count(1)

    def _epoch(self, start: OperatorSnapshot, *, current: bool) -> Any:
        epoch = super()._epoch(start, current=current)
        epoch.token = next(self.tokens)
        return epoch

    def begin(self, start: OperatorSnapshot, *, current: bool) -> None:
        self.clear_output()
        self._start = start
        if not self._opened:
            self.open()
            return
        self._watermark = start.watermark
        self._begin(start, current=current)

    def feed(self, records: list[tuple[Record, int]], marks: list[tuple[int, int]]) -> None:
        stamps = [timestamp for _, timestamp in records]
        self._take(self._operator.process(RowBatch([value for value, _ in records], stamps, marks), 0))
        if marks:
            self._watermark = marks[-1][1]

    def look(self) -> None:
        self._take(self._operator.on_processing_time(0))

    def checkpoint(self) -> OperatorSnapshot:
        """End the epoch."""
        self._take(self._operator.prepare_snapshot())
        ack = self._operator.snapshot(self._epoch(self._start, current=True), finished=False)
        state = () if ack.operator_state is None else (ack.operator_state,)
        return OperatorSnapshot(self._parallelism, self._watermark, (), None, state, self._checkpoint_id)


class Subtask:
    """One subtask over the workers of a life.

    Args:
        life: The life.
        index: Which subtask it is.
        parallelism: How many there are.
        start: What it starts from.
    """

    def __init__(self, life: Life, index: int, parallelism: int, start: OperatorSnapshot) -> None:
        self.life, self.index, self.parallelism, self.start = life, index, parallelism, start
        self.workers: dict[int, Worker] = {}
        self.at = 0
        self.worker: Worker
        #: What has been fed in this epoch, which comes again where the epoch is lost.
        self.fed: list[tuple[list[tuple[Record, int]], list[tuple[int, int]]]] = []
        self.accepted: list[StreamRecord | Watermark] = []
        self.watermark = self.began_at = start.watermark
        #: By the number of a record: the watermark before it.
        self.before: dict[int, int] = {}
        self._enter(current=False)

    def _enter(self, *, current: bool) -> None:
        worker = self.workers.get(self.at)
        if worker is None:
            worker = Worker(self.life.operator(), subtask_index=self.index, parallelism=self.parallelism)
            self.workers[self.at] = worker
        self.worker = worker
        worker.begin(self.start, current=current)

    def feed(self) -> None:
        records: list[tuple[Record, int]] = []
        marks: list[tuple[int, int]] = []
        for _ in range(self.life.random.randrange(7)):
            if self.life.random.random() < 0.25:
                self.watermark = max(self.watermark, 0) + self.life.random.randrange(1, 10)
                marks.append((len(records), self.watermark))
            else:
                record = self.life.record()
                self.before[record[0]] = self.life.before[record[0]] = self.watermark
                records.append((record, max(self.watermark, 0) + self.life.random.randrange(1, 20)))
        self.fed.append((records, marks))
        self.worker.feed(records, marks)

    def checkpoint(self) -> None:
        self.start = self.worker.checkpoint()
        self.accepted += self.worker.output()
        self.fed.clear()

    def next_epoch(self) -> None:
        """Begin the next epoch, in this worker, another one or a new one."""
        before, self.at = self.at, self.life.random.randrange(self.life.workers)
        self._enter(current=self.at == before)

    def lose_epoch(self) -> None:
        """Lose the running epoch and run it again, in any worker; its input comes again."""
        self.workers.pop(self.at).close()
        self.at = self.life.random.randrange(self.life.workers)
        self._enter(current=False)
        for records, marks in self.fed:
            self.worker.feed(records, marks)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


class Life:
    """One life of the operator."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        self.random = random.Random(seed)
        self.loop = loop
        self.ordered = self.random.random() < 0.5
        self.retries = self.random.random() < 0.5
        self.capacity = self.random.choice((1, 2, 5, 100))
        self.workers = self.random.choice((1, 2, 3))
        self.function = Flaky(retries=self.retries)
        self.records: dict[int, Record] = {}
        self.before: dict[int, int] = {}
        self.passed_on: list[StreamRecord | Watermark] = []
        #: Whether an epoch was lost, or the job rescaled.
        self.has_lost = False
        parallelism = self.random.choice((1, 2))
        self.subtasks = [
            Subtask(self, index, parallelism, OperatorSnapshot(parallelism, MIN_WATERMARK, (), None))
            for index in range(parallelism)
        ]

    def operator(self) -> AsyncWaitOperator:
        strategy = (
            FixedDelayRetryStrategy(2, BACKOFF_MS, None, lambda error: isinstance(error, OSError))
            if self.retries
            else NoRetryStrategy()
        )
        operator = AsyncWaitOperator(self.function, TIMEOUT_MS, self.capacity, self.ordered, strategy)
        operator.loop = self.loop
        return operator

    def record(self) -> Record:
        number = len(self.records)
        record = (number, self.random.choice(DELAYS), self.random.randrange(3))
        self.records[number] = record
        return record

    def live(self) -> None:
        for _ in range(self.random.randrange(5, 40)):
            subtask = self.random.choice(self.subtasks)
            match self.random.randrange(10):
                case 0 | 1 | 2 | 3:
                    subtask.feed()
                case 4 | 5:
                    self.loop.pass_ms(self.random.choice((1, 10, 200, 900)))
                    subtask.worker.look()
                case 6 | 7 | 8:
                    self.checkpoint()
                case _:
                    self.has_lost = True
                    subtask.lose_epoch()
        self.end()

    def checkpoint(self) -> None:
        """Accept an epoch of all subtasks; some of them go on with others of them, and then the job is rescaled."""
        for subtask in self.subtasks:
            subtask.checkpoint()
        if self.random.random() < 0.2:
            self.rescale(self.random.choice((1, 2, 3)))
            return
        for subtask in self.subtasks:
            subtask.next_epoch()

    def rescale(self, parallelism: int) -> None:
        self.has_lost = True
        snapshots = [subtask.start for subtask in self.subtasks]
        self.retire()
        self.subtasks = [
            Subtask(
                self,
                index,
                parallelism,
                restored_subtask(snapshots, index, parallelism, key_group_range(index, parallelism, 128)),
            )
            for index in range(parallelism)
        ]

    def retire(self) -> None:
        """Check what the subtasks have passed on, and close them."""
        for subtask in self.subtasks:
            self.check(subtask)
            self.passed_on += subtask.accepted
            subtask.close()

    def end(self) -> None:
        for subtask in self.subtasks:
            subtask.worker.end_input()
            subtask.accepted += subtask.worker.output()
            assert subtask.accepted[-1] == Watermark(MAX_WATERMARK)
        self.retire()
        got = Counter(item.value for item in self.passed_on if isinstance(item, StreamRecord))
        wanted = Counter(value for record in self.records.values() for value in answer(record, retries=self.retries))
        assert got == wanted
        assert self.has_lost or max(self.function.calls.values(), default=0) <= self.workers

    def check(self, subtask: Subtask) -> None:
        """Check watermarks, timestamps and order of one subtask."""
        watermark, numbers = MIN_WATERMARK, []
        for item in subtask.accepted:
            if isinstance(item, Watermark):
                assert item.timestamp > watermark
                watermark = item.timestamp
                continue
            number = item.value[1] if isinstance(item.value, tuple) else item.value
            numbers.append(number)
            # Where watermarks started fresh, the records from before come before all of them.
            assert watermark <= subtask.before.get(number, min(self.before[number], subtask.began_at))
        if self.ordered:
            own = [number for number in numbers if number in subtask.before]
            assert own == sorted(own)


@pytest.mark.parametrize("part", range(4))
def test_results_are_those_of_the_model_whatever_happens(part: int) -> None:
    for seed in SEEDS[part::4]:
        loop = VirtualLoop()
        try:
            Life(seed, loop).live()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        finally:
            loop.close()
