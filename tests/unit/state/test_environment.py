from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import lmdb
import pytest

from penstock._engine.state.local.environment import LmdbEnvironment, open_environment
from penstock._engine.state.local.versions import find_versions
from penstock._engine.storage.local_state import _file_system, private_directory
from penstock.errors import LocalStateError

if TYPE_CHECKING:
    from pathlib import Path


def test_directory_is_made_for_this_user_alone(tmp_path: Path) -> None:
    made = private_directory(tmp_path / "a" / "b")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (made, made.parent)] == [0o700, 0o700]
    assert private_directory(made) == made


def test_directory_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o750)
    with pytest.raises(LocalStateError, match=r"other users can enter it \(mode 750\)"):
        private_directory(shared)


def test_directory_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = private_directory(tmp_path / "a")
    monkeypatch.setattr(os, "geteuid", lambda: made.stat().st_uid + 1)
    with pytest.raises(LocalStateError, match="it belongs to user"):
        private_directory(made)


def test_link_and_file_are_refused(tmp_path: Path) -> None:
    private_directory(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").touch(mode=0o600)
    for path in (tmp_path / "link", tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LocalStateError):
            private_directory(path)


def test_network_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock._engine.storage.local_state._file_system", lambda device: "nfs4")
    with pytest.raises(LocalStateError, match=r"network disk \(nfs4\)"):
        private_directory(tmp_path / "a")


def test_type_of_a_file_system_is_found_by_its_device(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "24 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "90 24 0:52 / /mnt/share rw - nfs4 server:/share rw,vers=4.2\n"
    )
    assert _file_system(os.makedev(0, 52), mounts) == "nfs4"
    assert _file_system(os.makedev(254, 0), mounts) == "ext4"
    assert _file_system(os.makedev(9, 9), mounts) == ""
    assert _file_system(os.makedev(0, 52), tmp_path / "none") == ""


def test_process_has_one_handle_for_a_path_and_closes_it_with_its_last_user(tmp_path: Path) -> None:
    first = open_environment(tmp_path)
    assert open_environment(tmp_path) is first
    del first
    gc.collect()
    reopened = open_environment(tmp_path)
    with reopened.read() as transaction:
        assert transaction.get(b"a") is None


def put(environment: LmdbEnvironment, round_: int) -> None:
    def action(transaction: object) -> None:
        for number in range(500):
            transaction.put(b"%06d" % number, b"%d" % round_ + bytes(1_000))  # type: ignore[attr-defined]

    environment.write(action)


def test_reader_of_a_killed_process_does_not_let_the_file_grow(tmp_path: Path) -> None:
    environment = open_environment(tmp_path)
    put(environment, 0)
    program = "import lmdb, signal, sys; t = lmdb.open(sys.argv[1]).begin(); print(1, flush=True); signal.pause()"
    reader = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    with reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        put(environment, 1)
        os.kill(reader.pid, signal.SIGKILL)
    for round_ in range(3):
        put(environment, round_)
    size = (tmp_path / "data.mdb").stat().st_blocks
    for round_ in range(20):
        put(environment, round_)
    assert (tmp_path / "data.mdb").stat().st_blocks == size


@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb"])
def test_environment_of_which_one_file_was_cleaned_away_is_not_opened(tmp_path: Path, name: str) -> None:
    environment = open_environment(tmp_path)
    environment.write(lambda transaction: transaction.put(b"key", b"value"))
    del environment
    gc.collect()
    (tmp_path / name).unlink()
    with pytest.raises(lmdb.Error, match="one of its two files is missing"):
        open_environment(tmp_path)
    assert find_versions(tmp_path.parent, range(128), 128) == []
