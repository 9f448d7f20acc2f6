"""Random lives of a file sink whose folder changes: each ends right, or with an error that names the folder."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.connectors.test_folders_that_change import CHANGES

from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.errors import LostCommittableError, SinkFileError
from penstock.testing.sink_contract import SinkRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.testing.sink_run import SinkCheckpoint

LIVES = int(os.environ.get("PENSTOCK_TEST_LIVES", "8"))
SEED = int(os.environ.get("PENSTOCK_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 30)


def published_deleted(folder: Path) -> None:
    for path in shown(folder):
        path.unlink()


def emptied(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def buckets_removed(folder: Path) -> None:
    for bucket in [path for path in folder.iterdir() if path.is_dir()]:
        shutil.rmtree(bucket)


def read_only(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o555)


def shown(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]


def lines(folder: Path) -> list[str]:
    return sorted(line for path in shown(folder) for line in path.read_text().split() if line != "mine")


#: Root may write into what is read-only.
ALL_CHANGES = [*CHANGES, published_deleted, buckets_removed, emptied, *([read_only] if os.geteuid() else [])]
POLICIES: list[Callable[[], Any]] = [
    RollingPolicy.on_checkpoint_rolling_policy,
    RollingPolicy.default_rolling_policy,
    lambda: RollingPolicy.default_rolling_policy(part_size=8),
]


@dataclass
class Life:
    """A sink, and what was done to its folder."""

    folder: Path
    draw: random.Random
    written: list[str] = field(default_factory=list)
    #: What was to be seen when somebody took it away.
    taken: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.parent.mkdir()
        sink: Any = FileSink.for_row_format(str(self.folder), Encoder.simple_string_encoder())
        self._sink = sink.with_rolling_policy(self.draw.choice(POLICIES)()).build()
        self._staged: list[SinkCheckpoint] = []
        self._last: SinkCheckpoint | None = None
        self._run = SinkRun(self._sink)

    def change(self) -> None:
        change = self.draw.choice(ALL_CHANGES)
        before = lines(self.folder)
        try:
            change(self.folder)
        except OSError:  # there is no folder yet, or it was changed before
            return
        after = lines(self.folder)
        self.taken += [line for line in before if line not in after]
        self.changes.append(change.__name__)

    def write(self, *, is_last: bool = False) -> None:
        first = len(self.written)
        new = [f"line{number}" for number in range(first, first + self.draw.randrange(1, 4))]
        self.written += new
        self._last = self._run.epoch(new, end_of_input=is_last)
        self._staged.append(self._last)

    def commit(self, *, again: bool = False) -> None:
        self._run.commit(self._staged[0], may_be_committed=again)
        del self._staged[0]

    def start(self) -> None:
        """Start fresh: what the last run left is committed, also what it has committed perhaps."""
        self._run.close()
        self._run = SinkRun(self._sink, 1, self._last)
        if self._last and self._last not in self._staged:
            self._staged.append(self._last)
        while self._staged:
            self.commit(again=True)

    def live(self) -> None:
        try:
            for _ in range(12):
                step = self.draw.choice(["write", "write", "commit", "commit", "change", "start"])
                if step == "change" and len(self.changes) < 2:
                    self.change()
                    if self.draw.random() < 0.4:
                        self.start()
                elif step == "write":
                    self.write()
                elif step == "commit" and self._staged:
                    self.commit()
                elif step == "start":
                    self.start()
            self.write(is_last=True)
            while self._staged:
                self.commit()
        finally:
            self._run.close()


def test_lives_of_sinks_whose_folder_changes_end_right_or_with_an_error_that_names_it(tmp_path: Path) -> None:
    for number in range(LIVES):
        life, told = Life(tmp_path / str(number) / "out", random.Random(SEED + number)), ""
        try:
            life.live()
        except (LostCommittableError, SinkFileError) as error:
            told = str(error)
        found = lines(life.folder)
        wanted = sorted(line for line in life.written if line not in life.taken)
        note = f"PENSTOCK_TEST_SEED={SEED + number}, {life.changes}: {told}"
        assert len(set(found)) == len(found), note
        assert set(found) <= set(wanted), note
        if told:
            assert str(life.folder) in told, note
            assert set(life.changes) - {published_deleted.__name__}, note  # readers may take away what is published
        else:
            assert found == wanted, note
