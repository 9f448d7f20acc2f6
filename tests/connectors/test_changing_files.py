"""Lives of a source whose files change at random moments: all of a file is read once, or an error names it."""

from __future__ import annotations

import os
import pickle
import random
import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from tests.connectors.touched import monitored
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program
from tests.kit.source_lives import live

from penstock._connectors.files.object_store import ObjectFileSystem
from penstock._connectors.files.staging import FinishedPart
from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.versioned import unpack
from penstock._formats import lines as line_blocks
from penstock.common.job_status import JobStatus
from penstock.common.serialization import Encoder
from penstock.common.time import Duration
from penstock.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat
from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable

LIVES = int(os.environ.get("PENSTOCK_TEST_LIVES", "30"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
LINES = 60
TEXT = StreamFormat.text_line_format()
folders = count()


class Folder(Protocol):
    """Files that a life changes."""

    path: str

    def put(self, name: str, data: bytes) -> None: ...

    def remove(self, name: str) -> None: ...


class OnDisk:
    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = str(path)
        self._path = path
        self._time_s = 1_700_000_000

    def put(self, name: str, data: bytes) -> None:
        """Write a file elsewhere, and rename it: what a careful writer does; each has a time of its own."""
        self._time_s += 60
        hidden = self._path / f".{name}"
        hidden.write_bytes(data)
        os.utime(hidden, (self._time_s, self._time_s))
        hidden.rename(self._path / name)

    def remove(self, name: str) -> None:
        (self._path / name).unlink()


class InStore:
    def __init__(self, _: Path) -> None:
        self.path = f"memory:///changing-{next(folders)}"

    def put(self, name: str, data: bytes) -> None:
        filesystem, path = ObjectFileSystem(), f"{self.path}/{name}"
        filesystem.delete(path)
        stream = filesystem.create(path)
        stream.write(data)
        filesystem.finish(path, stream)

    def remove(self, name: str) -> None:
        ObjectFileSystem().delete(f"{self.path}/{name}")


def lines(name: str, edition: int, number: int = LINES) -> list[str]:
    return [f"{name} {edition} {line} {'x' * 30}" for line in range(number)]


def packed(some: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in some).encode()


class Life:
    """One source, its files, and what they were."""

    def __init__(self, place: Path, make: Callable[[Path], Folder], draw: random.Random) -> None:
        self._draw, self._edition = draw, count(1)
        self._folder = make(place)
        self.editions: dict[str, list[list[str]]] = {}
        self.touched: set[str] = set()
        for name in ("a.txt", "b.txt", "c.txt"):
            self._write(name, lines(name, 0))
        self._is_monitored = draw.random() < 0.5
        self.records: list[str] = []

    def _write(self, name: str, content: list[str]) -> None:
        self.editions.setdefault(name, []).append(content)
        self._folder.put(name, packed(content))

    def change(self) -> None:
        """Change one file, or make one."""
        name = self._draw.choice(sorted(self.editions))
        last = self.editions[name][-1]
        self.touched.add(name)
        match self._draw.choice(["replaced", "appended", "cut", "deleted", "new", "same length"]):
            case "replaced":
                self._write(name, lines(name, next(self._edition), self._draw.randrange(1, 90)))
            case "same length":
                self._write(name, lines(name, min(9, next(self._edition))))
            case "appended" if last:
                self._write(name, [*last, *lines(name, next(self._edition), 5)])
            case "cut" if len(last) > 1:
                self._write(name, last[: self._draw.randrange(1, len(last))])
            case "deleted" if last:
                self._folder.remove(name)
                self.editions[name].append([])
            case _:
                new = f"new-{next(self._edition)}.txt"
                self._write(new, lines(new, 0))

    def source(self) -> FileSource:
        if self._is_monitored:
            if isinstance(self._folder, OnDisk):
                return monitored(self._folder.path)  # type: ignore[arg-type]
            builder = FileSource.for_record_stream_format(TEXT, self._folder.path)
            return builder.monitor_continuously(Duration.of_seconds(1)).build()
        return FileSource.for_record_stream_format(TEXT, self._folder.path).build()

    def live(self) -> None:
        live(self._draw, self.source, self.change, self.records)

    def check(self) -> None:
        """Check that of each file one edition was read, all of it and once; of a file that was touched perhaps none."""
        for name, editions in self.editions.items():
            found = [record for record in self.records if record.startswith(f"{name} ")]
            wanted = [*editions, *([[]] if name in self.touched or name.startswith("new") else [])]
            assert sorted(found) in [sorted(one) for one in wanted], (name, len(found), [len(one) for one in wanted])


@pytest.mark.parametrize("make", [OnDisk, InStore])
def test_lives_of_changing_files_read_each_file_once_or_end_with_its_name(
    tmp_path: Path, make: Callable[[Path], Folder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_blocks, "CHUNK_BYTES", 200)
    for number in range(LIVES):
        life = Life(tmp_path / str(number), make, random.Random(SEED + number))
        told = ""
        try:
            life.live()
        except SourceFileError as error:
            told = str(error)
        try:
            if told:
                assert any(name in told for name in life.editions), told
            else:
                life.check()
        except AssertionError as error:
            error.add_note(f"PENSTOCK_TEST_SEED={SEED + number}")
            raise


def test_a_part_whose_name_somebody_has_taken_is_given_up_by_its_id_and_nothing_else_is_lost(tmp_path: Path) -> None:
    records = [f"line {number}" for number in range(60)]
    taken: list[FinishedPart] = []

    def run(act: Callable[[Any], None] = lambda _: None, **settings: str) -> Driven:
        given = {"checkpoints": str(tmp_path / "checkpoints"), "recover": "latest", "restart": "none"}
        program = Program(tmp_path, interval="1 s", **given, **settings)
        sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        program.source(records).sink_to(sink.build()).uid("files")
        driven = Driven(program.env, tmp_path / "state", Epochs(20))
        driven.watchers.append(act)
        driven.run()
        return driven

    def take(step: Any) -> None:
        if isinstance(step, do.Commit) and not taken:
            parts = [pickle.loads(unpack(item.payload)[1]) for item in step.commit.committables]
            taken.extend(part for part in parts if isinstance(part, FinishedPart))
            for part in taken:
                Path(part.target).parent.mkdir(parents=True, exist_ok=True)
                Path(part.target).write_text("mine\n")

    told = str(run(take).driver.result.exception())
    ids = re.findall(r"\b\d+-\d+-[0-9a-f]{12}\b", told)
    assert taken[0].target in told
    lost = [line for segment in taken[0].segments for line in Path(segment).read_text().splitlines()]
    assert lost
    again = run(**{"penstock.committables": ";".join(f"{one}=give-up" for one in ids)})
    assert again.driver.status is JobStatus.FINISHED, again.driver.result.exception()
    assert Path(taken[0].target).read_text() == "mine\n"
    found = [
        line
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and not path.name.startswith(".") and str(path) != taken[0].target
        for line in path.read_text().splitlines()
    ]
    assert sorted([*found, *lost]) == sorted(records)
    assert [one.count for one in again.driver.result.result().get_given_up_committables()] == [len(ids)]
