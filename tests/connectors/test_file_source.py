from __future__ import annotations

import gzip
import lzma
import os
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._connectors.files.filesystem import FileStatus, is_passed_over
from penstock._connectors.files.local import LocalFileSystem
from penstock._connectors.files.opening import FoundFile, filesystem_of
from penstock._connectors.files.source_state import FileSourceSplit
from penstock._formats import lines as line_blocks
from penstock.common.time import Duration
from penstock.datastream.connectors.base import Boundedness
from penstock.datastream.connectors.file_system import (
    FileEnumeratorProvider,
    FilePart,
    FileSource,
    FileSplitAssignerProvider,
    StreamFormat,
)
from penstock.datastream.formats.parquet import ParquetFormat
from penstock.errors import SourceFileChangedError, SourceFileError
from penstock.testing.connector_contexts import RecordingOutput, TestEnumeratorContext, TestReaderContext
from penstock.testing.source_contract import SourceRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TEXT = StreamFormat.text_line_format()


def read_all(*paths: str | Path, charset: str = "UTF-8", parallelism: int = 1) -> list[str]:
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), *map(str, paths)).build()
    return SourceRun(source, parallelism).run_to_end()


def read_parts(path: Path, bounds: Sequence[int]) -> list[str]:
    status = filesystem_of(str(path)).find(str(path))[0]
    lines: list[str] = []
    for start, end in pairwise(bounds):
        for block, _ in TEXT.read(FoundFile.of(status), FilePart(start, end, end - start)):
            lines += block
    return lines


LINES = st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=12), max_size=30)


@settings(deadline=None, max_examples=200)
@given(lines=LINES, ending=st.sampled_from(["\n", "\r\n"]), ends_with_one=st.booleans(), data=st.data())
def test_byte_ranges_of_any_text_give_its_lines_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], ending: str, ends_with_one: bool, data: st.DataObject
) -> None:
    content = ending.join(lines).encode() + (ending.encode() if ends_with_one else b"")
    path = tmp_path_factory.mktemp("text") / "file.txt"
    path.write_bytes(content)
    cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=6))
    expected = content.decode().replace("\r\n", "\n").split("\n")
    if not expected[-1]:
        expected.pop()
    assert read_parts(path, [0, *sorted(cuts), len(content)]) == expected


@settings(deadline=None, max_examples=30)
@given(lines=LINES, cut=st.integers(0, 400))
def test_reading_goes_on_from_any_position_that_was_reported(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], cut: int
) -> None:
    path = tmp_path_factory.mktemp("text") / "file.txt"
    path.write_text("".join(f"{line}\n" for line in lines) * 40, "utf-8", newline="")
    status = filesystem_of(str(path)).find(str(path))[0]
    part = FilePart(min(cut, status.size), status.size, 0)
    blocks = list(TEXT.read(FoundFile.of(status), part))
    for index, (_, position) in enumerate(blocks):
        rest = [
            line
            for block, _ in TEXT.read(FoundFile.of(status), FilePart(part.start, part.end, 0, position))
            for line in block
        ]
        assert rest == [line for block, _ in blocks[index + 1 :] for line in block]


def test_folders_are_read_recursively_without_hidden_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a/x.txt", "a/_no.txt", ".no", "_dir/no.txt", "a/.dir/no.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert read_all(tmp_path) == ["a/x.txt", "b.txt"]


def test_globs_and_several_paths_give_each_file_once(tmp_path: Path) -> None:
    for name in ("1.txt", "2.txt", "3.csv", "_4.txt", "sub/5.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert read_all(tmp_path / "*.txt") == ["1.txt", "2.txt"]
    assert read_all(tmp_path / "**" / "*.txt", tmp_path / "3.csv", tmp_path / "1.txt") == [
        *("1.txt", "2.txt", "sub/5.txt", "3.csv")
    ]


def test_file_named_like_a_glob_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("this")
    (tmp_path / "a1.txt").write_text("not this")
    assert read_all(tmp_path / "a[1].txt") == ["this"]


@pytest.mark.parametrize("name", ["gone.txt", "*.gone", "gone/"])
def test_path_that_stands_for_nothing_is_an_error_at_enumeration(tmp_path: Path, name: str) -> None:
    source = FileSource.for_record_stream_format(TEXT, f"{tmp_path}/{name}").build()
    with pytest.raises(SourceFileError, match="no such file"):
        source.create_enumerator(TestEnumeratorContext())


def test_empty_folder_and_empty_file_have_no_lines(tmp_path: Path) -> None:
    assert read_all(tmp_path) == []
    (tmp_path / "empty.txt").touch()
    assert read_all(tmp_path, parallelism=3) == []


def test_file_that_vanishes_after_enumeration_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    run = SourceRun(FileSource.for_record_stream_format(TEXT, str(path)).build())
    path.unlink()
    with pytest.raises(
        SourceFileError,
        match=r"a\.txt.*was there when the job found it, with 2 bytes, and is not any more: it was deleted or renamed",
    ):
        run.run_to_end()


def test_file_that_was_cut_short_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n" * 100)
    run = SourceRun(FileSource.for_record_stream_format(TEXT, str(path)).build())
    path.write_text("a\n")
    with pytest.raises(SourceFileError, match="had 200"):
        run.run_to_end()


def test_bytes_outside_of_the_charset_are_an_error_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\n" + "für\n".encode("latin-1"))
    with pytest.raises(SourceFileError, match=r"bytes from 6 on are no utf-8"):
        read_all(path)
    assert read_all(path, charset="ISO-8859-1") == ["fine", "für"]


def test_wide_charsets_are_read_and_resumed_by_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    lines = [f"{number} ü\u0a0a" for number in range(60_000)]
    path.write_text("\r\n".join(lines), "utf-16", newline="")
    assert read_all(path, charset="UTF-16") == lines
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format("UTF-16"), str(path)).build()
    run = SourceRun(source)
    checkpoint = run.epoch(polls=1)
    assert 0 < len(run.records) < len(lines)
    assert run.records + SourceRun(source, 1, checkpoint).run_to_end() == lines


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files_are_unpacked_and_resumed(tmp_path: Path, suffix: str, pack: Any) -> None:
    path = tmp_path / f"a.txt{suffix}"
    lines = [f"line {number}" for number in range(60_000)]
    path.write_bytes(pack("\n".join(lines).encode()))
    run = SourceRun(FileSource.for_record_stream_format(TEXT, str(path)).build(), keep_readers=False)
    assert run.run_to_end(polls=1) == lines


def test_damaged_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"line\n" * 1000)[:-20])
    with pytest.raises(SourceFileError, match=r"a\.txt\.gz.*unpacked"):
        read_all(path)


def test_large_files_are_cut_for_all_readers_where_they_are_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 1023 + b"\n")
    os.truncate(path, 8 * 1024 * 1024)
    builder = FileSource.for_record_stream_format(TEXT, str(path)).set_split_assigner(
        FileSplitAssignerProvider.locality_aware_split_assigner()
    )
    for provider, parts in (
        (FileEnumeratorProvider.default_splittable_file_enumerator(), 8),
        (FileEnumeratorProvider.default_non_splittable_file_enumerator(), 1),
    ):
        for is_batch in (False, True):
            source = builder.set_file_enumerator(provider).build()
            enumerator = source.create_enumerator(TestEnumeratorContext(2, is_batch=is_batch))
            assert len(enumerator.snapshot_state(1).splits) == parts


@pytest.mark.parametrize(("is_batch", "parts"), [(False, 1), (True, 8)])
def test_a_file_of_lines_is_read_whole_by_one_reader_except_in_batch_mode(
    tmp_path: Path, is_batch: bool, parts: int
) -> None:
    """As in Flink, where a line format is not splittable: the parts of a file would mix its times."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 1023 + b"\n")
    os.truncate(path, 8 * 1024 * 1024)
    source = FileSource.for_record_stream_format(TEXT, str(path)).build()
    splits = source.create_enumerator(TestEnumeratorContext(2, is_batch=is_batch)).snapshot_state(1).splits
    assert len(splits) == parts


def test_many_small_files_need_few_epochs(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"{number:04}.txt").write_text(f"{number}\n")
    run = SourceRun(FileSource.for_record_stream_format(TEXT, str(tmp_path)).build(), 4)
    assert sorted(map(int, run.run_to_end())) == list(range(2000))
    assert run.checkpoint_id < 40


@pytest.mark.parametrize("polls", [1, 3, 40])
def test_readers_of_files_in_the_order_of_time_are_no_further_apart_than_what_they_read_in_two_epochs(
    tmp_path: Path, polls: int
) -> None:
    for number in range(120):
        (tmp_path / f"{number:03}.txt").write_text(f"{number}\n" * 5000)
    run = SourceRun(FileSource.for_record_stream_format(TEXT, str(tmp_path)).build(), 3)
    while not run.finished:
        run.epoch(polls)
        files = {int(line) for line in run.records}
        run.records.clear()
        if files:
            assert max(files) - min(files) < 3 * max(3, len(files))


def test_monitoring_reads_new_files_once_and_never_ends(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    source = (
        FileSource.for_record_stream_format(TEXT, str(tmp_path)).monitor_continuously(Duration.of_seconds(1)).build()
    )
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    run = SourceRun(source, 2)
    run.context.run_async_calls()
    for _ in range(3):
        run.epoch()
    (tmp_path / "b.txt").write_text("b")
    run.context.run_async_calls()
    run.context.run_async_calls()
    checkpoint = run.epoch()
    assert run.records == ["a", "b"]
    assert not run.finished
    again = SourceRun(source, 2, checkpoint)
    again.context.run_async_calls()
    (tmp_path / "c.txt").write_text("c")
    again.context.run_async_calls()
    again.context.run_async_calls()
    again.epoch()
    again.epoch()
    assert again.records == ["c"]


def test_error_while_monitoring_fails_the_enumerator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FileSource.for_record_stream_format(TEXT, str(tmp_path)).monitor_continuously(Duration.of_seconds(1))
    run = SourceRun(source.build())

    def refuse(self: Any, path: str, skip: Any) -> Any:
        raise PermissionError(13, "not for you")

    monkeypatch.setattr(LocalFileSystem, "find", refuse)
    with pytest.raises(SourceFileError, match="not for you"):
        run.context.run_async_calls()


@pytest.mark.parametrize("path", ["folder", "folder/*.txt", "folder/a.txt"])
def test_what_is_monitored_may_stand_for_nothing_yet_and_again(tmp_path: Path, path: str) -> None:
    source = FileSource.for_record_stream_format(TEXT, str(tmp_path / path)).monitor_continuously(
        Duration.of_seconds(1)
    )
    run = SourceRun(source.build())
    run.context.run_async_calls()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a.txt").write_text("a")
    run.context.run_async_calls()
    run.context.run_async_calls()
    run.epoch()
    run.epoch()
    (tmp_path / "folder/a.txt").unlink()
    (tmp_path / "folder").rmdir()
    run.context.run_async_calls()
    assert run.records == ["a"]


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("**/*.txt", ["a.txt", "sub/b.txt"]),
        ("**", ["a.txt", "sub/b.txt"]),
        ("*", ["a.txt", "sub/b.txt"]),
        ("_temporary/*/*.txt", ["_temporary/0/part-0.txt"]),
        ("_temporary", ["_temporary/0/part-0.txt"]),
        ("_*/**/*.txt", ["_temporary/0/part-0.txt"]),
        (".hidden/*", [".hidden/c.txt"]),
        ("*/.*/d.txt", ["sub/.e/d.txt"]),
        ("s*/../*.txt", ["sub/../a.txt"]),
        ("**/../a.txt", ["sub/../a.txt"]),
    ],
)
def test_a_glob_enters_no_hidden_folder_that_it_does_not_ask_for(tmp_path: Path, glob: str, found: list[str]) -> None:
    for name in ("a.txt", "sub/b.txt", "_temporary/0/part-0.txt", ".hidden/c.txt", "sub/.e/d.txt", "sub/_f.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    statuses = LocalFileSystem().find(f"{tmp_path}/{glob}")
    assert [status.path.removeprefix(f"{tmp_path}/") for status in statuses] == found
    if any(sign in glob for sign in "*?["):  # object stores by the same rule; there, "*" goes on into folders
        assert all(not is_passed_over(name, glob) for name in found)
        assert is_passed_over("sub/__g/_h.txt", glob.replace("_*", "_t*"))


# -------------------------------------------------------------------------------------------------- files that change


def change(path: Path, how: str) -> None:
    """Change a file of four lines; its time is another one, too, as it is when a minute has passed."""
    before = path.stat()
    match how:
        case "grown":
            path.write_text(path.read_text() + "five\nsix\n")
        case "cut short":
            path.write_text("one\n")
        case "replaced":
            (path.parent / ".new").write_text(path.read_text().upper())
            (path.parent / ".new").rename(path)
        case _:
            path.unlink()
    if path.exists():
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 60_000_000_000))


def found_and_changed(tmp_path: Path, how: str, when: str, *, may_grow: bool = False) -> SourceRun:
    """Return the run of a source whose file changed after it was found, at a moment of its reading."""
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\nfour\n")
    builder = FileSource.for_record_stream_format(TEXT, str(tmp_path))
    source = (builder.read_appended_files() if may_grow else builder).build()
    run = SourceRun(source)
    if when == "after a restart":
        run = SourceRun(source, 1, run.epoch(polls=1))
    change(path, how)
    return run


@pytest.mark.parametrize("when", ["before the first read", "after a restart"])
@pytest.mark.parametrize("how", ["grown", "cut short", "replaced", "deleted"])
def test_a_file_that_changed_after_it_was_found_is_an_error_that_names_it(tmp_path: Path, how: str, when: str) -> None:
    run = found_and_changed(tmp_path, how, when)
    error = SourceFileError if how == "deleted" else SourceFileChangedError
    with pytest.raises(error, match=r"a\.txt cannot be read: it (was changed at|has \d+ bytes|was there when)"):
        run.run_to_end()


def test_a_file_that_changes_under_the_reader_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_blocks, "CHUNK_BYTES", 4)
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\nthree\nfour\n")
    source = FileSource.for_record_stream_format(TEXT, str(tmp_path)).build()
    [split] = source.create_enumerator(TestEnumeratorContext()).waiting_splits
    reader = source.create_reader(TestReaderContext())
    reader.add_splits([split])
    output = RecordingOutput(1)
    reader.poll_next(output)
    path.write_text("ONE\nTWO\nTHREE\nFOUR\n")
    os.utime(path, (1, 1))
    with pytest.raises(SourceFileError, match=r"a\.txt cannot be read: it was changed"):
        reader.poll_next(output)
    assert output.records == ["one"]


@pytest.mark.parametrize("when", ["before the first read", "after a restart"])
def test_appended_files_are_read_as_far_as_they_were_there_where_that_is_asked_for(tmp_path: Path, when: str) -> None:
    run = found_and_changed(tmp_path, "grown", when, may_grow=True)
    assert run.run_to_end() == ([] if when == "after a restart" else ["one", "two", "three", "four"])


def test_files_that_were_asked_for_while_they_grow_may_not_shrink(tmp_path: Path) -> None:
    with pytest.raises(SourceFileError, match="has 4 bytes"):
        found_and_changed(tmp_path, "cut short", "before the first read", may_grow=True).run_to_end()


def test_only_files_of_lines_can_be_read_while_they_grow() -> None:
    with pytest.raises(TypeError, match="read line by line"):
        FileSource.for_bulk_file_format(ParquetFormat(), "/x").read_appended_files()


@pytest.mark.parametrize(
    ("now", "change"),
    [
        (FileStatus("/a", 11, 5_000, "x"), "it has 11 bytes, and had 10"),
        (FileStatus("/a", 10, 5_000, "y"), "its ETag is y, and was x"),
        (FileStatus("/a", 10, 9_000, "x"), None),
        (FileStatus("/a", 10, 9_000), "it was changed at 1970-01-01T00:00:09.000+00:00"),
    ],
)
def test_what_has_changed_is_told_by_size_etag_and_time(now: FileStatus, change: str | None) -> None:
    told = now.differs_from(FileStatus("/a", 10, 5_400, "x"))
    assert told is None if change is None else (told or "").startswith(change)


def test_builder_refuses_no_path_and_no_time() -> None:
    with pytest.raises(ValueError, match="at least one path"):
        FileSource.for_record_stream_format(TEXT)
    with pytest.raises(ValueError, match="at least 1 ms"):
        FileSource.for_record_stream_format(TEXT, "/x").monitor_continuously(Duration.of_millis(0))


def test_split_ids_tell_the_parts_of_a_file_apart() -> None:
    status = FileStatus("/a", 10, 0)
    splits = [FileSourceSplit(status, FilePart(start, start + 5, 5)) for start in (0, 5)]
    assert len({split.split_id() for split in splits}) == 2


@given(wanted=st.lists(st.integers(1, 400), min_size=1, max_size=20))
def test_reader_stops_within_a_block_and_a_new_one_goes_on_there(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[int]
) -> None:
    path = tmp_path_factory.mktemp("in") / "lines.txt"
    path.write_text("\n".join(map(str, range(1_000))))
    source = FileSource.for_record_stream_format(TEXT, str(path)).build()
    splits: list[Any] = [
        FileSourceSplit(filesystem_of(str(path)).status(str(path)), FilePart(0, path.stat().st_size, 0))
    ]
    read: list[str] = []
    for count in [*wanted, 1_001]:
        reader = source.create_reader(TestReaderContext())
        reader.add_splits(splits)
        output = RecordingOutput(count)
        reader.poll_next(output)
        assert len(output.records) <= count
        read += output.records
        splits = reader.snapshot_state(1)
        reader.close()
    assert read == [str(number) for number in range(1_000)]


def test_very_many_tiny_files_are_read_once_each_in_few_epochs(tmp_path: Path) -> None:
    many = 10_000 if "PENSTOCK_ALL_CELLS" in os.environ else 500
    for number in range(many):
        (tmp_path / str(number)).write_bytes(b"%d" % number)
    run = SourceRun(FileSource.for_record_stream_format(TEXT, str(tmp_path)).build(), 4)
    for _ in range(5):
        checkpoint = run.epoch()
    run.close()
    before = list(run.records)
    again = SourceRun(FileSource.for_record_stream_format(TEXT, str(tmp_path)).build(), 3, checkpoint)
    assert sorted(map(int, before + again.run_to_end())) == list(range(many))
    assert again.checkpoint_id < 20
