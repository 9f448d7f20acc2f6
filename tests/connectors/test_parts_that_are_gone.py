"""Parts of a file sink that are gone: what readers took away is done, and what was never published is an error."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from obstore.exceptions import PermissionDeniedError
from tests.connectors.test_file_sink import two_segments, writer_for

from penstock._connectors.files.notes import PublishedNotes
from penstock._connectors.files.opening import filesystem_of
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.errors import LostCommittableError, SinkFileError
from penstock.testing.connector_contexts import TestWriterContext
from penstock.testing.sink_contract import SinkRun

if TYPE_CHECKING:
    from collections.abc import Callable


def sink_to(folder: Path | str) -> FileSink:
    """Return a sink of lines, into buckets below the folder."""
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    return builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()


def published(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def lines(folder: Path) -> list[str]:
    return sorted(line for path in published(folder) for line in path.read_text().splitlines())


def moved(folder: Path) -> None:
    """Take away what is published, as readers do."""
    for path in published(folder):
        path.rename(folder.with_name(f"taken-{path.name}"))


def bucket_moved(folder: Path) -> None:
    """Take away whole buckets, with what is staged in them."""
    for bucket in [path for path in folder.iterdir() if path.is_dir()]:
        bucket.rename(folder.with_name(f"taken-{bucket.name}"))


DEEDS: list[Callable[[Path], None]] = [moved, bucket_moved]
#: When something is taken away, by whom the next try is made, and by which deeds B is lost. A is published before.
MOMENTS = {
    ("before it is staged", "the first try"): [],
    ("before it is staged", "the same run"): [],
    ("before it is staged", "another run"): [],
    ("after the checkpoint", "the first try"): [bucket_moved],
    ("after the checkpoint", "the same run"): [bucket_moved],
    ("after the checkpoint", "another run"): [bucket_moved],
    ("after it is published", "the same run"): [],
    ("after it is published", "another run"): [],
}


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_what_was_taken_away_is_lost_only_if_it_was_staged_and_never_published(
    tmp_path: Path, deed: Callable[[Path], None]
) -> None:
    for number, ((moment, who), lossy) in enumerate(MOMENTS.items()):
        folder, told = tmp_path / str(number) / "out", ""
        sink: Any = sink_to(folder)
        run = SinkRun(sink)
        run.commit(run.epoch(["a1", "a2"]))
        if moment == "before it is staged":
            deed(folder)
        checkpoint = run.epoch(["b1"])
        if moment == "after it is published":
            run.commit(checkpoint)
        if moment != "before it is staged":
            deed(folder)
        next_run = SinkRun(sink, 1, checkpoint, run_id="d" * 32) if who == "another run" else run
        try:
            next_run.commit(checkpoint, may_be_committed=who != "the first try")
            run.commit(run.epoch(["c1"]))
        except LostCommittableError as error:
            told = str(error)
        assert (str(folder) in told) is (deed in lossy), (moment, who, told)
        there = lines(folder.parent)
        assert there == (["a1", "a2"] if told else ["a1", "a2", "b1", "c1"]), (moment, who)


@pytest.mark.parametrize("was_published", [False, True])
def test_in_an_object_store_as_well_also_with_rights_for_the_folder_alone(
    monkeypatch: pytest.MonkeyPatch, was_published: bool
) -> None:
    folder, get = f"memory:///gone-{was_published}", obstore.get

    def get_of_the_folder(store: Any, key: str) -> Any:
        if not key.startswith("gone-"):
            raise PermissionDeniedError
        return get(store, key)

    monkeypatch.setattr(obstore, "get", get_of_the_folder)
    run = SinkRun(sink_to(folder))
    first = run.epoch(["a1"])
    run.commit(first)
    last = run.epoch(["b1"])
    if was_published:
        run.commit(last)
    for status in [*filesystem_of(folder).find(folder), *filesystem_of(folder).hidden_files(folder)]:
        if not status.path.endswith(".runs"):
            filesystem_of(status.path).delete(status.path)
    run.commit(first, may_be_committed=True)
    if was_published:
        run.commit(last, may_be_committed=True)
    else:
        with pytest.raises(LostCommittableError, match=re.escape(folder)):
            run.commit(last, may_be_committed=True)


def test_the_file_of_a_long_job_stays_short(tmp_path: Path) -> None:
    sink: Any = sink_to(tmp_path)
    run = SinkRun(sink, 3)
    for number in range(12):
        run.commit(run.epoch(*([f"{number}-{subtask}"] for subtask in range(3))))
    [note] = tmp_path.glob(".*.runs")
    assert note.stat().st_size < 100


def test_a_line_that_a_crash_has_cut_says_nothing_and_spoils_no_other(tmp_path: Path) -> None:
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    parts = [two_segments(sink) for _ in range(2)]
    notes = PublishedNotes(str(tmp_path))
    notes.add(parts[0], 12)
    [path] = tmp_path.glob(".*.runs")
    whole = path.read_bytes().strip()
    for length in range(len(whole)):
        path.write_bytes(b"\n" + whole[:length])
        assert not any(notes.tells(part, 1) for part in parts)
        notes.add(parts[1], 12)
        assert [notes.tells(part, 12) for part in parts] == [False, True]


def test_a_commit_keeps_what_is_noted_of_later_checkpoints(tmp_path: Path) -> None:
    """As where another job has started from a later checkpoint, and was killed when it committed that."""
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    earlier, later, unpublished = [two_segments(sink) for _ in range(3)]
    PublishedNotes(str(tmp_path)).add(later, 5)
    notes = PublishedNotes(str(tmp_path))
    notes.add(earlier, 4)
    notes.end(4)
    assert [notes.tells(part, number) for part, number in ((earlier, 4), (later, 5), (unpublished, 5))] == [
        *(True, True, False)
    ]


def test_committers_that_note_at_the_same_time_lose_no_line_and_do_not_fail(tmp_path: Path) -> None:
    """As of two jobs that were started from one savepoint, while the job that has made it goes on."""
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    parts = [two_segments(sink) for _ in range(120)]

    def noted(of_one: list[Any]) -> None:
        notes = PublishedNotes(str(tmp_path))
        for part in of_one:
            notes.add(part, 9)
            notes.end(4)

    with ThreadPoolExecutor(3) as committers:
        list(committers.map(noted, (parts[place::3] for place in range(3))))
    assert [PublishedNotes(str(tmp_path)).tells(part, 9) for part in parts] == [True] * len(parts)


def test_a_file_of_lines_that_cannot_be_read_is_named_and_not_replaced(tmp_path: Path) -> None:
    sink: Any = sink_to(tmp_path)
    run = SinkRun(sink)
    run.commit(run.epoch(["a1"]))
    [note] = tmp_path.glob(".*.runs")
    note.unlink()
    note.mkdir()
    with pytest.raises(SinkFileError, match=f"{re.escape(str(note))} cannot be written: Is a directory"):
        run.commit(run.epoch(["b1"]))
    with pytest.raises(IsADirectoryError):
        filesystem_of(str(note)).change_lines(str(note), list)
    assert note.is_dir()


KILLED_COMMITS = """
import logging, os, pickle, shutil, sys
from dataclasses import replace
from pathlib import Path
from tests.connectors import test_parts_that_are_gone as deeds
from penstock._connectors.files.committer import FileCommitter
from penstock.errors import LostCommittableError, SinkFileError
from penstock.testing.connector_contexts import TestCommitRequest, TestCommitterContext

template, parts = sys.argv[1], pickle.load(sys.stdin.buffer)
STEPS = ("open", "os.link", "os.rename", "os.remove", "os.listdir", "os.scandir")
steps = kill_at = None
os.fsync = lambda descriptor: None  # a killed process leaves what it has written, and the disk is slow

def count(event, args):
    global steps
    if steps is not None and event in STEPS:
        steps += 1
        if steps == kill_at:
            os._exit(9)  # as kill -9: nothing is flushed, no finally runs

def commit(folder, at, may_be_committed=False):
    global steps, kill_at
    moved = [
        replace(part, target=part.target.replace(template, folder),
                segments=tuple(segment.replace(template, folder) for segment in part.segments))
        for part in parts
    ]
    child = os.fork()
    if child == 0:
        steps, kill_at = 0, at
        try:
            FileCommitter(folder, TestCommitterContext()).commit(
                [TestCommitRequest(part, may_be_committed=may_be_committed) for part in moved])
        except (LostCommittableError, SinkFileError):
            os._exit(7)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

logging.disable()
sys.addaudithook(count)
commit(shutil.copytree(template, f"{template}-warm/out"), None)
shutil.rmtree(f"{template}-warm")
for step in range(1, 1000):
    killed = shutil.copytree(template, f"{template}-killed/{step}")
    died = commit(killed, step) != 0
    for deed in ("none", "moved", "bucket_moved"):
        place = Path(f"{template}-{deed}-{step}")
        folder = shutil.copytree(killed, str(place / "out"))
        if deed != "none":
            getattr(deeds, deed)(Path(folder))
        (place / ".code").write_text(str(commit(folder, None, may_be_committed=True)))
    if not died:
        break
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_commit_that_is_killed_at_any_step_publishes_once_or_tells_what_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    sink = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).build()
    single = writer_for(sink, [0], context=TestWriterContext())
    single.write_all(["single"])
    single.flush(True)
    parts: list[Any] = [two_segments(sink), single.prepare_commit()[0]]
    texts = dict(zip((Path(part.target).name for part in parts), ("first\nsecond\n", "single\n"), strict=True))
    subprocess.run([sys.executable, "-c", KILLED_COMMITS, str(folder)], input=pickle.dumps(parts), check=True)
    seen: set[tuple[str, str]] = set()
    for place in tmp_path.glob("out-*-*"):
        _, deed, step = place.name.split("-")
        killed, code = tmp_path / "out-killed" / step, (place / ".code").read_text()
        seen.add((deed, code))
        noted = "".join(path.read_text() for path in killed.glob(".*.runs"))
        assert {path.read_text() for path in published(killed)} <= set(texts.values())
        names = [path.name.removeprefix("taken-") for path in published(place)]
        is_noted = {name: name in noted or "<=" in noted for name in texts}
        assert {path.read_text() for path in published(place)} <= set(texts.values()), place
        # What was taken away between its publishing and its line is published again, where it is staged still.
        again = sorted(name for name in texts if names.count(name) > 1)
        assert len(again) <= 1, place
        assert not any(is_noted[name] for name in again), place
        if code == "0":
            assert set(names) == set(texts), place
            assert not again or deed == "moved", place
            assert list((place / "out").rglob(".*.staged")) == [], place
        else:
            assert deed == "bucket_moved", place
            assert not all(is_noted.values()), place
    assert seen == {("none", "0"), ("moved", "0"), ("bucket_moved", "0"), ("bucket_moved", "7")}


def test_a_committed_part_is_not_published_again_though_it_is_staged_still(tmp_path: Path) -> None:
    """As after a crash of the machine, which has brought back what was deleted."""
    run = SinkRun(sink_to(tmp_path / "out"))
    checkpoint = run.epoch(["a1"])
    copy = shutil.copytree(tmp_path / "out", tmp_path / "copy")
    run.commit(checkpoint)
    moved(tmp_path / "out")
    shutil.copytree(copy, tmp_path / "out", dirs_exist_ok=True)
    run.commit(checkpoint, may_be_committed=True)
    assert published(tmp_path / "out") == []
