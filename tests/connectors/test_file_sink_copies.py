"""A file sink that starts from what a run has staged that it does not go on from: it takes copies, and removes none."""

from __future__ import annotations

import errno
import itertools
from typing import TYPE_CHECKING, Any

import pytest

from penstock._connectors.files import local
from penstock._connectors.files.opening import filesystem_of
from penstock._connectors.files.staging import FinishedPart, HeldAttempts, list_segments
from penstock.common import Encoder
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.errors import LostCommittableError, SinkFileError, StagedFileError
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Two jobs, and the run of the first that has staged what both go on with.
FIRST, COPY = {"job_id": "1" * 32, "run_id": "a" * 32}, {"job_id": "2" * 32, "run_id": "b" * 32}
_stores = itertools.count()

BUCKETS: dict[str, Callable[[Path], str]] = {
    "same folder": lambda place: str(place / "out"),
    "other folder": lambda place: str(place / "copy" / "below"),
    "object store": lambda _: f"memory:///copies-{next(_stores)}",
}


def sink_to(folder: str) -> FileSink:
    builder = FileSink.for_row_format(folder, Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def epoch(folder: str, text: str, states: Any = (), *, ends: bool = False, **context: Any) -> tuple[Any, Any]:
    """Write a line and take the checkpoint: what there is to commit, and the state."""
    made = sink_to(folder).restore_writer(TestWriterContext(**context), list(states))
    made.write_all([text])
    made.flush(ends)
    return made.prepare_commit(), made.snapshot_state(context.get("checkpoint_id", 1))


def commit(folder: str, parts: Any, *, may_be_committed: bool = False, **context: Any) -> None:
    committer = sink_to(folder).create_committer(TestCommitterContext(**context))
    committer.commit(requests_for(parts, may_be_committed=may_be_committed))
    committer.close()


def content(path: str) -> bytes:
    with filesystem_of(path).open(path) as file:
        return file.read()


def staged(folder: str) -> dict[str, bytes]:
    found = (segment.path for segment in list_segments(folder))
    return {path: content(path) for path in found}


def text_of(parts: Any) -> list[bytes]:
    targets = [part.target for part in parts if isinstance(part, FinishedPart)]
    return [content(target) for target in targets]


def no_links(number: int) -> Callable[..., None]:
    def refuse(*_: Any) -> None:
        raise OSError(number, "no links")

    return refuse


@pytest.mark.parametrize("links", ["links", "no links", "another disk"])
@pytest.mark.parametrize("place", BUCKETS)
def test_unfinished_part_goes_on_with_copies_in_the_folder_of_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, links: str
) -> None:
    if links != "links":
        monkeypatch.setattr(local.os, "link", no_links(errno.EPERM if links == "no links" else errno.EXDEV))
    original, folder = str(tmp_path / "out"), BUCKETS[place](tmp_path)
    _, state = epoch(original, "one", **FIRST)
    before = staged(original)
    parts, of_copy = epoch(folder, "two", state, **COPY, attempt_token="copy")
    [held] = parts
    assert isinstance(held, HeldAttempts)
    assert held.tokens == {"copy"}
    parts, _ = epoch(folder, "three", of_copy, ends=True, **COPY, checkpoint_id=2)
    commit(folder, parts, **COPY)
    assert text_of(parts) == [b"one\ntwo\nthree\n"]
    assert staged(original) == before
    assert not staged(folder).keys() - before.keys()
    parts, _ = epoch(original, "four", state, ends=True, **FIRST, checkpoint_id=2)
    commit(original, parts, **FIRST)
    assert text_of(parts) == [b"one\nfour\n"]
    assert staged(original) == {}


def test_segments_of_an_earlier_run_are_gone_on_with_as_they_are(tmp_path: Path) -> None:
    folder, later = str(tmp_path), {**COPY, "earlier_runs": (FIRST["run_id"],)}
    _, state = epoch(folder, "one", **FIRST)
    [first] = staged(folder)
    parts, _ = epoch(folder, "two", state, ends=True, **later, checkpoint_id=2)
    assert first in parts[0].segments
    commit(folder, parts, **later)
    assert text_of(parts) == [b"one\ntwo\n"]
    assert staged(folder) == {}


@pytest.mark.parametrize("links", ["links", "no links"])
@pytest.mark.parametrize("epochs", [1, 2], ids=["one segment", "two segments"])
def test_part_that_two_jobs_publish_is_there_once_and_its_segments_stay_for_the_one_that_has_staged_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int, links: str
) -> None:
    if links == "no links":
        monkeypatch.setattr(local.os, "link", no_links(errno.EPERM))
    folder = str(tmp_path)
    parts, state = epoch(folder, "one", ends=epochs == 1, **FIRST)
    if epochs == 2:
        parts, state = epoch(folder, "two", state, ends=True, **FIRST, checkpoint_id=2)
    before, truth = staged(folder), b"one\n" if epochs == 1 else b"one\ntwo\n"
    commit(folder, parts, may_be_committed=True, **COPY)
    assert text_of(parts) == [truth]
    assert staged(folder) == before
    commit(folder, parts, **FIRST)
    assert text_of(parts) == [truth]
    assert staged(folder) == {}
    commit(folder, parts, may_be_committed=True, **COPY)
    assert [path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".runs"] == [truth]


def test_copies_of_a_void_epoch_go_with_the_writer_or_with_the_next_commit(tmp_path: Path) -> None:
    original, folder = str(tmp_path / "out"), str(tmp_path / "copy")
    _, state = epoch(original, "one", **FIRST)
    closed = sink_to(folder).restore_writer(TestWriterContext(**COPY, attempt_token="closed"), state)
    closed.close()
    assert staged(folder) == {}
    sink_to(folder).restore_writer(TestWriterContext(**COPY, attempt_token="killed"), state)
    assert len(staged(folder)) == 1
    parts, _ = epoch(folder, "two", state, ends=True, **COPY, attempt_token="good")
    commit(folder, parts, **COPY)
    assert staged(folder) == {}
    assert len(staged(original)) == 1


def test_segment_that_is_gone_is_named_and_nothing_is_begun(tmp_path: Path) -> None:
    original, folder = str(tmp_path / "out"), str(tmp_path / "copy")
    _, state = epoch(original, "one", **FIRST)
    _, state = epoch(original, "two", state, **FIRST, checkpoint_id=2)
    gone = state[0].parts[0].segments[1]
    filesystem_of(gone).delete(gone)
    with pytest.raises(StagedFileError) as caught:
        sink_to(folder).restore_writer(TestWriterContext(**COPY), state)
    assert caught.value.path == gone


def test_folder_that_takes_no_copies_is_a_named_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, folder = str(tmp_path / "out"), str(tmp_path / "copy")
    _, state = epoch(original, "one", **FIRST)
    monkeypatch.setattr(local.os, "link", no_links(errno.ENOSPC))
    with pytest.raises(SinkFileError, match="the space left"):
        sink_to(folder).restore_writer(TestWriterContext(**COPY), state)


def test_first_try_of_an_own_part_still_needs_all_that_was_staged(tmp_path: Path) -> None:
    parts, _ = epoch(str(tmp_path), "one", ends=True, **COPY)
    for path in staged(str(tmp_path)):
        filesystem_of(path).delete(path)
    with pytest.raises(LostCommittableError):
        commit(str(tmp_path), parts, **COPY)
