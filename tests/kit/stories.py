"""Jobs with real operators and a real driver, told in chapters: run, stopped or cancelled, and started from there."""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from tests.kit.by_hand import CLOCK, Threads

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.driver.assembly import RuntimeEnvironment, assemble
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.job_graph import OperatorKind
from penstock._engine.graph.stream_graph import Chaining
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntry, decode_chain_entry
from penstock._engine.spark.epoch import SparkEpochRunner
from penstock._engine.storage.opening import open_storage
from penstock.common.configuration import Configuration
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.base import Boundedness
from penstock.testing.in_process import InProcessEpochRunner
from penstock.testing.sources import ListSource, ListSplit, _ListEnumerator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.plan.epoch_plan import EpochOutcome, EpochPlan
    from penstock._engine.spark.session import SparkHandle
    from penstock.common.job_status import JobStatus
    from penstock.datastream import DataStream

#: Tasks on Spark import the functions of tests from here.
ROOT = Path(__file__).parents[2]


class EndlessSource(ListSource):
    """Lists after which more could come: such a source ends by a drain alone."""

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, enum_context: Any) -> Any:
        splits = [ListSplit(number) for number in range(len(self._lists))]
        return self.restore_enumerator(enum_context, splits)

    def restore_enumerator(self, enum_context: Any, checkpoint: Any) -> Any:
        return _ListEnumerator(enum_context, checkpoint, complete=False)


class Asks(Protocol):
    """Says by the number of the epoch that begins what to ask for then: a dict does."""

    def get(self, epoch: int, /) -> StopMode | Callable[[JobDriver], None] | None: ...


class Step(Protocol):
    """Stands around the steps of a driver."""

    def __call__(self, instruction: do.Instruction, perform: Callable[[do.Instruction], None], /) -> None: ...


class Sheet:
    """What a program is written on: an environment, sources that are lists, outputs by name."""

    def __init__(self, place: Path, **settings: str) -> None:
        configuration = Configuration()
        for key, value in settings.items():
            configuration.set_string(KEYS[key], value)
        self.env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
        self._place = place

    def source(
        self,
        uid: str,
        *lists: Sequence[Any],
        timestamps: WatermarkStrategy | None = None,
        kind: type[ListSource] = ListSource,
    ) -> DataStream:
        """Return a stream of lists, each a split; a poll gives one record."""
        events = self._place / f"events-{uid}"
        events.mkdir(parents=True, exist_ok=True)
        source = kind(*lists, happened_in=str(events))
        return self.env.from_source(source, timestamps or WatermarkStrategy.no_watermarks(), uid).uid(uid)

    def collect(self, stream: DataStream, name: str = "out") -> None:
        """Have the records of a stream as an output; in a vertex of its own, so that it changes no chain."""
        members = {"type_info": None, "as_text": False, "prefix": None}
        node = stream._add(OperatorKind.COLLECT, name, members, keep_size=True)
        node.uid, node.chaining = name, Chaining.NEVER


class Runner(InProcessEpochRunner):
    """Runs epochs in which each source subtask reads few records."""

    def __init__(self, records: int, workers: int, seed: int) -> None:
        super().__init__(workers=workers, seed=seed, clock=CLOCK.now_ms, passed=CLOCK.passed_ms)
        self._records = records
        self.plans: list[EpochPlan] = []

    def run(self, plan: EpochPlan) -> EpochOutcome:
        self.plans.append(plan)
        return super().run(shortened(plan, self._records))


class SparkRunner(SparkEpochRunner):
    """The same on Spark."""

    def __init__(self, records: int, spark: SparkHandle) -> None:
        super().__init__(spark)
        self._records = records
        self.plans: list[EpochPlan] = []

    def run(self, plan: EpochPlan) -> EpochOutcome:
        self.plans.append(plan)
        return super().run(shortened(plan, self._records))

    def close(self) -> None:
        """Leave the session to the next one."""


def shortened(plan: EpochPlan, records: int) -> EpochPlan:
    """Return an epoch in which each source subtask reads at most so many records."""
    level = plan.levels[0]
    parts = (tuple(replace(part, max_records=records) for part in slot) for slot in level.slots)
    return replace(plan, levels=(replace(level, slots=tuple(parts)), *plan.levels[1:]))


@dataclass
class Chapter:
    """One run of a job."""

    driver: JobDriver
    runner: Runner | SparkRunner
    #: By the collector's name.
    outputs: dict[str, list[Any]]
    answers: list[Future[str]]
    steps: list[do.Instruction]

    @property
    def status(self) -> JobStatus:
        return self.driver.status

    @property
    def error(self) -> BaseException | None:
        return self.driver.result.exception(0)

    @property
    def savepoint(self) -> str:
        """The path of the savepoint that was asked for first."""
        return self.answers[0].result(0)


@dataclass
class Story:
    """Runs of one job, or of its changed forms, over one checkpoint directory."""

    place: Path
    #: Records that a source subtask reads in an epoch.
    records: int = 2
    workers: int = 1
    seed: int = 0
    slots: int = 2
    #: Where epochs run; None for in this process.
    spark: SparkHandle | None = None
    chapters: list[Chapter] = field(default_factory=list[Chapter])

    @classmethod
    def somewhere(cls, **how: int) -> Story:
        """Return a story in a directory of its own."""
        return cls(Path(tempfile.mkdtemp(prefix="penstock-story-")), **how)

    def run(
        self,
        write: Callable[[Sheet], None],
        *,
        asks: Asks | None = None,
        step: Step | None = None,
        **settings: str,
    ) -> Chapter:
        """Run a program to the end of its job.

        Args:
            write: Writes the program.
            asks: By the number of the epoch that begins then: a savepoint to ask for, or what else to do.
            step: Performs each instruction, or ends the process before it.
            **settings: Configuration, by the short names of KEYS.
        """
        settings = {"checkpoints": str(self.place / "checkpoints"), "restart": "none", **settings}
        sheet = Sheet(self.place, **{"savepoints": str(self.place / "savepoints"), **settings})
        write(sheet)
        threads = Threads()
        if self.spark is None:
            runner = Runner(self.records, self.workers, self.seed)
        else:
            runner = SparkRunner(self.records, self.spark)
        graph = build_job_graph(sheet.env._stream_graph("story"))
        names = {node.uid: node.name for vertex in graph.vertices for node in vertex.operators}
        local = self.place / f"state-{len(self.chapters)}"
        environment = RuntimeEnvironment(runner, self.slots, local, (str(ROOT),), threads, threads)
        driver, loop = assemble(graph, Configuration(sheet.env._configuration), None, environment)
        chapter = Chapter(driver, runner, {}, [], [])
        storage, perform = open_storage(settings["checkpoints"]), loop.perform

        def take(instruction: do.DeliverOutputs) -> ev.Event:
            for output in instruction.outputs:
                blocks = output.blocks
                if output.path is not None:
                    blocks = tuple(msgspec.msgpack.decode(storage.read(output.path), type=list[bytes]))
                records = chapter.outputs.setdefault(names[output.uid], [])
                records += [record for block in blocks for record in pickle.loads(block)]
            return ev.OutputsDelivered()

        def watched(instruction: do.Instruction) -> None:
            chapter.steps.append(instruction)
            if isinstance(instruction, do.RunEpoch):
                ask = asks.get(sum(isinstance(step, do.RunEpoch) for step in chapter.steps)) if asks else None
                if isinstance(ask, StopMode):
                    chapter.answers.append(driver.savepoint(None, ask))
                elif ask is not None:
                    ask(driver)
            if isinstance(instruction, do.DeliverOutputs) or step is None:
                perform(instruction)
            else:
                step(instruction, perform)

        loop._handlers[do.DeliverOutputs] = take
        loop.perform = watched  # type: ignore[method-assign]
        try:
            driver.run(loop)
        finally:
            runner.close()
        loop.coordinator.validate()
        self.chapters.append(chapter)
        return chapter

    def output(self, name: str = "out") -> list[Any]:
        """Return all records of an output, of all chapters."""
        return [record for chapter in self.chapters for record in chapter.outputs.get(name, ())]

    def records_of_jobs(self) -> list[ChainEntry]:
        """Return all records below the checkpoint directory."""
        paths = sorted((self.place / "checkpoints").glob("*/chk-*/_metadata"))
        return [decode_chain_entry(path.read_bytes(), str(path)) for path in paths]


#: Short names for the keys that chapters set.
KEYS = {
    "interval": "execution.checkpointing.interval",
    "checkpoints": "execution.checkpointing.dir",
    "savepoints": "execution.checkpointing.savepoint-dir",
    "recover": "execution.state-recovery.path",
    "claim": "execution.state-recovery.claim-mode",
    "ignore": "execution.state-recovery.ignore-unclaimed-state",
    "retained": "execution.checkpointing.num-retained",
    "retention": "execution.checkpointing.externalized-checkpoint-retention",
    "restart": "restart-strategy.type",
    "job_id": "penstock.job-id",
    "inline": "execution.checkpointing.data-inline-threshold",
    "reopen": "penstock.restart-finished-sources",
    "fire": "penstock.drain.fire-processing-time-timers",
}
