"""The folder of a file sink changes while it is written: each change, at each moment, goes on right or is named."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.errors import LostCommittableError, SinkFileError
from penstock.testing.sink_contract import SinkRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def removed(folder: Path) -> None:
    shutil.rmtree(folder)


def a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("mine\n")


def moved(folder: Path) -> None:
    folder.rename(folder.parent / "elsewhere")


def a_link_to_itself_elsewhere(folder: Path) -> None:
    moved(folder)
    folder.symlink_to(folder.parent / "elsewhere")


def a_link_to_another(folder: Path) -> None:
    moved(folder)
    (folder.parent / "another").mkdir()
    folder.symlink_to(folder.parent / "another")


def files_for_buckets(folder: Path) -> None:
    for bucket in [path for path in folder.iterdir() if path.is_dir()]:
        shutil.rmtree(bucket)
        bucket.write_text("mine\n")


def without_staged(folder: Path) -> None:
    for path in [path for path in folder.rglob(".*") if path.is_file()]:
        path.unlink()


A, B, C = ["a1", "a2"], ["b1", "b2"], ["c1"]
LOST = "LostCommittableError: .*cannot be published"
NO_FOLDER = "SinkFileError: .*(Not a directory|File exists)"
UNKNOWN = "SinkFileError: .*nothing of what was staged of it is here"
#: What is in the folder, or the error: once it changes in an epoch, before a commit, and between two runs.
CHANGES: dict[Callable[[Path], None], tuple[list[str] | str, list[str] | str, list[str] | str]] = {
    removed: (B, LOST, UNKNOWN),
    a_file: (NO_FOLDER, NO_FOLDER, NO_FOLDER),
    moved: (B, LOST, UNKNOWN),
    a_link_to_itself_elsewhere: ([*A, *B], [*A, *B], [*A, *B, *C]),
    a_link_to_another: (B, LOST, UNKNOWN),
    files_for_buckets: (NO_FOLDER, NO_FOLDER, NO_FOLDER),
    without_staged: ([*A, *B], LOST, UNKNOWN),
}


def life(folder: Path, moment: str, change: Callable[[Path], None]) -> None:
    """Write A, then B with a change at a moment; between two runs B is committed again, and C follows."""
    sink: Any = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    run = SinkRun(sink)
    try:
        run.commit(run.epoch(A))
        if moment == "in an epoch":
            change(folder)
        checkpoint = run.epoch(B)
        if moment == "between runs":
            run.close()
        if moment != "in an epoch":
            change(folder)
        if moment == "between runs":
            run = SinkRun(sink, 1, checkpoint)
        run.commit(checkpoint, may_be_committed=moment == "between runs")
        if moment == "between runs":
            run.commit(run.epoch(C))
    finally:
        run.close()


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_change_of_a_folder_goes_on_right_or_is_named(tmp_path: Path, change: Callable[[Path], None]) -> None:
    for moment, wanted in zip(("in an epoch", "before a commit", "between runs"), CHANGES[change], strict=True):
        folder, told = tmp_path / moment.replace(" ", "-") / "out", ""
        try:
            life(folder, moment, change)
        except (LostCommittableError, SinkFileError) as error:
            told = f"{type(error).__name__}: {error}"
        if isinstance(wanted, str):
            assert re.match(wanted, told), f"{moment}: {told}"
            continue
        shown = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        assert told == "", moment
        assert sorted(line for path in shown for line in path.read_text().split()) == wanted, moment
