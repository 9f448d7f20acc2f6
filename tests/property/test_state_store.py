from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.kit.asking import Process
from tests.property.state_model import BEFORE, STATES, Model, steps
from tests.unit.state.checkpoints import KilledError, as_if_large, killed_while_it_moves, written_in_parts

from penstock.errors import StaleAttemptError

if TYPE_CHECKING:
    from penstock.testing import OperatorSnapshot


class Processes(RuleBasedStateMachine):
    """Epochs of one subtask, in whatever of three processes, some of them void, outdated or killed."""

    @initialize(in_parts=st.booleans(), unloads=st.booleans())
    def start(self, in_parts: bool, unloads: bool) -> None:
        self.patches = ExitStack()
        if unloads:
            self.patches.enter_context(as_if_large())
        if in_parts:
            self.patches.enter_context(written_in_parts())
        self.directory = Path(tempfile.mkdtemp())
        self.branch = 0
        self.committed = Model()
        #: All checkpoints of this branch with what they stand for; the first one is the beginning.
        self.history: list[tuple[list[OperatorSnapshot], Model]] = [([], Model())]
        self.checked: Any = None
        self.reader = Process(STATES, now_ms=BEFORE)
        self.memory = [1, 2_000, 1 << 26]
        #: By slot; made when they are first used.
        self.processes: dict[int, Process] = {}

    def begin(self, slot: int, snapshots: list[OperatorSnapshot]) -> Process:
        """Begin an epoch in a process; before the first checkpoint each epoch has a new one."""
        if slot not in self.processes or not snapshots:
            place = self.directory / str(self.branch)
            self.processes[slot] = Process(STATES, place, self.memory[slot], now_ms=BEFORE)
        self.processes[slot].begin(snapshots)
        return self.processes[slot]

    def run_epoch(self, slot: int, todo: list[Any]) -> Model:
        process, model = self.begin(slot, self.history[-1][0]), self.committed.copy()
        for step in todo:
            model.run(process, step)
        model.check(process)
        return model

    def accept(self, slot: int, model: Model, *, incremental: bool) -> None:
        self.committed = model
        self.history.append(([self.processes[slot].end(incremental=incremental)], model))

    @rule(slot=st.integers(0, 2), todo=steps)
    def accepted_epoch(self, slot: int, todo: list[Any]) -> None:
        self.accept(slot, self.run_epoch(slot, todo), incremental=True)

    @rule(slot=st.integers(0, 2), todo=steps)
    def epoch_that_cuts_the_chain(self, slot: int, todo: list[Any]) -> None:
        self.accept(slot, self.run_epoch(slot, todo), incremental=False)

    @rule(slot=st.integers(0, 2), todo=steps)
    def void_epoch(self, slot: int, todo: list[Any]) -> None:
        self.run_epoch(slot, todo)
        self.processes[slot].end()

    @rule(slot=st.integers(0, 2), todo=steps)
    def savepoint_beside_the_chain(self, slot: int, todo: list[Any]) -> None:
        self.accepted_epoch(slot, todo)
        self.processes[slot].end(incremental=False)

    @rule(slot=st.integers(0, 2), todo=steps)
    def failed_epoch(self, slot: int, todo: list[Any]) -> None:
        self.run_epoch(slot, todo)

    @rule(slot=st.integers(0, 2), todo=steps)
    def process_killed_in_an_epoch(self, slot: int, todo: list[Any]) -> None:
        self.run_epoch(slot, todo)
        del self.processes[slot]

    @rule(slot=st.integers(0, 2), writes=st.integers(0, 4), todo=steps)
    def process_killed_while_it_moves_the_version(self, slot: int, writes: int, todo: list[Any]) -> None:
        self.accepted_epoch(slot, todo)
        with killed_while_it_moves(writes), suppress(KilledError):
            self.begin(slot, self.history[-1][0])
        del self.processes[slot]

    @precondition(lambda self: len(self.history) > 1)
    @rule(slot=st.integers(0, 2), age=st.integers(1, 12), todo=steps)
    def outdated_attempt(self, slot: int, age: int, todo: list[Any]) -> None:
        snapshots, model = self.history[max(0, len(self.history) - 1 - age)]
        model = model.copy()
        try:
            process = self.begin(slot, snapshots)
            for step in todo:
                model.run(process, step)
            model.check(process)
            process.end()
        except StaleAttemptError:
            pass

    @rule(age=st.integers(0, 5))
    def job_goes_back_to_an_older_checkpoint(self, age: int) -> None:
        place = max(0, len(self.history) - 1 - age)
        del self.history[place + 1 :]
        self.committed = self.history[-1][1]
        self.branch += 1
        self.processes.clear()

    @invariant()
    def checkpoint_restores_to_what_was_committed(self) -> None:
        if hasattr(self, "history") and self.checked is not self.history[-1]:
            self.checked = self.history[-1]
            if self.checked[0]:
                self.reader.begin(self.checked[0])  # it has an epoch open, so it reads all of the checkpoint
                self.committed.check(self.reader)
                self.committed.check_timers(self.reader)

    def teardown(self) -> None:
        if hasattr(self, "history"):
            self.patches.close()
            self.processes.clear()
            shutil.rmtree(self.directory)


TestProcesses = Processes.TestCase
TestProcesses.settings = settings(max_examples=settings().max_examples * 4 // 5, stateful_step_count=30)
