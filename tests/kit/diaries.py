"""Runs jobs in this process, keeps a diary of what their operators are told, and ends them in every way there is.

The driver, the coordinator, the operators and the storage are the real ones; Spark's part is played in the process, and
time moves only when the test advances it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from tests.kit.driving import CrashError, Driven, Epochs

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock._engine.protocol.metadata import ChainEntryKind
from penstock._engine.runtime import chain, subtask
from penstock.common.configuration import Configuration
from penstock.datastream import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from pathlib import Path

    import pytest

    from penstock._engine.driver.driver import JobDriver
    from penstock._engine.graph.job_graph import OperatorNode
    from penstock._engine.operators.base import Operator
    from penstock._engine.protocol.metadata import JobSnapshot

#: Records that a source subtask reads in one epoch.
PER_EPOCH = 2
#: A job that takes more does not come to its end.
MOST_EPOCHS = 100


class Ending(Enum):
    """How a job ends."""

    ENDS = "bounded ends"
    SUSPEND = "suspend"
    DRAIN = "drain"
    CANCEL = "cancel"
    CRASH = "crash"

    @property
    def finishes(self) -> bool:
        """Whether all input ends with it."""
        return self in {Ending.ENDS, Ending.DRAIN}


def finished_in(snapshot: JobSnapshot) -> set[tuple[str, int]]:
    """Return what a checkpoint calls finished: (name of the operator, subtask)."""
    return {
        (operator.name, index)
        for operator in snapshot.operators.values()
        for index, part in enumerate(operator.subtasks)
        if part.finished
    }


# ---------------------------------------------------------------------------------------------------------- the diary

#: What an operator is told, by the letter that a diary has for it.
CALLS = {
    "open": "o",
    "begin_epoch": "b",
    "read": "r",
    "process": "p",
    "on_processing_time": "t",
    "end_input": "e",
    "finish": "f",
    "snapshot": "s",
    "close": "c",
}
#: The life of one operator object. Nothing comes between `finish` and the checkpoint, and nothing behind that.
LIFE = re.compile(r"o(b[rpte]*s)*(b[rpte]*(fs)?)?c")
#: The same where the process was killed.
CUT_SHORT = re.compile(r"(o(b[rpte]*s)*(b[rpte]*(fs?)?)?c?)?")


@dataclass
class Entry:
    """One operator object: where it ran and what it was told."""

    node: OperatorNode
    subtask: int = -1
    calls: str = ""


@dataclass
class Diary:
    """What all operators of one run were told, in order."""

    entries: list[Entry] = field(default_factory=list)
    #: (operator's uid, subtask, letter and number of the input)
    lines: list[tuple[str, int, str]] = field(default_factory=list)

    def keep(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have each operator that is made from now on write into this diary."""
        create = subtask.create_in_task

        def noted(node: OperatorNode, *job_type: Any) -> Operator:
            operator = create(node, *job_type)
            entry = Entry(node)
            self.entries.append(entry)
            for name, letter in CALLS.items():
                if hasattr(operator, name):
                    setattr(operator, name, self._noting(getattr(operator, name), entry, letter))
            return operator

        for module in (chain, subtask):
            monkeypatch.setattr(module, "create_in_task", noted)

    def _noting(self, call: Callable[..., Any], entry: Entry, letter: str) -> Callable[..., Any]:
        def noting(*arguments: Any, **options: Any) -> Any:
            if letter == "o":
                entry.subtask = arguments[0].subtask
            entry.calls += letter
            line = f"{letter}{arguments[0]}" if letter == "e" else letter
            self.lines.append((entry.node.uid, entry.subtask, line))
            return call(*arguments, **options)

        return noting

    def told(self, letter: str) -> Counter[tuple[str, int]]:
        """Return how often which subtasks of which operators were told something."""
        return Counter((uid, index) for uid, index, line in self.lines if line == letter)


# ----------------------------------------------------------------------------------------------------------- the runs


class Run(Driven):
    """One run of a job.

    Args:
        build: Makes the job in an environment.
        directory: Has checkpoints, savepoints and local state.
        monkeypatch: Lets the diary in.
        restore: What it goes on from.
        settings: Other settings, by key.
    """

    def __init__(
        self,
        build: Callable[[StreamExecutionEnvironment], object],
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
        restore: str | None = None,
        settings: dict[str, str] | None = None,
        *,
        workers: int = 1,
    ) -> None:
        configuration = Configuration.from_dict(
            {
                "execution.checkpointing.interval": "1 s",
                "execution.checkpointing.dir": str(directory / "checkpoints"),
                "execution.checkpointing.savepoint-dir": str(directory / "savepoints"),
                "restart-strategy.type": "none",
                "penstock.state.memory": "1 b",  # what is not being changed is on the disk
                **({"execution.state-recovery.path": restore} if restore else {}),
                **(settings or {}),
            }
        )
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
        build(env)
        epochs = Epochs(PER_EPOCH, MOST_EPOCHS, workers=workers, seed=7)
        super().__init__(env, directory / "state", epochs, name="lifecycle")
        #: All subtasks of all operators: (uid, subtask) -> name of the operator.
        self.subtasks = {
            (node.uid, index): node.name
            for vertex in self.graph.vertices
            for node in vertex.operators
            for index in range(vertex.parallelism)
        }
        self.diary = Diary()
        self.stopped: Future[str] | None = None
        self._monkeypatch = monkeypatch

    def to_its_end(self, ending: Ending = Ending.ENDS, *, after: int = 0) -> JobDriver:
        """Run the job.

        Args:
            ending: How it ends.
            after: When: as soon as so many records are in a checkpoint.
        """

        def watch(instruction: do.Instruction) -> None:
            far_enough = self.driver.progress.records >= after and not self._has_been_told
            if ending is Ending.CRASH and far_enough and isinstance(instruction, do.PutChainEntry):
                raise CrashError
            if far_enough and isinstance(instruction, do.RunEpoch):
                self.tell(ending)

        self._has_been_told = ending is Ending.ENDS
        self.watchers.append(watch)
        with self._monkeypatch.context() as patch:
            self.diary.keep(patch)
            self.run()
        return self.driver

    def tell(self, ending: Ending) -> None:
        """Ask the job to end in some way."""
        match ending:
            case Ending.SUSPEND | Ending.DRAIN:
                stop = StopMode.SUSPEND if ending is Ending.SUSPEND else StopMode.DRAIN
                self.stopped = self.driver.savepoint(None, stop)
            case Ending.CANCEL:
                self.driver.cancel()
            case _:
                return
        self._has_been_told = True

    @property
    def checkpoints(self) -> list[JobSnapshot]:
        """The state in each checkpoint of this run."""
        return [put.entry.snapshot for put in self.of(do.PutChainEntry) if put.entry.kind is ChainEntryKind.CHECKPOINT]

    @property
    def goes_on_from(self) -> str:
        """What a later run of the job restores."""
        return "latest" if self.stopped is None else self.stopped.result(0)
