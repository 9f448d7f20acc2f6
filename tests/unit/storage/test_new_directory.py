"""New directories: links on their paths, and the removal of directories that remain empty."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock._files import disk
from penstock._files.disk import check_no_links, first_missing, remove_empty
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from pathlib import Path


def test_no_part_behind_the_trusted_one_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    check_no_links(str(tmp_path / "real" / "new" / "one"), str(tmp_path))
    check_no_links(str(tmp_path / "link" / "new"), str(tmp_path / "link"))
    check_no_links("s3://bucket/link", "s3://bucket")
    for path in ("link/new/one", "link", "dangling/new", "real/../link/x"):
        with pytest.raises(CheckpointStorageError, match="leads through a link; give the path"):
            check_no_links(str(tmp_path / path), str(tmp_path))


def test_only_what_was_missing_and_is_empty_goes_again(tmp_path: Path) -> None:
    top = first_missing(str(tmp_path / "a" / "b" / "c"))
    assert top is not None
    assert top == tmp_path / "a"
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "other").mkdir()
    (tmp_path / "a" / "other" / "file").touch()
    remove_empty(top)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "file", "other"]
    assert first_missing(str(tmp_path)) is None
    assert first_missing("s3://bucket/x") is None


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "\udc80"])
def test_names_that_cannot_be_are_missing(tmp_path: Path, name: str) -> None:
    assert first_missing(str(tmp_path / "new" / name)) == tmp_path / "new"


def test_a_process_that_was_stopped_in_a_change_of_a_folder_does_not_stop_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "LONGEST_CHANGE_S", 0.05)
    with disk.alone_in(tmp_path), ThreadPoolExecutor(1) as other:  # a lock is of what is opened, not of the process
        other.submit(_change, tmp_path).result(10)
    assert (tmp_path / "changed").exists()


def _change(folder: Path) -> None:
    with disk.alone_in(folder):
        (folder / "changed").touch()
