"""Jobs of sources in watermark alignment groups, whose readers read one record of each split in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tests.kit.epochs import Job
from tests.kit.program import Program

from penstock.common.time import Duration
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.connectors.base import Boundedness, InputStatus, Source, SourceReader, SourceSplit
from penstock.testing.clock import ManualClock
from penstock.testing.in_process import InProcessEpochRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.datastream import DataStream

#: In place of a record: the reader looks for one in vain, for 100 ms.
WAIT: Final = "wait"
#: The clock of all these jobs; of the module, because a reader is pickled.
CLOCK: Final = ManualClock(1_000)
#: What readers did, in order: (number of the source, subtask, what, split or splits, timestamp if there is one).
LOG: Final[list[tuple[Any, ...]]] = []


class LastField(TimestampAssigner):
    """The last field of a record is its timestamp."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[-1]


@dataclass(frozen=True)
class Times(SourceSplit):
    """A split: the timestamps of its records."""

    name: str
    items: tuple[Any, ...]

    def split_id(self) -> str:
        return self.name


class Lists(Source[Any, Any, Any]):
    """Reads one record of each of its splits in turn: (number of the split, timestamp).

    Args:
        number: Of the source in its job.
        splits: Its splits; the tests' job gives number i to subtask i, in turn.
        pauses: Whether its readers can pause single splits.
        stays: Whether its readers never end.
    """

    def __init__(self, number: int, splits: Sequence[Sequence[Any]], *, pauses: bool, stays: bool) -> None:
        self.number, self.pauses, self.stays = number, pauses, stays
        self._lists = [Times(str(number), tuple(items)) for number, items in enumerate(splits)]

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context: Any) -> Any:
        raise AssertionError

    def restore_enumerator(self, enum_context: Any, checkpoint: Any) -> Any:
        raise AssertionError

    def create_reader(self, reader_context: Any) -> SourceReader[Any, Any]:
        kind = PausingReader if self.pauses else ListsReader
        return kind(self, reader_context.index_of_subtask)


class ListsReader(SourceReader[Any, Any]):
    """Cannot pause single splits."""

    def __init__(self, source: Lists, subtask: int) -> None:
        self.source, self.subtask = source, subtask
        self.open: list[Times] = []
        self.paused: set[str] = set()

    def _log(self, *what: Any) -> None:
        LOG.append((self.source.number, self.subtask, *what))

    def add_splits(self, splits: Any) -> None:
        self.open += [split if isinstance(split, Times) else self.source._lists[split.number] for split in splits]
        self._log("open", [int(split.name) for split in self.open])

    def notify_no_more_splits(self) -> None: ...

    def poll_next(self, output: Any) -> InputStatus:
        if not self.open:
            return InputStatus.NOTHING_AVAILABLE if self.source.stays else InputStatus.END_OF_INPUT
        split = next((split for split in self.open if split.name not in self.paused), None)
        if split is None:
            return InputStatus.NOTHING_AVAILABLE
        self.open.remove(split)
        if not split.items:
            output.release_output_for_split(split.name)
            self._log("end", int(split.name))
            return InputStatus.MORE_AVAILABLE
        self.open.append(replace(split, items=split.items[1:]))
        if split.items[0] == WAIT:
            CLOCK.advance(100)
            self._log("wait", int(split.name))
            return InputStatus.NOTHING_AVAILABLE
        output.create_output_for_split(split.name).collect((int(split.name), split.items[0]))
        self._log("record", int(split.name), split.items[0])
        return InputStatus.MORE_AVAILABLE

    def snapshot_state(self, checkpoint_id: int) -> Any:
        return list(self.open)


class PausingReader(ListsReader):
    """Can pause single splits."""

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        self._log("pause", [int(name) for name in splits_to_pause])
        self._log("resume", [int(name) for name in splits_to_resume])
        self.paused = (self.paused | set(splits_to_pause)) - set(splits_to_resume)


class AlignedJob:
    """A job whose sources, numbered in the order of `source`, give what they read to one collector each."""

    def __init__(self, place: Path, configuration: dict[str, str] | None = None) -> None:
        self.program = Program(place)
        self._place = place
        self._configuration = configuration or {}
        self._sources = 0
        self._job: Job | None = None

    def source(
        self,
        *splits: Sequence[Any],
        drift_ms: int = 10,
        group: str = "group",
        idle_ms: int | None = None,
        parallelism: int = 1,
        pauses: bool = True,
        stays: bool = False,
        then: Callable[[DataStream[Any]], DataStream[Any]] = lambda stream: stream,
    ) -> AlignedJob:
        """Add a source; `then` makes of it what is collected."""
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(LastField())
        strategy = strategy.with_watermark_alignment(group, Duration.of_millis(drift_ms))
        if idle_ms is not None:
            strategy = strategy.with_idleness(Duration.of_millis(idle_ms))
        lists = Lists(self._sources, splits, pauses=pauses, stays=stays)
        stream = self.program.env.from_source(lists, strategy, "lists").set_parallelism(parallelism)
        self.program.collect(then(stream).set_parallelism(parallelism), f"{self._sources}")
        self._sources += 1
        return self

    @property
    def job(self) -> Job:
        if self._job is None:
            runner = InProcessEpochRunner(clock=CLOCK.now_ms, passed=CLOCK.passed_ms)
            self._job = Job(self.program.graph(), self._place, runner, configuration=self._configuration)
        return self._job

    def epoch(self, records: int = 1_000_000) -> list[list[Any]]:
        """Run one epoch; return what it has read, by source."""
        outputs = self.job.epoch(records)
        return [outputs.get(f"{number}", []) for number in range(self._sources)]

    def restart(self) -> None:
        """Let the job go on from its last checkpoint, in processes that know nothing of it."""
        self.job.runner.release(self.job.run_id)
        self._job = self.job.restarted()
