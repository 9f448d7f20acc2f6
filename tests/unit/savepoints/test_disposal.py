"""Deleting savepoints: the whole of them, nothing else, and none that a job goes on from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.savepoints.jobs import environment, run, savepoint_of, totals

from penstock._engine.savepoints.disposal import dispose
from penstock._engine.storage.local import LocalStorage
from penstock.errors import CheckpointStorageError, SavepointChangeError, UnknownStateError
from penstock.savepoint import SavepointWriter

if TYPE_CHECKING:
    from collections.abc import Iterable


def written(place: Path) -> Path:
    return Path(SavepointWriter.new(parallelism=2).set_keyed_state("op", "state", {1: 1, 2: 2}).write(str(place)))


def test_savepoint_goes_whole_and_its_neighbours_stay(tmp_path: Path) -> None:
    path, other = written(tmp_path / "s" / "one"), written(tmp_path / "s" / "two")
    size = sum(file.stat().st_size for file in path.iterdir())
    gone = dispose(str(path))
    assert (gone.path, gone.files, gone.bytes) == (str(path), 3, size)
    assert list((tmp_path / "s").iterdir()) == [other]
    with pytest.raises(UnknownStateError):
        dispose(str(path))


def test_files_of_killed_writers_go_with_it(tmp_path: Path) -> None:
    path = written(tmp_path / "s")
    (path / ".tmp-7-ab").write_text("half")
    dispose(str(path))
    assert not path.exists()


def test_metadata_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "s")
    delete = LocalStorage.delete

    def once(storage: LocalStorage, paths: Iterable[str]) -> None:
        delete(storage, paths)
        raise CheckpointStorageError(storage.url, "the disk is gone")

    monkeypatch.setattr(LocalStorage, "delete", once)
    with pytest.raises(CheckpointStorageError):
        dispose(str(path))
    assert not (path / "_metadata").exists()
    assert len(list(path.iterdir())) == 2


def test_directory_with_other_files_stays_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path / "s")
    (path / "notes.txt").write_text("mine")
    with pytest.raises(SavepointChangeError, match=r"notes.txt"):
        dispose(str(path))
    assert len(list(path.iterdir())) == 4


def test_checkpoint_is_refused(tmp_path: Path) -> None:
    savepoint_of(tmp_path)
    records = list((tmp_path / "checkpoints").rglob("_metadata"))
    assert records
    for path in records:
        with pytest.raises(SavepointChangeError, match="no savepoint"):
            dispose(str(path))
        assert path.is_file()


def test_savepoint_that_a_suspended_job_goes_on_from_is_refused(tmp_path: Path) -> None:
    path = savepoint_of(tmp_path, numbers=20_000)
    for directories in ([str(tmp_path / "checkpoints")], [str(tmp_path / "elsewhere")], []):
        with pytest.raises(SavepointChangeError, match="'totals'"):
            dispose(path, directories, no_job_waits=True)


def test_savepoint_of_a_job_that_went_on_and_ended_is_free(tmp_path: Path) -> None:
    path = savepoint_of(tmp_path, numbers=5_000)
    env = environment(2, checkpoints=str(tmp_path / "checkpoints"), recover="latest")
    totals(env, 5_000)
    run(env, tmp_path)
    dispose(path, [str(tmp_path / "checkpoints")])
    assert not Path(path).exists()


def test_savepoint_whose_claimant_is_not_to_be_found_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place, said in (("gone", "no record of it"), ("empty", "no record of it"), (None, "_claim-1 is damaged")):
        path = written(tmp_path / f"claimed-{place}")
        claim = {"job_id": "ab" * 16, "job_name": "j", "checkpoints": str(tmp_path / str(place)), "path": str(path)}
        (path / "_claim-1").write_text(json.dumps(claim) if place else '{"job_')
        with pytest.raises(SavepointChangeError, match=f"has claimed.*{said}.*--no-job-waits"):
            dispose(str(path))
        assert (path / "_metadata").is_file()
        dispose(str(path), no_job_waits=True)
        assert not path.exists()
