"""A sink whose post-commit topology notes what it gets, to be compared with what was published."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.kit.driving import CrashError
from tests.lifecycle.sink import FolderCommitter, FolderSink, published

from penstock.datastream import KeyedProcessFunction
from penstock.datastream.connectors.base import SupportsPostCommitTopology
from penstock.datastream.state import ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.kit.stories import Asks, Chapter, Sheet, Story

    from penstock._engine.coordinator import instructions as do
    from penstock.datastream import DataStream

LISTS = [0, 1, 2, 3], [10, 11, 12, 13]
RECORDS = frozenset(number for numbers in LISTS for number in numbers)


@dataclass(frozen=True)
class Answers:
    """What the committer says to a committable when it sees it for the first time, by one of its numbers."""

    later: frozenset[int] = frozenset()
    given_up: frozenset[int] = frozenset()
    changed: frozenset[int] = frozenset()


class AnsweringCommitter(FolderCommitter):
    def __init__(self, folder: Path, answers: Answers) -> None:
        super().__init__(folder)
        self.answers = answers

    def commit(self, requests: Any) -> None:
        left: list[Any] = []
        for request in requests:
            name, records = request.get_committable()
            first = request.get_number_of_retries() == 0
            if self.answers.given_up.intersection(records):
                request.signal_failed_with_known_reason(ValueError("too old"))
            elif first and self.answers.later.intersection(records):
                request.retry_later()
            elif first and self.answers.changed.intersection(records):
                request.update_and_retry_later((f"{name}-changed", records))
            else:
                left.append(request)
        super().commit(left)


class AnsweringSink(FolderSink):
    def __init__(self, folder: Path, answers: Answers) -> None:
        super().__init__(folder)
        self.answers = answers

    def create_committer(self, context: Any) -> AnsweringCommitter:
        return AnsweringCommitter(self.folder, self.answers)


class ToldSink(AnsweringSink, SupportsPostCommitTopology[Any]):
    """Tells another folder of each committable that was committed: (checkpoint, subtask, name, number so far)."""

    def __init__(self, folder: Path, told: FolderSink, answers: Answers) -> None:
        super().__init__(folder, answers)
        self.told = told

    def add_post_commit_topology(self, committables: Any) -> None:
        counted = committables.key_by(lambda one: one.subtask_id).process(Numbered()).name("Numbered")
        counted.sink_to(self.told)


class Numbered(KeyedProcessFunction):
    """Numbers the committables of a subtask by its state."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        yield value.checkpoint_id, value.subtask_id, value.committable[0], number


@dataclass
class Told:
    """A job with such a sink, over several runs."""

    story: Story
    answers: Answers = Answers()
    writers: int = 2
    #: Whether the sink behind the committer has a post-commit topology of its own.
    nested: bool = False
    has_topology: bool = True
    uid: str = "out"
    kind: Any = None
    #: Its source; by default the lists.
    source: Callable[[Sheet], DataStream] | None = None

    def write(self, sheet: Sheet) -> None:
        place = self.story.place
        told: FolderSink = FolderSink(place / "told")
        if self.nested:
            told = ToldSink(place / "told", FolderSink(place / "told-of-told"), Answers())
        sink = AnsweringSink(place / "out", self.answers)
        if self.has_topology:
            sink = ToldSink(place / "out", told, self.answers)
        how = {} if self.kind is None else {"kind": self.kind}
        stream = sheet.source("numbers", *LISTS, **how) if self.source is None else self.source(sheet)
        stream.sink_to(sink).uid(self.uid).set_parallelism(self.writers)

    def run(self, *, asks: Asks | None = None, step: Any = None, **settings: str) -> Chapter:
        settings = {"interval": "1 s", "recover": "latest", **settings}
        return self.story.run(self.write, asks=asks, step=step, **settings)

    def check(self, records: Iterable[Any] = RECORDS) -> None:
        """Compare what was told with what was published: each committable once, by its state, and no other one."""
        place = self.story.place
        assert published(place / "out") == Counter(records)
        check_told(place / "out", place / "told")
        if self.nested:
            check_told(place / "told", place / "told-of-told")


def check_told(out: Path, told: Path) -> None:
    """Compare what was told in a folder with what was published in another one."""
    seen = published(told)
    assert Counter(name for _, _, name, _ in seen.elements()) == Counter(file.name for file in out.glob("*"))
    for subtask in {subtask for _, subtask, _, _ in seen}:
        numbers = sorted((number, checkpoint) for checkpoint, of, _, number in seen.elements() if of == subtask)
        assert [number for number, _ in numbers] == list(range(1, len(numbers) + 1))
        assert [checkpoint for _, checkpoint in numbers] == sorted(checkpoint for _, checkpoint in numbers)


class CrashAt:
    """Kills the driver before or after one of its steps."""

    def __init__(self, position: int, *, after: bool) -> None:
        self.position, self.after, self.count = position, after, 0

    def __call__(self, instruction: do.Instruction, perform: Callable[[do.Instruction], None]) -> None:
        at = self.count == self.position
        self.count += 1
        if at and not self.after:
            raise CrashError
        perform(instruction)
        if at:
            raise CrashError
