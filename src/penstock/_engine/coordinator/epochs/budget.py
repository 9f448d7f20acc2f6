"""The limits of epochs: how much each source may read in the next one, when that begins, and when one has expired.

An epoch has to end: its input must fit through the slowest level in about the intended length of an epoch. So the
limits start small and follow the measured time of all levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator import instructions as do
from penstock._engine.coordinator.alarms import EpochLookDue
from penstock.errors import CheckpointExpiredError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock._engine.coordinator.events import EpochObserved
    from penstock._engine.coordinator.instructions import Instruction
    from penstock._engine.coordinator.settings import JobSettings
    from penstock._engine.protocol.control import IOMetrics, SubtaskAck

#: The first epoch reads for this long, and this many records and bytes in each subtask.
FIRST_MS: Final = 250
FIRST_RECORDS: Final = 1_000
FIRST_BYTES: Final = 1 << 20
#: Without a checkpoint interval an epoch is to spend this many times Spark's fixed cost on records, up to a bound.
_WORK_PER_COST: Final = 9
_LONGEST_MS: Final = 5_000
_SHORTEST_MS: Final = 50
#: No epoch reads more than this in one subtask, whatever the rates say.
_MOST_BYTES: Final = 1 << 30
#: A measured rate is raised by this factor, so that an epoch which reads faster than before is not cut short.
_HEADROOM: Final = 1.25

#: Two epochs tell what a record costs if one has read at least this many times as many records as the other. Two that
#: have read about as many, and of which one took this many times as long, tell that it is no longer known.
_TELLING: Final = 2
#: The most by which a budget grows after an epoch that took too long for another reason than its records.
_CAREFUL: Final = 2.0

#: What readers and enumerators have for each other ends an epoch that has read for so long, and for as long as epochs
#: are to spend on records. A request ends it at once.
_EARLY_MS: Final = 1_000

#: An idle job looks for input after this time, which doubles with each look up to a maximum.
_FIRST_LOOK_MS: Final = 200
_LONGEST_LOOK_MS: Final = 1_000

#: The number of looks at an epoch within the timeout.
_LOOKS: Final = 5


@dataclass(frozen=True, slots=True)
class ReadBudget:
    """The read limits of one source subtask in an epoch."""

    records: int = FIRST_RECORDS
    bytes: int = FIRST_BYTES
    #: For the whole slot: the plan divides it among the subtasks that read in the slot one after the other.
    time_ms: int = FIRST_MS

    def shortened(self) -> ReadBudget:
        """Return the budget of an epoch that a request waits for: at most the first epoch's."""
        return ReadBudget(min(self.records, FIRST_RECORDS), min(self.bytes, FIRST_BYTES), min(self.time_ms, FIRST_MS))


@dataclass(frozen=True, slots=True)
class EpochCost:
    """How the time of an epoch was spent."""

    wall_ms: int
    #: By level: the time of its subtasks, shared out over the slots.
    levels_ms: tuple[float, ...]
    #: The part of these times that fewer records do not shorten: connections of new readers, transactions of writers.
    opening_ms: float = 0.0
    #: How much longer the epoch was because sources waited for input.
    waiting_ms: float = 0.0

    @property
    def busy_ms(self) -> float:
        """The time of the subtasks, added up over all levels."""
        return sum(self.levels_ms)

    @property
    def work_ms(self) -> float:
        """The time that was spent on records, added up over all levels."""
        return self.busy_ms - self.opening_ms

    @property
    def fixed_ms(self) -> float:
        """The remaining time: planning, scheduling, shuffling, opening."""
        return max(0.0, self.wall_ms - self.waiting_ms - self.work_ms)


def epoch_cost(acks: Iterable[SubtaskAck], wall_ms: int, levels: Sequence[int], slots: int) -> EpochCost:
    """Measure an epoch.

    Args:
        acks: Its acks.
        wall_ms: Milliseconds from the dispatch to the last ack.
        levels: By vertex: its level.
        slots: Tasks that run at the same time.
    """
    figures: dict[int, list[IOMetrics]] = {}
    for ack in acks:
        figures.setdefault(levels[ack.vertex], []).append(ack.io)

    def shared(times: list[int]) -> float:
        return max(*times, sum(times) / slots)

    busy = tuple(shared([io.busy_ms for io in each]) for _, each in sorted(figures.items()))
    taken_ms = sum(shared([io.busy_ms + io.waited_ms for io in each]) for each in figures.values())
    return EpochCost(wall_ms, busy, waiting_ms=taken_ms - sum(busy))


class BudgetPlanner:
    """Sets the budgets of a job's sources from one epoch to the next.

    Args:
        interval_ms: The checkpoint interval, or the pause between two checkpoints when that is longer; None without.
        sources: The source vertices.
        pipelined: Whether they read as long as the interval: what is too much waits in front of the levels below. Only
            after an epoch that has expired their records are limited, until epochs are short again.
    """

    def __init__(self, interval_ms: int | None, sources: Iterable[int], *, pipelined: bool = False) -> None:
        #: May change from one epoch to the next.
        self.interval_ms = interval_ms
        self._pipelined = pipelined
        self._budgets = {vertex: ReadBudget() for vertex in sources}
        #: In a pipelined epoch; 0 for any number.
        self._most_records = 0
        #: The intended time on records in the next epoch, and the share of it that reading gets.
        self._work_ms = float(FIRST_MS)
        self._reading_share = 1.0
        self._look_ms = _FIRST_LOOK_MS
        #: What an epoch costs beside its records, 0 if that is not known yet; None before the first one of a start.
        self._fixed_ms: float | None = None
        #: What epochs cost beside their records, and an earlier epoch to compare with: its records, and its time.
        self._opening_ms: float | None = None
        self._compared: tuple[int, float] | None = None

    def budget(self, vertex: int) -> ReadBudget:
        """Return what each subtask of a source may read in the next epoch."""
        return ReadBudget(self._most_records, 0, self._flow_ms) if self._pipelined else self._budgets[vertex]

    @property
    def _flow_ms(self) -> int:
        """How long sources read in a pipelined epoch."""
        return self.interval_ms or FIRST_MS

    def accepted(self, acks: Iterable[SubtaskAck], cost: EpochCost) -> None:
        """Learn from an epoch that counts."""
        acks = list(acks)
        self._fixed_ms = self._fixed(cost)
        read = {vertex: [ack for ack in acks if ack.vertex == vertex] for vertex in self._budgets}
        records = sum(ack.io.records_in for part in read.values() for ack in part)
        if not records:
            return
        self._look_ms = _FIRST_LOOK_MS
        if self._pipelined:
            reached = max(ack.io.records_in for part in read.values() for ack in part) >= self._most_records
            growth = 2 if cost.wall_ms <= 2 * self._flow_ms + (self._fixed_ms or 0.0) else 1
            self._most_records = growth * self._most_records if reached else 0
            return
        opening_ms = self._opening(records, cost.busy_ms)
        if cost.busy_ms > self._goal_ms(cost):
            cost = replace(cost, opening_ms=opening_ms)
        self._work_ms = max(_SHORTEST_MS, min(2 * self._work_ms, self._goal_ms(cost)))
        if cost.busy_ms > 0:
            self._reading_share = max(0.05, cost.levels_ms[0] / cost.busy_ms)
        growth = self._work_ms / max(cost.work_ms, 1.0) * _HEADROOM
        growth = min(growth, _CAREFUL) if cost.opening_ms else growth
        for vertex, part in read.items():
            if part:
                before = self._budgets[vertex]
                # A guess gives no time to readers that kept to theirs, or their epochs would grow by it each time.
                kept_time = cost.levels_ms[0] <= _HEADROOM * before.time_ms
                opening_ms = 0.0 if self._opening_ms is None and kept_time else cost.opening_ms
                reading_ms = (self._work_ms + opening_ms) * self._reading_share
                self._budgets[vertex] = self._grown(before, part, growth, reading_ms)

    def restarted(self) -> None:
        """Note that the job starts or restarts."""
        self._fixed_ms = None

    def _fixed(self, cost: EpochCost) -> float:
        """Return what an epoch costs beside its records, as far as the last one tells.

        The first one of a start does not tell, because Python workers start in it. A pipelined one is to last as long
        as the interval, and does not tell if it ends early; so the least cost counts: a slow one does not raise it.
        """
        if self._fixed_ms is None:
            return 0.0
        if not self._pipelined:
            return cost.fixed_ms
        left_ms = cost.wall_ms - (self.interval_ms or 0)
        return self._fixed_ms if left_ms <= 0 else min(left_ms, self._fixed_ms or left_ms)

    @property
    def least_ms(self) -> int:
        """How long an epoch lasts at least that ends for what readers and enumerators have for each other."""
        if self._fixed_ms is None:  # readers have no splits yet
            return 0
        return round(self._fixed_ms + max(_EARLY_MS, _WORK_PER_COST * self._fixed_ms))

    def _opening(self, records: int, busy_ms: float) -> float:
        """Return what an epoch has cost beside its records, by an earlier one that read more or fewer of them.

        Without this, epochs that are too long for another reason would read fewer records each time, down to one.
        """
        before, before_ms = self._compared or (records, busy_ms)
        if max(records, before) >= _TELLING * min(records, before):
            record_ms = max(0.0, (busy_ms - before_ms) / (records - before))
            self._opening_ms, self._compared = max(0.0, busy_ms - records * record_ms), (records, busy_ms)
        elif self._compared is None or max(busy_ms, before_ms) >= _TELLING * min(busy_ms, before_ms):
            self._opening_ms, self._compared = None, (records, busy_ms)
        # As long as no epochs tell, half of the time is taken for it.
        return busy_ms / 2 if self._opening_ms is None else min(self._opening_ms, busy_ms)

    def expired(self) -> None:
        """Learn from an epoch that took too long and was given up."""
        self._most_records = max(1, self._most_records // 2) if self._most_records else FIRST_RECORDS
        self._work_ms = max(_SHORTEST_MS, self._work_ms / 2)
        for vertex, budget in self._budgets.items():
            self._budgets[vertex] = ReadBudget(
                max(1, budget.records // 2), max(1, budget.bytes // 2), max(1, budget.time_ms // 2)
            )

    def idle(self) -> int:
        """Return how long to wait in milliseconds after an epoch that read nothing."""
        wait_ms, self._look_ms = self._look_ms, min(2 * self._look_ms, _LONGEST_LOOK_MS)
        return wait_ms if self.interval_ms is None else min(wait_ms, self.interval_ms)

    def _goal_ms(self, cost: EpochCost) -> float:
        if self.interval_ms is not None:
            # Where Spark's own cost alone exceeds the interval, half of the time still goes into records.
            return max(self.interval_ms - cost.fixed_ms, cost.fixed_ms)
        return min(max(_WORK_PER_COST * cost.fixed_ms, FIRST_MS), _LONGEST_MS)

    def _grown(self, before: ReadBudget, acks: list[SubtaskAck], growth: float, reading_ms: float) -> ReadBudget:
        """Return the budget that fits the time, by what the busiest subtask read.

        An epoch that read less than its budget says little about the rate, so it never lowers the budget.
        """
        records = max(ack.io.records_in for ack in acks)
        size = max(ack.io.bytes_out for ack in acks)
        limited = growth < 1 or records >= before.records or size >= before.bytes
        least = ReadBudget(1, 1, 1) if limited else before
        return ReadBudget(
            max(least.records, math.ceil(records * growth)),
            min(_MOST_BYTES, max(least.bytes, FIRST_BYTES, round(size * growth))),
            max(1, round(reading_ms)),
        )


class EpochMonitor:
    """Polls the progress of the running epoch, which expires when no task has ended for as long as the timeout.

    Source: Flink's ``CheckpointFailureManager`` for tolerable failures. Unlike Flink's, the timeout counts time without
        progress: an expired epoch reads its input again, which must not happen to a slow but healthy one.

    Args:
        settings: Hold the timeout, and how many epochs in a row may expire.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._timeout_ms = settings.timeout_ms
        self._tolerable = settings.tolerable_failures
        #: Why the running epoch was given up; None if it was not.
        self.expired: CheckpointExpiredError | None = None
        self._in_a_row = 0
        self._tasks_done = 0
        self._progress_ms = 0
        self._alarm_is_set = False

    @property
    def is_tolerable(self) -> bool:
        """Whether the job continues although its last epochs expired."""
        return self._in_a_row <= self._tolerable

    def begin(self, passed_ms: int) -> list[Instruction]:
        """Start watching a new epoch, which begins at this monotonic time."""
        self.expired = None
        self._tasks_done, self._progress_ms = 0, passed_ms
        return [] if self._alarm_is_set else self._set_alarm()  # one for all: most epochs are over before it rings

    def succeeded(self) -> None:
        """Note an accepted epoch."""
        self._in_a_row = 0

    def observed(self, event: EpochObserved, checkpoint_id: int, passed_ms: int) -> bool:
        """Note how far the epoch of a checkpoint has come; tell whether it has expired now."""
        if self.expired is not None:
            return False
        if event.tasks_done != self._tasks_done:
            self._tasks_done, self._progress_ms = event.tasks_done, passed_ms
        elif passed_ms - self._progress_ms >= self._timeout_ms:
            self._in_a_row += 1
            self.expired = CheckpointExpiredError(checkpoint_id, self._timeout_ms, event.running)
        return self.expired is not None

    def look(self, *, is_running: bool) -> list[Instruction]:
        """Ask for the progress of an epoch if one is running; without one, the next epoch sets the alarm again."""
        self._alarm_is_set = False
        return [do.ObserveEpoch(), *self._set_alarm()] if is_running else []

    def _set_alarm(self) -> list[Instruction]:
        self._alarm_is_set = True
        return [do.SetAlarm(max(1, self._timeout_ms // _LOOKS), EpochLookDue())]
