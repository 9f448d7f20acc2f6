"""Links and directories of another user in the place of Penstock's own: nothing there is read, listed or removed."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.savepoints.jobs import environment, run, savepoint_of, totals

from penstock._engine.processes.user_directories import user_state_directory
from penstock._engine.protocol.clocks import now_ms
from penstock._engine.savepoints.leftovers import find_leftovers, remove_leftovers
from penstock._engine.savepoints.survey import Leftover, LeftoverKind, LeftoverPlaces
from penstock._engine.spark import directories, shipping
from penstock._engine.storage.local import LocalStorage
from penstock._engine.storage.local_state import LocalStateDirectory, private_directory
from penstock._engine.storage.opening import open_storage
from penstock._engine.storage.ownership import first_not_trusted
from penstock._engine.storage.scratch import ScratchDirectory
from penstock.common.file_modes import others_can_write
from penstock.errors import (
    CheckpointStorageError,
    CorruptCheckpointError,
    ExposedCheckpointError,
    LocalDirectoryError,
    LocalStateError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_MS = 86_400_000
KEY = "0123456789abcdef0123456789abcdef"
#: A user who is not this one; only root can give files to another.
STRANGER = 65_534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: run as root")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with something in it that looks like a run, and has been left alone for long."""
    for folder in ("photos", "a" * 32):
        (tmp_path / "home" / folder).mkdir(parents=True)
        (tmp_path / "home" / folder / "precious").write_text("precious")
    return tmp_path / "home"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of this user's directory below the temporary one; there is nothing yet."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place / f"penstock-{os.geteuid()}"


def a_link_in_place_of_all(own: Path, home: Path) -> None:
    (home / "state").mkdir()
    (home / "photos").rename(home / "state" / ("c" * 32))
    own.symlink_to(home)


def a_link_in_place_of_the_state(own: Path, home: Path) -> None:
    own.mkdir(mode=0o700)
    (own / "state").symlink_to(home)


def a_link_in_place_of_a_run(own: Path, home: Path) -> None:
    (own / "state").mkdir(parents=True, mode=0o700)
    (own / "state" / ("b" * 32)).symlink_to(home)


def a_directory_of_a_stranger(own: Path, home: Path) -> None:
    own.mkdir(mode=0o777)
    (own / "state").symlink_to(home)
    os.chown(own, STRANGER, STRANGER)


def a_directory_that_all_may_write_to(own: Path, home: Path) -> None:
    own.mkdir()
    home.rename(own / "state")
    own.chmod(0o777)
    home.symlink_to(own / "state")


PLANTS = [
    a_link_in_place_of_all,
    a_link_in_place_of_the_state,
    a_link_in_place_of_a_run,
    a_directory_that_all_may_write_to,
    pytest.param(a_directory_of_a_stranger, marks=needs_root),
]


def precious(place: Path) -> list[str]:
    return sorted(path.read_text() for path in place.rglob("precious"))


@pytest.mark.parametrize("plant", PLANTS)
def test_clean_neither_lists_nor_removes_what_a_planted_link_leads_to(
    plant: Callable[[Path, Path], None], own: Path, home: Path, tmp_path: Path
) -> None:
    plant(own, home)
    survey = find_leftovers(LeftoverPlaces(), now_ms=now_ms() + DAY_MS)
    assert survey.leftovers == ()
    # Nor does it where the link came between the search and the removal.
    for run_id in ("a" * 32, "b" * 32, "c" * 32):
        found = Leftover(LeftoverKind.LOCAL_DIRECTORY, str(own / "state" / run_id), 0, "", 0)
        assert remove_leftovers([found]).removed == ()
    assert precious(tmp_path.resolve()) == ["precious", "precious"]


def test_clean_says_which_directory_it_did_not_look_into(own: Path, home: Path) -> None:
    a_link_in_place_of_the_state(own, home)
    [unclear] = find_leftovers(LeftoverPlaces(), now_ms=now_ms() + DAY_MS).unclear
    assert (unclear.path, "link" in unclear.reason) == (str(own / "state"), True)


CALLS: dict[str, Callable[[LocalStorage], object]] = {
    "find": lambda storage: storage.find("job/shared/precious"),
    "read": lambda storage: storage.read_sized("job/shared/precious", 8),
    "range": lambda storage: storage.read_range("job/shared/precious", 0, 2),
    "put": lambda storage: storage.put("job/shared/precious", b"changed"),
    "put if absent": lambda storage: storage.put_if_absent("job/shared/new", b"new"),
    "delete": lambda storage: storage.delete(["job/shared/precious"]),
    "names": lambda storage: storage.names("job/shared"),
    "files": lambda storage: storage.files("job/shared"),
    "copy": lambda storage: storage.copy_from(storage, "job/shared/precious", "copy"),
    "move": lambda storage: storage.move("job/shared/precious", "moved"),
    "steps up": lambda storage: storage.put("job/../../new", b"new"),
    "absolute": lambda storage: storage.find("/etc/hostname"),
}


@pytest.mark.parametrize("call", CALLS)
def test_storage_follows_no_link_below_its_directory_and_no_way_out_of_it(
    call: str, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints" / "job").mkdir(parents=True)
    (tmp_path / "checkpoints" / "job" / "shared").symlink_to(home / "photos")
    storage = LocalStorage(tmp_path / "checkpoints")
    with pytest.raises(CheckpointStorageError, match=r"link|below the directory"):
        CALLS[call](storage)
    assert sorted(path.name for path in home.rglob("*")) == ["a" * 32, "photos", "precious", "precious"]
    assert precious(home) == ["precious"] * 2
    assert not (tmp_path / "new").exists()
    assert [file.path for file in storage.files("")] == []


def test_the_directory_itself_may_be_given_by_way_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    open_storage(str(tmp_path / "link")).put("job/a", b"a")
    assert (tmp_path / "real" / "job" / "a").read_bytes() == b"a"


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_file_of_a_terabyte(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("kind", [a_pipe, a_link_to_a_device, a_file_of_a_terabyte])
def test_what_has_the_name_of_a_state_file_is_not_read_beyond_its_size(
    kind: Callable[[Path], None], tmp_path: Path
) -> None:
    kind(tmp_path / "state")
    with pytest.raises((CheckpointStorageError, CorruptCheckpointError)):
        LocalStorage(tmp_path).read_sized("state", 100)
    with pytest.raises(CheckpointStorageError):
        LocalStorage(tmp_path).find("state", at_most=1 << 20)


@pytest.mark.parametrize("level", ["penstock-7", "penstock-7/state", "penstock-7/state/run"])
def test_local_state_is_in_directories_of_this_user_alone(level: str, tmp_path: Path) -> None:
    private_directory(tmp_path / "penstock-7/state/run/op-0")
    (tmp_path / level).chmod(0o777)
    with pytest.raises(LocalStateError, match="other users can write to it"):
        private_directory(tmp_path / "penstock-7/state/run/op-0")


# ------------------------------------------------------------------------------------------------------------- `latest`


def all_may_write(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


def given_away(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


def planted(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    if path.is_dir():  # the user may have moved a savepoint, and left a link of his own
        os.lchown(path, STRANGER, STRANGER)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A directory with a job that was suspended, and the savepoint that `latest` leads to."""
    place = tmp_path_factory.mktemp("stopped")
    old = os.umask(0o022)
    try:
        return place, savepoint_of(place, inline="0 b")
    finally:
        os.umask(old)


def go_on(place: Path, recover: str, **settings: str) -> None:
    env = environment(2, checkpoints=str(place / "checkpoints"), recover=recover)
    for key, value in settings.items():
        env._configuration.set_string(f"penstock.state.{key.replace('_', '-')}", value)
    totals(env, 3_000)
    run(env, place)


def test_state_and_checkpoints_are_their_users_alone(stopped: tuple[Path, str]) -> None:
    place, savepoint = stopped
    for root in (place / "checkpoints", Path(savepoint)):
        for path in (root, *root.rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_the_umask_says_who_else_may_read_where_that_is_asked_for(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        open_storage(str(tmp_path / "new"), {"penstock.state.private-files": "false"}).put("a", b"")
    finally:
        os.umask(old)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new", tmp_path / "new/a")] == [0o750, 0o640]


@pytest.mark.parametrize("what", ["directory", "metadata", "state"])
@pytest.mark.parametrize(
    "done", [all_may_write, pytest.param(given_away, marks=needs_root), pytest.param(planted, marks=needs_root)]
)
def test_latest_leads_to_no_savepoint_that_others_can_change(
    done: Callable[[Path], None], what: str, tmp_path: Path
) -> None:
    savepoint = Path(savepoint_of(tmp_path, inline="0 b"))
    state = min(path for path in savepoint.iterdir() if path.name.startswith("totals-0"))
    done({"directory": savepoint, "metadata": savepoint / "_metadata", "state": state}[what])
    with pytest.raises((ExposedCheckpointError, CheckpointStorageError), match=r"link|belongs to|write to it"):
        go_on(tmp_path, "latest")
    if done is not planted:  # who names the place trusts it
        go_on(tmp_path, str(savepoint))


def test_latest_leads_to_no_savepoint_that_others_can_exchange_in_its_directory(tmp_path: Path) -> None:
    savepoint = Path(savepoint_of(tmp_path, inline="0 b"))
    savepoint.parent.chmod(0o777)
    with pytest.raises(ExposedCheckpointError, match=r"others can exchange what is in it \(no sticky bit\)"):
        go_on(tmp_path, "latest")
    savepoint.parent.chmod(0o1777)
    go_on(tmp_path, "latest")


@needs_root
def test_what_is_checked_is_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that is exchanged after the check of its path, and back again, has another owner all the same."""
    storage, place, strange = LocalStorage(tmp_path), tmp_path / "job/chk-1", tmp_path / "strange"
    for folder, text in ((place, "own"), (strange, "strange")):
        folder.mkdir(parents=True)
        (folder / "_metadata").write_text(text)
        (folder / "_metadata").chmod(0o600)
    os.chown(strange, STRANGER, STRANGER)
    look, opened = LocalStorage._place, os.open

    def exchanged(self: LocalStorage, path: str, *, may_be_link: bool = False) -> Path:
        found = look(self, path, may_be_link=may_be_link)
        place.rename(tmp_path / "away")
        strange.rename(place)
        return found

    def and_back(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        descriptor = opened(path, flags, *rest, dir_fd=dir_fd)
        if path == "_metadata":
            place.rename(strange)
            (tmp_path / "away").rename(place)
        return descriptor

    monkeypatch.setattr(LocalStorage, "_place", exchanged)
    monkeypatch.setattr(os, "open", and_back)
    monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, and_back})
    seen: dict[str, os.stat_result] = {}
    assert storage.find("job/chk-1/_metadata", seen=seen) == b"strange"
    monkeypatch.undo()
    assert first_not_trusted(seen) == ("job/chk-1", f"it belongs to user {STRANGER}")
    assert storage.find("job/chk-1/_metadata", seen=seen) == b"own"
    assert first_not_trusted(seen) is None


def test_a_link_that_is_put_behind_the_check_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("job/chk-1", "others"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "_metadata").write_text(folder)
    look = LocalStorage._place

    def linked(self: LocalStorage, path: str, *, may_be_link: bool = False) -> Path:
        found = look(self, path, may_be_link=may_be_link)
        (tmp_path / "job/chk-1").rename(tmp_path / "away")
        (tmp_path / "job/chk-1").symlink_to(tmp_path / "others")
        return found

    monkeypatch.setattr(LocalStorage, "_place", linked)
    with pytest.raises(CheckpointStorageError):
        LocalStorage(tmp_path).find("job/chk-1/_metadata")


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda own: LocalStateDirectory("a" * 32).hold(),
        lambda own: ScratchDirectory("penstock-checkpoints-").remove(),
        lambda own: directories.user_directory(),
        lambda own: shipping.process_folder(),
        lambda own: user_state_directory(),
    ],
)
def test_nothing_is_made_where_others_can_exchange_it(
    own: Path, make: Callable[[Path], object], below: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A temporary directory of all users without its sticky bit, or one that is below such a directory."""
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)  # so that what is kept elsewhere has to be in the temporary one
    shipping.process_folder.cache_clear()
    everybodys = own.parent
    everybodys.chmod(0o777)
    if below:
        (everybodys / "mine").mkdir(mode=0o700)
        monkeypatch.setattr(tempfile, "tempdir", str(everybodys / "mine"))
    there = sorted(everybodys.rglob("*"))
    with pytest.raises((LocalStateError, LocalDirectoryError), match=rf"chmod \+t {everybodys}\b"):
        make(own)
    assert sorted(everybodys.rglob("*")) == there
    everybodys.chmod(0o1777)
    make(own)


@pytest.mark.parametrize("mode", [0o000, 0o077])
def test_a_job_whose_checkpoints_latest_will_refuse_says_so_at_its_start(
    mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = os.umask(mode)
    try:
        go_on(tmp_path, "latest", private_files="false")
    finally:
        os.umask(old)
    assert caplog.text.count("keeps no rights") == (mode == 0)


def test_the_group_of_one_user_is_no_other_user(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own").chmod(0o775)
    assert not others_can_write((tmp_path / "own").stat()) or os.getgid() != os.getuid()
    (tmp_path / "own").chmod(0o777)
    assert others_can_write((tmp_path / "own").stat())
