"""What the driver itself takes for an epoch, by the number of slots: the real driver, and tasks that are simulated.

    python benchmarks/slots.py                          100, 300 and 1,000 slots, about two minutes
    python benchmarks/slots.py --slots 1000 3000        others
    python benchmarks/slots.py --slots 1000 --epochs 200 --lost 0.1    each tenth epoch is lost with an executor

Three levels with a subtask of each vertex in each slot: a source, a keyed function with a timer, a sum with a sink that
commits. The driver, its coordinator, the encoders and the checkpoint storage (a local directory, synced) are the
product's. Instead of Spark a runner answers each dispatch with the acks that this very job gave when it ran in this
process with two subtasks of each vertex, with the numbers, tokens and sums of the subtask that is asked. Making them is
not counted; packing the dispatches and reading the answers is. Times are processor time, and beside it the clock's.
With `--lost` a share of the epochs, drawn at random, ends as those do whose executor is lost: the epoch runs again, on
a new host in place of the lost one. Memory is what this process alone has, when the epochs that count begin and after
each quarter of them; control data are the dispatches and answers of an epoch.
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from figures import Figures
from jobs import start
from tests.endurance.program_notes import memory_kib

from penstock._engine.plan.dispatches import pack
from penstock._engine.plan.epoch_plan import EpochOutcome, EpochProgress
from penstock._engine.protocol.control import SubtaskAck, encode
from penstock._engine.protocol.key_groups import key_group_range
from penstock._engine.protocol.paths import shared_path
from penstock._engine.protocol.row_sums import MODULUS
from penstock._engine.protocol.rows import PayloadKind
from penstock._engine.spark.epoch import answers_in
from penstock.common import Configuration, WatermarkStrategy
from penstock.common.option_table import CHECKPOINT_INLINE_THRESHOLD
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.base import TransactionalSink
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import EpochInfrastructureError
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.plan.epoch_plan import EpochPlan
    from penstock._engine.protocol.control import OperatorAck, SubtaskDispatch
    from penstock._engine.protocol.state_handle import StateHandle
    from penstock.datastream.functions import RuntimeContext

SLOTS = (100, 300, 1_000)
SLOTS_OF_A_HOST = 8
#: Chains of deltas have their average length then.
WARM_UP = 12
#: Records of a subtask in an epoch, where the acks come from.
RECORDS = 50
#: Of the growth of time over the growth of slots.
BAR = 1.25
MAX_PARALLELISM = 1 << 15
#: So many times memory is looked at.
LOOKS = 4
ANSWERS_AT_ONCE = 64


class ByNumber(TimestampAssigner):
    """A number is its own time."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value


class Count(KeyedProcessFunction):
    """Changes state and has a timer for each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[tuple[int, int]]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1 << 60)
        yield value % 7, 1


class Nowhere(TransactionalSink[Any]):
    """Commits at once: what a target takes is not the driver's time."""

    def write_transaction(self, transaction: Any, records: Any) -> None:
        pass


def job(parallelism: int, directory: Path) -> StreamExecutionEnvironment:
    """Return the job."""
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)
    env.set_max_parallelism(MAX_PARALLELISM)
    rate = RateLimiterStrategy.per_checkpoint(RECORDS * parallelism)
    source = DataGeneratorSource(lambda index: index, None, rate)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByNumber())
    numbers = env.from_source(source, strategy, "numbers").uid("numbers")
    counted = numbers.key_by(lambda number: number % 100_003).process(Count()).name("count").uid("count")
    sums = counted.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
    sums.name("sums").uid("sums").sink_to(Nowhere()).name("out").uid("out")
    return env


class Witness(InProcessEpochRunner):
    """Notes the acks of a real job."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self._left = epochs
        self.acks: tuple[SubtaskAck, ...] = ()
        self.done = threading.Event()

    def run(self, plan: EpochPlan) -> EpochOutcome:
        outcome = super().run(plan)
        self._left -= 1
        if self._left == 0:
            self.acks = outcome.acks
            self.done.set()
        return outcome


def real_acks() -> dict[int, SubtaskAck]:
    """Run the job in this process, and return an ack of each vertex."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        witness = Witness(4)
        driver = start(job(2, Path(scratch)), "slots", witness, slots=2, state_directory=Path(scratch) / "state")
        if not witness.done.wait(60):
            driver.result.result(0)
        driver.cancel()
        driver.result.exception(60)
        witness.close()
    return {ack.vertex: ack for ack in witness.acks}


@dataclass(slots=True)
class Timing:
    """The seconds of one epoch, of the processor."""

    packing: float
    reading: float
    #: From the outcome to the next epoch.
    rest: float = 0.0
    #: By the clock: from the outcome to the next epoch.
    clock: float = 0.0

    @property
    def whole(self) -> float:
        return self.packing + self.reading + self.rest


class Simulation:
    """Answers dispatches as tasks would, and takes the time of the driver.

    Args:
        acks: An ack of each vertex.
        parallelism: Of each vertex.
        epochs: The epochs that count.
        lost: The share of epochs that are lost with an executor.
    """

    def __init__(self, acks: dict[int, SubtaskAck], parallelism: int, epochs: int, lost: float) -> None:
        self._acks, self._parallelism, self._wanted = acks, parallelism, WARM_UP + epochs
        self._lost = lost
        #: The epochs that were lost.
        self.losses = 0
        self._hosts = [f"host-{number}" for number in range(-(-parallelism // SLOTS_OF_A_HOST))]
        self.memory_mb: list[float] = []
        self._looks = max(1, epochs // LOOKS)
        #: Bytes of the last epoch: its dispatches, and its answers.
        self.control_data = (0, 0)
        self._random = random.Random(1)
        self._ended = self._clock = 0.0
        self._inline = 0
        self._timings: list[Timing] = []
        self.done = threading.Event()

    @property
    def timings(self) -> list[Timing]:
        """The epochs that count."""
        return self._timings[WARM_UP : self._wanted]

    def hosts(self) -> tuple[str, ...]:
        """Return the host of each slot."""
        return tuple(self._hosts[slot // SLOTS_OF_A_HOST] for slot in range(self._parallelism))

    def _lose(self) -> None:
        """Lose an epoch with an executor, in whose place another comes."""
        self.losses += 1
        place = self._random.randrange(len(self._hosts))
        lost, self._hosts[place] = self._hosts[place], f"host-{len(self._hosts) + self.losses}"
        raise EpochInfrastructureError(f"the executor on {lost} was lost")

    def run(self, plan: EpochPlan) -> EpochOutcome:
        """Answer one epoch, or lose it."""
        began = time.process_time()
        if self._timings:
            self._timings[-1].rest = began - self._ended
            self._timings[-1].clock = time.perf_counter() - self._clock
        counted = len(self._timings) - WARM_UP
        if counted >= 0 and counted % self._looks == 0:
            self.memory_mb.append(memory_kib(os.getpid())["anonymous_kib"] / 1024)
        if len(self._timings) == self._wanted:
            self.done.set()
        sizes: list[int] = []
        pack(replace(plan, store=partial(self._store, plan, sizes)), inline=False)
        between = time.process_time()
        if self._random.random() < self._lost:
            self._lose()
        texts = list(self._texts(self._answers(plan)))
        self.control_data = sum(sizes), sum(map(len, texts))
        resumed = time.process_time()
        outcome = EpochOutcome.of_rows(answer for text in texts for answer in answers_in(text))
        self._ended, self._clock = time.process_time(), time.perf_counter()
        self._timings.append(Timing(between - began, self._ended - resumed))
        return outcome

    def _store(self, plan: EpochPlan, sizes: list[int], dispatches: bytes) -> str:
        sizes.append(len(dispatches))
        assert plan.store is not None
        return plan.store(dispatches)

    def cancel(self) -> None:
        """Cancel nothing: no epoch lasts."""

    def progress(self) -> EpochProgress:
        return EpochProgress()

    def release(self, run_id: str) -> None:
        pass

    def _texts(self, acks: list[SubtaskAck]) -> Iterator[str]:
        """Yield what the JVM would pass on."""
        for first in range(0, len(acks), ANSWERS_AT_ONCE):
            answers = acks[first : first + ANSWERS_AT_ONCE]
            rows = (f"{PayloadKind.ACK:d} {base64.b64encode(encode(ack)).decode()}" for ack in answers)
            yield f"[[{'], ['.join(rows)}]]"

    def _answers(self, plan: EpochPlan) -> list[SubtaskAck]:
        if plan.releases:
            return []
        configuration = Configuration.from_dict(plan.job.configuration)
        self._inline = min(configuration.get(CHECKPOINT_INLINE_THRESHOLD), plan.levels[0].inline_bytes)
        acks = [
            self._answer(part, plan, level.hosts[slot] if level.hosts else "")
            for level in plan.levels
            for slot, parts in enumerate(level.slots)
            for part in parts
        ]
        return self._balanced(acks)

    def _answer(self, part: SubtaskDispatch, plan: EpochPlan, host: str) -> SubtaskAck:
        token, model = self._random.getrandbits(62), self._acks[part.vertex]
        operators = {uid: self._operator(uid, ack, part, (plan, token)) for uid, ack in model.operators.items()}
        return replace(
            model,
            subtask=part.subtask,
            checkpoint_id=plan.checkpoint_id,
            token=token,
            operators=operators,
            rows_sent={edge: self._random.getrandbits(60) for edge in model.rows_sent},
            host=host,
        )

    def _operator(
        self, uid: str, ack: OperatorAck, part: SubtaskDispatch, attempt: tuple[EpochPlan, int]
    ) -> OperatorAck:
        if not ack.keyed_state:
            return ack
        [handle], (plan, token) = ack.keyed_state, attempt
        at = part.subtask, plan.checkpoint_id, token
        path = shared_path(plan.job.job_id, uid, *at) if handle.size > self._inline else None
        return replace(ack, keyed_state=(self._handle(handle, part, path, at),))

    def _handle(
        self, handle: StateHandle, part: SubtaskDispatch, path: str | None, at: tuple[int, int, int]
    ) -> StateHandle:
        subtask, checkpoint_id, token = at
        groups = key_group_range(subtask, self._parallelism, MAX_PARALLELISM)
        return replace(
            handle,
            checkpoint_id=checkpoint_id,
            token=token,
            kind="snapshot" if part.full_snapshot else "delta",
            path=path,
            inline=None if path else handle.inline,
            key_groups=(groups.start, groups.stop - 1),
        )

    def _balanced(self, acks: list[SubtaskAck]) -> list[SubtaskAck]:
        """Return the acks with sums of what they read that are those of what was sent."""
        sent: dict[int, int] = {}
        for ack in acks:
            for edge, weights in ack.rows_sent.items():
                sent[edge] = (sent.get(edge, 0) + ack.token * weights) % MODULUS
        last = {edge: place for place, ack in enumerate(acks) for edge in self._acks[ack.vertex].rows_read}
        found: list[SubtaskAck] = []
        for place, ack in enumerate(acks):
            read: dict[int, int] = {}
            for edge in self._acks[ack.vertex].rows_read:
                read[edge] = sent[edge] if place == last[edge] else self._random.getrandbits(60)
                sent[edge] = (sent[edge] - read[edge]) % MODULUS
            found.append(replace(ack, rows_read=read))
        return found


def measure(slots: int, acks: dict[int, SubtaskAck], epochs: int, lost: float) -> Simulation:
    """Run the driver for some epochs."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        directory = Path(scratch)
        simulation = Simulation(acks, slots, epochs, lost)
        driver = start(
            *(job(slots, directory), "slots", simulation),
            slots=slots,
            state_directory=directory / "state",
            hosts=simulation.hosts,
        )
        while not simulation.done.wait(0.2):
            if driver.result.done():
                driver.result.result()
        driver.cancel()
        driver.result.exception(60)
    return simulation


def report(figures: Figures, slots: int, simulation: Simulation) -> float:
    """Add the figures of a number of slots; return the seconds of an epoch."""
    timings = simulation.timings
    whole = median(each.whole for each in timings)
    parts = {
        "packing the dispatches": median(each.packing for each in timings),
        "reading the answers": median(each.reading for each in timings),
        "deciding, the checkpoint and the next dispatches": median(each.rest for each in timings),
    }
    shown = ", ".join(f"{what} {seconds * 1000:.0f}" for what, seconds in parts.items())
    clock = median(each.clock for each in timings)
    more = f" ({clock * 1000:.0f} by the clock); most {max(each.whole for each in timings) * 1000:.0f} in all"
    figures.add(f"{slots:,} slots, {3 * slots:,} subtasks", f"{whole * 1000:.0f} ms: {shown}{more}")
    memory = " ".join(f"{size:.0f}" for size in simulation.memory_mb[: LOOKS + 1])
    down, up = (size / 1e6 for size in simulation.control_data)
    figures.add(
        f"the same, over {len(timings)} epochs",
        f"{simulation.losses} lost; memory {memory} MB; control data {down:.1f} + {up:.1f} MB",
    )
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, nargs="+", default=SLOTS, help="numbers of slots (100 300 1000)")
    parser.add_argument("--epochs", type=int, default=20, help="epochs that count, of each (20)")
    parser.add_argument("--lost", type=float, default=0.0, help="the share of epochs that are lost (0)")
    arguments = parser.parse_args()
    figures, acks = Figures("The driver's time for an epoch"), real_acks()
    measured = ((slots, measure(slots, acks, arguments.epochs, arguments.lost)) for slots in arguments.slots)
    found = [(slots, report(figures, slots, simulation)) for slots, simulation in measured]
    (fewest, least), (most, longest) = found[0], found[-1]
    if most > fewest:
        growth = (longest / most) / (least / fewest)
        figures.add("Time for each slot, of the most to the fewest", f"{growth:.2f}", f"≤ {BAR}", met=growth <= BAR)
    return figures.show()


if __name__ == "__main__":
    sys.exit(main())
