"""Jobs with real operators and a real driver, told in chapters: run, stopped or cancelled, and started from there."""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from tests.kit.driving import Driven, Epochs, shares
from tests.kit.exchange import is_pipelined
from tests.kit.program import Program

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata_document import decode_chain_entry
from penstock._engine.spark.epoch import SparkEpochRunner
from penstock._engine.storage.opening import open_storage
from penstock.datastream.connectors.base import Boundedness
from penstock.testing.sources import ListSource, ListSplit, _ListEnumerator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.plan.epoch_plan import EpochOutcome, EpochPlan
    from penstock._engine.protocol.metadata import ChainEntry
    from penstock._engine.spark.session import SparkHandle
    from penstock._engine.storage.checkpoint_storage import FileStorage
    from penstock.common.job_status import JobStatus
    from penstock.datastream import DataStream
    from penstock.testing.in_process import Chaos

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


class Sheet(Program):
    """What the program of a chapter is written on: whatever it names has that uid."""

    def __init__(self, place: Path, **settings: str) -> None:
        super().__init__(place, **settings)

    def source(self, uid: str, *lists: Sequence[Any], **how: Any) -> DataStream:  # type: ignore[override]
        events = self._place / f"events-{uid}"  # the same for all chapters
        events.mkdir(parents=True, exist_ok=True)
        return super().source(*lists, name=uid, events=events, **how).uid(uid)

    def collect(self, stream: DataStream, name: str = "out") -> None:  # type: ignore[override]
        super().collect(stream, name, uid=name)


class SparkRunner(SparkEpochRunner):
    """The same on Spark."""

    def __init__(self, records: int, spark: SparkHandle) -> None:
        super().__init__(spark)
        self._records = records
        self.plans: list[EpochPlan] = []

    def run(self, plan: EpochPlan) -> EpochOutcome:
        self.plans.append(plan)
        return super().run(shares(plan, self._records))

    def close(self) -> None:
        """Leave the session to the next one."""


@dataclass
class Chapter:
    """One run of a job."""

    driver: JobDriver
    runner: Epochs | SparkRunner
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


def _taking(chapter: Chapter, names: dict[str, str], storage: FileStorage) -> Callable[[do.DeliverOutputs], ev.Event]:
    """Return what takes the outputs of a job for a chapter."""

    def take(instruction: do.DeliverOutputs) -> ev.Event:
        for output in instruction.outputs:
            blocks = output.blocks
            if output.path is not None:
                blocks = tuple(msgspec.msgpack.decode(storage.read(output.path), type=list[bytes]))
            records = chapter.outputs.setdefault(names[output.uid], [])
            records += [record for block in blocks for record in pickle.loads(block)]
        return ev.OutputsDelivered()

    return take


@dataclass
class Story:
    """Runs of one job, or of its changed forms, over one checkpoint directory."""

    place: Path
    #: Records that a source subtask reads in an epoch.
    records: int = 2
    workers: int = 1
    seed: int = 0
    slots: int = 2
    #: Simulated machines, and what goes wrong with tasks on them.
    hosts: int = 1
    chaos: Chaos | None = None
    #: Where epochs run; None for in this process.
    spark: SparkHandle | None = None
    chapters: list[Chapter] = field(default_factory=list[Chapter])
    #: How many have begun.
    begun: int = 0

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
        watch: Callable[[Driven], object] | None = None,
        **settings: str,
    ) -> Chapter:
        """Run a program to the end of its job.

        Args:
            write: Writes the program.
            asks: By the number of the epoch that begins then: a savepoint to ask for, or what else to do.
            step: Performs each instruction, or ends the process before it.
            watch: Gets the driver, its loop and its runner before they start.
            **settings: Configuration, by the short names of the kit.
        """
        length = {"interval": "1 s"} if is_pipelined() else {}  # such an epoch lasts as long as that
        settings = {"checkpoints": str(self.place / "checkpoints"), "restart": "none", **length, **settings}
        sheet = Sheet(self.place, **{"savepoints": str(self.place / "savepoints"), **settings})
        write(sheet)
        if self.spark is None:
            options = {"workers": self.workers, "hosts": self.hosts, "chaos": self.chaos, "seed": self.seed}
            runner = Epochs(self.records, **options)
        else:
            runner = SparkRunner(self.records, self.spark)
        local = self.place / f"state-{self.begun}"
        self.begun += 1
        driven = Driven(sheet.env, local, runner, slots=self.slots, modules=(str(ROOT),), name="story")
        driver, loop = driven.driver, driven.loop
        start = loop.coordinator._start
        start._settings = replace(start._settings, collects=False)  # the story keeps what each chapter has collected
        names = {node.uid: node.name for vertex in driven.graph.vertices for node in vertex.operators}
        chapter = Chapter(driver, runner, {}, [], driven.steps)
        perform = driven.perform

        def ask_now(instruction: do.Instruction) -> None:
            if isinstance(instruction, do.RunEpoch):
                ask = asks.get(len(driven.of(do.RunEpoch))) if asks else None
                if isinstance(ask, StopMode):
                    chapter.answers.append(driver.savepoint(None, ask))
                elif ask is not None:
                    ask(driver)

        def perform_step(instruction: do.Instruction) -> None:
            if isinstance(instruction, do.DeliverOutputs) or step is None:
                perform(instruction)
            else:
                step(instruction, perform)

        loop._handlers[do.DeliverOutputs] = _taking(chapter, names, open_storage(settings["checkpoints"]))
        driven.watchers.append(ask_now)
        driven.perform = perform_step
        if watch is not None:
            watch(driven)
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
