"""Files that others touch while a source looks at them: what they do, and when, as tables."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.connectors.touched import (
    NEW,
    OLD,
    SECOND,
    TEXT,
    WAS_READ,
    again,
    look,
    monitored,
    once,
    read,
    skipped,
    waiting,
    write,
)

from penstock._connectors.files import walking
from penstock._connectors.files.discovery import WaitingFile
from penstock._connectors.files.filesystem import FileStatus
from penstock._connectors.files.source import FileCheckpoint
from penstock._connectors.files.source_state import FileCheckpointSerializer
from penstock._formats import lines as line_blocks
from penstock.datastream.connectors.file_system import FileSource
from penstock.datastream.formats.parquet import ParquetFormat
from penstock.errors import SourceFileChangedError, SourceFileError, SourceFileGoneError
from penstock.testing.connector_contexts import TestEnumeratorContext
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Callable


# ------------------------------------------------------------------------------------------- what is met in a folder


def dead_link(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def own_link(path: Path) -> None:
    path.symlink_to(path)


def round_link(path: Path) -> None:
    path.symlink_to(path.parent)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def socket_file(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path) -> None:
    path.symlink_to("/dev/null")


NO_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "dead link": (dead_link, "it is a link to /nowhere/at/all, which is not there"),
    "link to itself": (own_link, "it is a link that leads to itself"),
    "named pipe": (pipe, "it is a named pipe, and no file"),
    "socket": (socket_file, "it is a socket, and no file"),
    "device": (device, "it is a device, and no file"),
}
no_files = pytest.mark.parametrize(("make", "reason"), NO_FILES.values(), ids=NO_FILES)


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("source", [once, monitored])
@pytest.mark.parametrize("way", ["", "*", "**"], ids=["folder", "glob", "deep glob"])
def test_what_is_no_file_is_skipped_counted_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, source: Callable[[Path], FileSource], way: str
) -> None:
    make, reason = NO_FILES[kind]
    (tmp_path / "a.txt").write_text("a")
    make(tmp_path / "b")
    with caplog.at_level(logging.INFO):
        run = SourceRun(source(tmp_path / way if way else tmp_path))
        look(run)
        look(run)
    assert read(run) == ["a"]
    assert skipped(run) == 1
    assert [message for message in caplog.messages if "skipped" in message] == [
        f"{tmp_path / 'b'} is skipped: {reason}"
    ]


@no_files
def test_what_is_no_file_and_was_asked_for_by_name_is_an_error_that_says_what_it_is(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    make(tmp_path / "b")
    with pytest.raises(SourceFileError, match=f"b cannot be read: {reason}"):
        SourceRun(once(tmp_path / "b"))


@no_files
def test_what_is_monitored_by_name_may_become_a_file(tmp_path: Path, make: Callable[[Path], None], reason: str) -> None:
    make(tmp_path / "b")
    run = SourceRun(monitored(tmp_path / "b"))
    assert skipped(run) == 1
    (tmp_path / "b").unlink()
    (tmp_path / "b").write_text("line")
    look(run)
    look(run)
    assert read(run) == ["line"]


@pytest.mark.parametrize("way", ["", "*", "**", "**/*.txt"])
def test_links_that_lead_round_are_gone_through_once(tmp_path: Path, way: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.txt").write_text("a")
    round_link(tmp_path / "sub/round")
    (tmp_path / "sub/up").symlink_to(tmp_path)
    (tmp_path / "b.txt").write_text("b")
    run = SourceRun(once(tmp_path / way if way else tmp_path))
    assert sorted(run.run_to_end()) == ["a", "b"]


def test_links_to_files_and_folders_elsewhere_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real/sub").mkdir(parents=True)
    (tmp_path / "real/sub/a.txt").write_text("a")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/folder").symlink_to(tmp_path / "real")
    (tmp_path / "in/file").symlink_to(tmp_path / "real/sub/a.txt")
    assert SourceRun(once(tmp_path / "in")).run_to_end() == ["a", "a"]


def test_names_that_are_no_utf_8_are_read_and_can_be_told(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff\xfe.txt"
    Path(os.fsdecode(name)).write_bytes(b"line\n\xff")
    run = SourceRun(monitored(tmp_path))
    look(run)
    run = SourceRun(monitored(tmp_path), 1, run.epoch(polls=0))
    with pytest.raises(SourceFileError, match="bytes from 5 on") as told:
        read(run)
    str(told.value).encode()
    pickle.loads(pickle.dumps(told.value))


@pytest.mark.parametrize("what", ["a file", "a folder", "a folder that becomes a file"])
@pytest.mark.parametrize("source", [once, monitored])
def test_what_vanishes_while_its_folder_is_listed_is_skipped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Callable[[Path], FileSource], what: str
) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/c.txt").write_text("c")
    listdir = os.listdir

    def listed(path: str) -> list[str]:
        names = listdir(path)
        match what:
            case "a file":
                return [*names, "ghost"]
            case "a folder" if (tmp_path / "b").exists():
                shutil.rmtree(tmp_path / "b")
            case "a folder that becomes a file" if (tmp_path / "b").is_dir() and path == str(tmp_path):
                return names
            case "a folder that becomes a file" if (tmp_path / "b").is_dir():
                shutil.rmtree(tmp_path / "b")
                (tmp_path / "b").write_text("b")
                raise NotADirectoryError(path)
            case _:
                pass
        return names

    monkeypatch.setattr(walking.os, "listdir", listed)
    run = SourceRun(source(tmp_path))
    assert skipped(run) >= 1
    monkeypatch.undo()
    look(run)
    assert set(read(run)) == ({"a", "c"} if what == "a file" else {"a"})


def test_a_folder_that_cannot_be_looked_into_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()

    def refused(path: str) -> list[str]:
        if path.endswith("sub"):
            raise PermissionError(13, "Permission denied", path)
        return ["sub"]

    monkeypatch.setattr(walking.os, "listdir", refused)
    with pytest.raises(SourceFileError, match=r"/sub cannot be read: Permission denied"):
        SourceRun(once(tmp_path))


# ------------------------------------------------------------------------------------------------- who does what when


def instead(path: Path, make: Callable[[Path], None]) -> None:
    path.unlink()
    make(path)


def folder_with_a_file(path: Path) -> None:
    path.mkdir()
    (path / "inner").write_text("inner")


def moved_over(path: Path) -> None:
    write(path.parent / ".new", NEW)
    os.utime(path.parent / ".new", ns=(1, 1))
    (path.parent / ".new").rename(path)


TOUCHES: dict[str, Callable[[Path], Any]] = {
    "deleted": Path.unlink,
    "grown": lambda path: write(path, OLD + "three\n"),
    "cut short": lambda path: write(path, "one\n"),
    "emptied": lambda path: write(path, ""),
    "replaced by the same size": moved_over,
    "given another time": lambda path: os.utime(path, (1, 1)),
    "given other permissions": lambda path: path.chmod(0o644 if path.stat().st_mode & 1 else 0o755),
    "a folder": lambda path: instead(path, folder_with_a_file),
    "a pipe": lambda path: instead(path, pipe),
    "a dead link": lambda path: instead(path, dead_link),
    "a link to itself": lambda path: instead(path, own_link),
    "renamed": lambda path: path.rename(path.parent / "b.txt"),
    "made again with its folder": lambda path: again(path, OLD),
    "made again with its folder, other": lambda path: again(path, NEW),
}
#: What is read, or the error, where it is touched: while it waits, taken and not read, being read, and read.
CHANGED, GONE = SourceFileChangedError, SourceFileGoneError
CELLS: dict[str, tuple[Any, Any, Any, Any]] = {
    "deleted": ([], GONE, GONE, WAS_READ),
    "grown": (["one", "three", "two"], CHANGED, CHANGED, CHANGED),
    "cut short": (["one"], CHANGED, CHANGED, CHANGED),
    "emptied": ([], CHANGED, CHANGED, CHANGED),
    "replaced by the same size": (["ONE", "TWO"], CHANGED, CHANGED, CHANGED),
    "given another time": (WAS_READ, CHANGED, CHANGED, CHANGED),
    "given other permissions": (WAS_READ, WAS_READ, WAS_READ, WAS_READ),
    "a folder": (["inner"], GONE, GONE, ["inner", *WAS_READ]),
    "a pipe": ([], GONE, GONE, WAS_READ),
    "a dead link": ([], GONE, GONE, WAS_READ),
    "a link to itself": ([], GONE, GONE, WAS_READ),
    "renamed": (WAS_READ, GONE, GONE, ["one", "one", "two", "two"]),  # under a new name it is a new file
    "made again with its folder": (WAS_READ, WAS_READ, WAS_READ, WAS_READ),
    "made again with its folder, other": (["ONE", "TWO"], CHANGED, CHANGED, CHANGED),
}
MOMENTS = ["while it waits", "taken", "being read", "read"]


@pytest.mark.parametrize("restarts", [False, True], ids=["", "restart"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("touch", TOUCHES)
def test_a_monitored_file_is_read_once_and_whole_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, touch: str, moment: str, restarts: bool
) -> None:
    monkeypatch.setattr(line_blocks, "CHUNK_BYTES", 4)
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / "a.txt"
    path.write_text(OLD)
    source = monitored(folder)
    run = SourceRun(source)
    if moment != "while it waits":
        look(run)
    checkpoint = run.epoch(polls={"taken": 0, "being read": 1}.get(moment, 100))
    assert run.records == {"being read": ["one"], "read": WAS_READ}.get(moment, [])
    before = list(run.records)
    TOUCHES[touch](path)
    if restarts:
        run = SourceRun(source, 1, checkpoint)
        run.records = before
    expected = CELLS[touch][MOMENTS.index(moment)]
    if isinstance(expected, list):
        for _ in range(3):
            look(run)
        assert read(run) == expected
    else:
        go_on = look if moment == "read" else read
        with pytest.raises(expected, match=r"in/a\.txt cannot be read: .*it"):
            go_on(run)


@pytest.mark.parametrize(
    ("touch", "told"),
    [
        ("deleted", "was there when the job found it, with 8 bytes, and is not any more: it was deleted or renamed"),
        ("a folder", "not any more: it is a folder, and no file"),
        ("a pipe", "not any more: it is a named pipe, and no file"),
        ("a dead link", "not any more: it is a link to /nowhere/at/all, which is not there"),
    ],
)
def test_what_became_of_a_file_between_its_discovery_and_its_reading_is_told(
    tmp_path: Path, touch: str, told: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(OLD)
    run = SourceRun(once(tmp_path))
    TOUCHES[touch](path)
    with pytest.raises(SourceFileGoneError, match=told):
        run.run_to_end()


@pytest.mark.parametrize("touch", ["deleted", "grown"])
def test_a_file_that_is_touched_before_it_is_cut_was_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, touch: str
) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    builder = FileSource.for_bulk_file_format(ParquetFormat(), str(tmp_path)).monitor_continuously(SECOND)
    run = SourceRun(builder.build())
    [call] = run.context.async_calls
    listing = call.callable()
    TOUCHES[touch](path) if touch == "deleted" else path.write_bytes(b"PAR1 and more")
    call.handler(listing, None)
    assert (skipped(run), waiting(run)) == ((1, 0) if touch == "deleted" else (0, 1))


@pytest.mark.parametrize("appended", [False, True], ids=["", "appended files"])
def test_a_source_that_had_ended_and_looks_again_reads_new_files_and_names_those_that_changed(
    tmp_path: Path, appended: bool
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(OLD)
    builder = FileSource.for_record_stream_format(TEXT, str(tmp_path))
    source = (builder.read_appended_files() if appended else builder).build()
    run = SourceRun(source)
    run.epoch()
    state = run.enumerator.snapshot_state(1)
    (tmp_path / "b.txt").write_text("b")
    enumerator = source.restore_enumerator(TestEnumeratorContext(), state)
    enumerator.find_new_splits()
    assert [split.file.path for split in enumerator.waiting_splits] == [str(tmp_path / "b.txt")]
    write(path, OLD + "three\n")
    if appended:
        enumerator.find_new_splits()
        assert len(enumerator.waiting_splits) == 1
    else:
        with pytest.raises(SourceFileChangedError, match=r"a\.txt cannot be read: it has 14 bytes, and had 8"):
            enumerator.find_new_splits()


# ------------------------------------------------------------------------------------------------------------ state


def test_what_is_known_survives_a_checkpoint() -> None:
    status = FileStatus("/in/a", 5, 7, "etag")
    checkpoint = FileCheckpoint((), {"/in/a": status}, {"/in/b": WaitingFile(status, 12)})
    checkpoint = replace(checkpoint, waiting={"/in/a": WaitingFile(status, 12)})
    serializer = FileCheckpointSerializer()
    assert serializer.deserialize(serializer.get_version(), serializer.serialize(checkpoint)) == checkpoint
    assert pickle.loads(pickle.dumps(checkpoint)) == checkpoint


def test_a_folder_whose_name_has_brackets_is_one_folder_also_before_a_glob(tmp_path: Path) -> None:
    for name, line in (("dir[1]", "right"), ("dir1", "wrong"), ("dir[1]/sub*", "right"), ("dir[1]/sub1", "other")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(line)
    for path in ("dir[1]", "dir[1]/a.txt", "dir[1]/a.*", "dir[1]/sub*/a.txt"):
        assert set(SourceRun(once(tmp_path / path)).run_to_end()) <= {"right", "other"}, path
    assert SourceRun(once(tmp_path / "dir[1]/*.txt")).run_to_end() == ["right"]
    assert SourceRun(once(tmp_path / "dir[1]/sub*/*.txt")).run_to_end() == ["right"]
