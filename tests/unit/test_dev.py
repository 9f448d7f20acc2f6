from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with an environment that is not made yet in a directory of the test's own."""
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "stamp")
    return module


def test_makefile_has_a_recipe_for_each_chore_and_each_calls_the_script(dev: ModuleType) -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    recipes = {
        line.partition(":")[0]: lines[number + 1].split() for number, line in enumerate(lines) if line[:1].islower()
    }
    assert recipes.keys() == dev.CHORES.keys()
    for name, recipe in recipes.items():
        assert recipe[:3] == ["@$(PYTHON)", "dev.py", name]


def test_help_lists_every_chore_once(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main([]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(dev.CHORES)


def test_unknown_chore_is_answered_with_those_that_exist(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        dev.main(["tset"])
    assert "there is no chore 'tset'; there are demo, test" in capsys.readouterr().err


@pytest.mark.parametrize("version", [(3, 8, 1), (3, 14, 0)])
def test_unsupported_python_alone_on_the_path_is_said_plainly(
    dev: ModuleType, version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(SystemExit):
        dev.use_supported_python()
    assert f"this is Python 3.{version[1]}; Penstock needs Python 3.11, 3.12 or 3.13" in capsys.readouterr().err


def test_full_disk_is_said_before_anything_is_made(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=500_000_000))
    with pytest.raises(SystemExit):
        dev.main(["test"])
    assert "0.5 GB free; the environment needs 3 GB" in capsys.readouterr().err
    assert not dev.VENV.exists()


class Apt:
    """A machine with or without a browser, on which apt-get does what it is told to."""

    def __init__(
        self, dev: ModuleType, monkeypatch: pytest.MonkeyPatch, *found: str, user: int = 0, code: int = 0
    ) -> None:
        self.calls: list[list[str]] = []
        monkeypatch.setattr(dev.shutil, "which", lambda name: f"/usr/bin/{name}" if name in found else None)
        monkeypatch.setattr(dev.os, "geteuid", lambda: user, raising=False)
        monkeypatch.setattr(dev.Path, "is_file", lambda path: str(path) == "/etc/debian_version")
        monkeypatch.setattr(dev.subprocess, "call", lambda command, **_options: self.calls.append(command) or code)


def test_browser_is_installed_on_debian_by_root_and_that_is_said(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apt = Apt(dev, monkeypatch, "apt-get")
    dev.install_browser()
    assert [(Path(call[0]).name, call[1]) for call in apt.calls] == [("apt-get", "update"), ("apt-get", "install")]
    assert apt.calls[1][-1] == "chromium"
    assert "Installing Debian's chromium" in capsys.readouterr().out


@pytest.mark.parametrize(("found", "user"), [(("apt-get", "google-chrome"), 0), (("apt-get",), 1000), ((), 0)])
def test_no_browser_is_installed_beside_another_nor_without_the_right_to(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, found: tuple[str, ...], user: int
) -> None:
    apt = Apt(dev, monkeypatch, *found, user=user)
    dev.install_browser()
    assert apt.calls == []


def test_browser_that_cannot_be_installed_is_told_and_stops_nothing(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Apt(dev, monkeypatch, "apt-get", code=100)
    dev.install_browser()
    assert "apt-get update failed; the tests that need a browser are skipped" in capsys.readouterr().out


class Pip:
    """Puts a file where it is told to, or fails."""

    def __init__(self, dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.jar = tmp_path / ".flink" / "some.jar"
        self._code = code
        monkeypatch.setattr(dev, "FLINK", self.jar.parent)
        monkeypatch.setattr(dev, "call", self._call)

    def _call(self, *command: object) -> int:
        self.calls.append(command)
        self.jar.parent.mkdir()
        self.jar.touch()
        return self._code


def test_flinks_jars_come_with_their_hashes_and_once(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pip = Pip(dev, tmp_path, monkeypatch)
    dev.install_flink(Path("python"))
    dev.install_flink(Path("python"))
    (command,) = pip.calls
    assert {"--require-hashes", "--no-deps", pip.jar.parent} <= set(command)
    assert "Getting Flink's jars for the tests of its command line: 330 MB" in capsys.readouterr().out
    lock = ROOT / "requirements" / "flink.txt"
    assert command[-1] == lock
    assert "--hash=sha256:" in lock.read_text()


def test_other_jars_of_flink_take_the_place_of_those_that_are_there(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip(dev, tmp_path, monkeypatch)
    dev.install_flink(Path("python"))
    monkeypatch.setattr(dev, "FLINK_LOCK", tmp_path / "lock")
    (tmp_path / "lock").write_text("apache-flink-libraries==9")
    dev.install_flink(Path("python"))
    assert len(pip.calls) == 2


def test_jars_of_flink_that_cannot_be_had_are_told_and_stop_nothing(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pip = Pip(dev, tmp_path, monkeypatch, code=1)
    dev.install_flink(Path("python"))
    assert not pip.jar.exists()
    assert "pip could not get them; the tests that need them are skipped" in capsys.readouterr().out


def test_python_without_venv_says_what_to_install(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=10**10))
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit):
        dev.main(["test"])
    assert "no module ensurepip. On Debian and Ubuntu: sudo apt install python3-venv" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("log", "meaning"),
    [
        ("OSError: [Errno 28] No space left on device", "The disk is full"),
        ("NewConnectionError: ... Temporary failure in name resolution\nNo matching distribution found", "no network"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "do not trust"),
        ("ERROR: No matching distribution found for lmdb", "lacks a package"),
        ("ERROR: something new", "All of its output is in"),
    ],
)
def test_failure_of_pip_is_explained(dev: ModuleType, log: str, meaning: str) -> None:
    assert meaning in dev.explain_pip_failure(log)


class Environment:
    """A machine on which environments are made and packages installed by word alone."""

    def __init__(self, dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._dev, self.done = dev, list[str]()
        for name in ("BUILD", "DEMO", "DEV"):
            lock = tmp_path / f"{name.lower()}.txt"
            lock.write_text("some==1")
            monkeypatch.setattr(dev, f"{name}_LOCK", lock)
        monkeypatch.setattr(dev, "make_environment", self._make)
        monkeypatch.setattr(dev, "pip", lambda *words: self.done.append(Path(str(words[-1])).stem or "project"))

    def _make(self) -> None:
        self.done.append("anew")
        python: Path = self._dev.environment_python()
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()
        self._dev.STAMP.unlink(missing_ok=True)

    def ready(self, lock: Path) -> list[str]:
        self.done.clear()
        self._dev.ready(lock)
        return list(self.done)


def test_demo_installs_nothing_of_tests_and_checks_and_they_add_to_the_same_environment(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment(dev, tmp_path, monkeypatch)
    assert environment.ready(dev.DEMO_LOCK) == ["anew", "build", "demo", "project"]
    assert environment.ready(dev.DEMO_LOCK) == []
    assert environment.ready(dev.DEV_LOCK) == ["dev"]
    assert environment.ready(dev.DEV_LOCK) == environment.ready(dev.DEMO_LOCK) == []


@pytest.mark.parametrize("changed", ["BUILD_LOCK", "DEMO_LOCK", "DEV_LOCK"])
def test_environment_is_made_anew_where_a_lock_has_changed_that_it_was_made_from(
    dev: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    environment = Environment(dev, tmp_path, monkeypatch)
    environment.ready(dev.DEMO_LOCK)
    getattr(dev, changed).write_text("some==2")
    assert environment.ready(dev.DEMO_LOCK) == ([] if changed == "DEV_LOCK" else ["anew", "build", "demo", "project"])
    environment.ready(dev.DEV_LOCK)
    getattr(dev, changed).write_text("some==3")
    assert environment.ready(dev.DEMO_LOCK) == ["anew", "build", "demo", "project"]


def test_demo_has_what_tests_have_in_the_same_versions() -> None:
    def pins(name: str) -> set[str]:
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        return {line.split()[0] for line in lines if not line.startswith((" ", "#"))}

    assert pins("demo") < pins("dev")
