from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock._engine.spark import directories
from penstock.errors import LocalDirectoryError


@pytest.fixture(autouse=True)
def roomy_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=10 << 30))


def test_private_directory_is_closed_to_others(tmp_path: Path) -> None:
    open_one = tmp_path / "open"
    open_one.mkdir(mode=0o755)
    for path in (open_one, tmp_path / "new"):
        assert directories.private_directory(path).stat().st_mode & 0o777 == 0o700


def test_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(LocalDirectoryError, match=f"belongs to user {owner}, not to user {owner + 1}"):
        directories.private_directory(tmp_path)


def test_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(LocalDirectoryError, match="a link or a file"):
        directories.private_directory(tmp_path / "link")


def test_full_disk_is_said_with_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=100 << 20))
    with pytest.raises(LocalDirectoryError, match="its disk has 100 MiB free, Spark needs 256 MiB") as caught:
        directories.RunDirectory(tmp_path)
    assert "TMPDIR" in str(caught.value)


def test_run_directory_goes_and_its_log_stays(tmp_path: Path) -> None:
    run = directories.RunDirectory(tmp_path)
    run.log_file.write_text("a line")
    (run.path / "blocks").mkdir()
    run.remove()
    run.remove()
    assert not run.path.exists()
    assert run.log_file.read_text() == "a line"


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_holds_is_not(tmp_path: Path) -> None:
    held = directories.RunDirectory(tmp_path)
    dead = held.path.parent / "spark-dead"
    dead.mkdir()
    (dead / "lock").touch()
    half_made = held.path.parent / "spark-half"
    half_made.mkdir()
    directories.RunDirectory(tmp_path).remove()
    assert not dead.exists()
    assert held.path.exists()
    assert half_made.exists()
    held.remove()


def test_only_the_newest_logs_are_kept_and_those_of_living_runs(tmp_path: Path) -> None:
    living = directories.RunDirectory(tmp_path)
    os.utime(living.log_file, (0, 0))
    for age in range(15):
        run = directories.RunDirectory(tmp_path)
        os.utime(run.log_file, (age, age))
        run.remove()
    last = run.log_file
    logs = set(last.parent.glob("*.log"))
    assert len(logs - {living.log_file}) == 10
    assert {last, living.log_file} <= logs
    living.remove()


def test_base_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalDirectoryError):
        directories.RunDirectory(tmp_path / "file")


def test_sockets_are_in_the_run_directory_and_go_with_it() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        run = directories.RunDirectory(Path(short))
        sockets = run.socket_directory()
        assert sockets == run.path
        assert sockets.stat().st_mode & 0o777 == 0o700
        assert not list(sockets.glob(".*.sock")), "the probe is gone"
        run.remove()
        assert not sockets.exists()


def test_run_directory_with_a_long_path_has_its_sockets_in_the_temporary_directory(tmp_path: Path) -> None:
    run = directories.RunDirectory(tmp_path / ("long" * 20))
    sockets = run.socket_directory()
    assert sockets is not None
    assert sockets != run.path
    assert sockets.parent == directories.user_directory()
    assert sockets.stat().st_mode & 0o777 == 0o700
    assert directories.takes_sockets(sockets)
    run.remove()
    assert not sockets.exists()


def test_sockets_of_a_killed_process_are_swept(tmp_path: Path) -> None:
    dead = directories.user_directory() / "spark-killed"
    dead.mkdir()
    (dead / "lock").touch()
    run = directories.RunDirectory(tmp_path / ("long" * 20))
    run.socket_directory()
    assert not dead.exists()
    run.remove()


def test_without_a_short_path_there_are_no_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("long" * 20)
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setattr(directories, "_SHORT_BASE", long)
    run = directories.RunDirectory(long)
    assert run.socket_directory() is None
    assert list(run.path.parent.glob("spark-*")) == [run.path], "directories of no use stay behind"
    run.remove()


def test_without_the_platform_s_sockets_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_UNIX")
    assert not directories.takes_sockets(tmp_path)


def test_disk_that_takes_no_sockets_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: object, _address: object) -> None:
        raise OSError("no sockets on this disk")

    monkeypatch.setattr(socket, "socket", type("Refusing", (socket.socket,), {"bind": refuse}))
    assert not directories.takes_sockets(tmp_path)
