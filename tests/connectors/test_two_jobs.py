"""Two jobs that run at the same time and share names: neither touches what the other has staged, keeps or needs."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program

from penstock._connectors.files.staging import list_segments
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.paths import is_job_directory, metadata_path
from penstock.common import Encoder, Types
from penstock.common.job_status import JobStatus
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import Callable


SAME_ID = "5a" * 16
NUMBERS = list(range(40))


class Counted(KeyedProcessFunction):
    """Says how many records of their key came before, so that lost state shows."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def open(self, runtime_context: Any) -> None:
        self.before = runtime_context.get_state(ValueStateDescriptor("before", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        before = self.before.value() or 0
        self.before.update(before + 1)
        yield f"{self.prefix} {value} {before}"


def truth(prefix: str) -> list[str]:
    return sorted(f"{prefix} {number} {number // 4}" for number in NUMBERS)


@dataclass
class Job:
    """One of the two."""

    place: Path
    prefix: str
    checkpoints: str
    settings: dict[str, str] = field(default_factory=dict[str, str])
    #: The instruction in front of which it waits for the other, the n-th of its kind.
    waits_at: tuple[type[Any], int] | None = None

    def __post_init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        settings = {"recover": "latest", "restart": "none", "interval": "10 ms", "inline": "0 b", **self.settings}
        given = {key: value for key, value in settings.items() if value}
        program = Program(self.place, checkpoints=self.checkpoints, **given)
        happened = self.place / f"events {self.prefix}"
        happened.mkdir(exist_ok=True)
        numbers = program.source(NUMBERS, events=happened).uid("numbers")
        counted = numbers.key_by(_remainder).process(Counted(self.prefix)).uid("counted")
        sink = FileSink.for_row_format(str(self.place / "out"), Encoder.simple_string_encoder())
        policy = RollingPolicy.default_rolling_policy(part_size=100)
        counted.sink_to(sink.with_rolling_policy(policy).build()).uid("sink")
        driven = Driven(program.env, self.place / "state", Epochs(4, passed=None, sleep=None), name="same name")
        self.driver, self.loop, self._seen = driven.driver, driven.loop, 0
        driven.watchers.append(self._watched)

    def _watched(self, instruction: do.Instruction) -> None:
        if self.waits_at is not None and isinstance(instruction, self.waits_at[0]):
            self._seen += 1
            if self._seen == self.waits_at[1]:
                self.reached.set()
                assert self.go_on.wait(60)

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self.driver.run, args=(self.loop,), daemon=True)
        thread.start()
        return thread

    def run(self) -> None:
        self.start().join(60)


def _remainder(number: int) -> int:
    return number % 4


def published(place: Path) -> list[str]:
    files = [path for path in (place / "out").rglob("part-*") if path.is_file()]
    return sorted(line for path in files for line in path.read_text().splitlines())


def everything(place: Path) -> dict[str, bytes]:
    """Return all that a job has, but for locks and maps of its local state."""
    files = [path for path in place.rglob("*") if path.is_file() and path.suffix != ".mdb"]
    return {str(path): path.read_bytes() for path in files}


def separate(place: Path) -> tuple[str, str]:
    return str(place / "checkpoints a"), str(place / "checkpoints b")


def copied(place: Path) -> tuple[str, str]:
    """Return two directories of which one is a copy of the other, with its mark."""
    first, second = separate(place)
    Job(place, "c", first).run()
    for job in (path for path in Path(first).iterdir() if is_job_directory(path.name)):
        shutil.rmtree(job)
    shutil.rmtree(place / "out")
    shutil.copytree(first, second)
    return first, second


@pytest.mark.parametrize("moment", [(do.Commit, 1), (do.PutChainEntry, 3), (do.RunEpoch, 3)])
@pytest.mark.parametrize(
    ("directories", "settings"),
    [
        (separate, {}),
        (separate, {"penstock.job-id": SAME_ID, "penstock.allow-first-start": "true"}),
        (copied, {}),
    ],
    ids=["same name", "same id", "same mark"],
)
def test_job_that_runs_while_another_waits_touches_nothing_of_it(
    tmp_path: Path,
    directories: Callable[[Path], tuple[str, str]],
    settings: dict[str, str],
    moment: tuple[type[Any], int],
) -> None:
    first, second = directories(tmp_path)
    waiting = Job(tmp_path, "a", first, settings, moment)
    thread = waiting.start()
    assert waiting.reached.wait(60)
    own = {
        str(tmp_path / "state" / "host-0" / waiting.loop.coordinator.chain.identity.run_id),
        first,
        str(tmp_path / "out"),
    }
    before = {name: data for name, data in everything(tmp_path).items() if name.startswith(tuple(own))}
    other = Job(tmp_path, "b", second, settings)
    other.run()
    assert other.driver.status is JobStatus.FINISHED, other.driver.result.exception()
    assert (waiting.driver.job_id == other.driver.job_id) is ("penstock.job-id" in settings or directories is copied)
    assert {name: data for name, data in everything(tmp_path).items() if name in before} == before
    waiting.go_on.set()
    thread.join(60)
    assert waiting.driver.status is JobStatus.FINISHED, waiting.driver.result.exception()
    assert published(tmp_path) == truth("a") + truth("b")
    assert list(list_segments(str(tmp_path / "out"))) == []
    assert list((tmp_path / "state").glob("host-*/*")) == []


@pytest.mark.parametrize(
    ("spelling", "moment"),
    [("{}", (do.Commit, 2)), ("file://{}", (do.RunEpoch, 2)), ("link", (do.SweepLeftovers, 1))],
)
def test_driver_that_was_replaced_ends_without_touching_what_its_successor_needs(
    tmp_path: Path, spelling: str, moment: tuple[type[Any], int]
) -> None:
    directory = tmp_path / "checkpoints"
    (tmp_path / "link").symlink_to(directory, target_is_directory=True)
    spelt = {"link": str(tmp_path / "link")}.get(spelling, spelling.format(directory))
    replaced = Job(tmp_path, "a", str(directory), waits_at=(do.RunEpoch, 4))
    thread = replaced.start()
    assert replaced.reached.wait(60)
    successor = Job(tmp_path, "a", spelt, waits_at=moment)
    running = successor.start()
    assert successor.reached.wait(60)
    assert successor.driver.job_id == replaced.driver.job_id
    own = str(tmp_path / "state" / "host-0" / successor.loop.coordinator.chain.identity.run_id)
    retention, job_id = successor.loop.coordinator.state.retention, successor.driver.job_id
    paths = {*retention.files, *(metadata_path(job_id, number) for number in retention.checkpoints)}
    needed = {str(directory / path) for path in paths}
    staged = {segment.path for segment in list_segments(str(tmp_path / "out"))}
    before = {name: data for name, data in everything(tmp_path).items() if name.startswith(own) or name in needed}
    assert needed
    assert needed <= set(before)
    replaced.go_on.set()
    thread.join(60)
    assert isinstance(replaced.driver.result.exception(), FencedError)
    after = everything(tmp_path)
    assert {name: after[name] for name in before} == before
    assert staged <= {segment.path for segment in list_segments(str(tmp_path / "out"))}
    successor.go_on.set()
    running.join(60)
    assert successor.driver.status is JobStatus.FINISHED, successor.driver.result.exception()
    assert published(tmp_path) == truth("a")
    assert list(list_segments(str(tmp_path / "out"))) == []


def test_job_of_the_same_id_that_starts_fresh_leaves_what_an_earlier_ones_checkpoint_goes_on_with(
    tmp_path: Path,
) -> None:
    directory, settings = (
        str(tmp_path / "checkpoints"),
        {"penstock.job-id": SAME_ID, "penstock.allow-first-start": "true"},
    )
    cancelled = Job(tmp_path, "a", directory, settings, (do.RunEpoch, 3))
    thread = cancelled.start()
    assert cancelled.reached.wait(60)
    cancelled.driver.cancel()
    cancelled.go_on.set()
    thread.join(60)
    assert cancelled.driver.checkpoint is not None
    staged = {segment.path for segment in list_segments(str(tmp_path / "out"))}
    assert staged
    anew = Job(tmp_path, "b", directory, {**settings, "recover": ""})
    anew.run()
    assert anew.driver.status is JobStatus.FINISHED
    assert staged <= {segment.path for segment in list_segments(str(tmp_path / "out"))}
    again = Job(tmp_path, "a", directory, {"recover": cancelled.driver.checkpoint})
    again.run()
    assert again.driver.status is JobStatus.FINISHED, again.driver.result.exception()
    assert published(tmp_path) == truth("a") + truth("b")
