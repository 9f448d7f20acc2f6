from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


def room(free: int, _path: object) -> SimpleNamespace:
    """Return what is said of a disk with so many bytes free."""
    return SimpleNamespace(free=free)


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
    assert recipes.keys() == dev.chores().keys()
    for name, recipe in recipes.items():
        assert recipe[:3] == ["@$(PYTHON)", "dev.py", name]


def test_help_lists_every_chore_once(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main([]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert listed == list(dev.chores())


def test_unknown_chore_is_answered_with_those_that_exist(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        dev.main(["tset"])
    assert "there is no chore 'tset'; there are demo, check" in capsys.readouterr().err


@pytest.mark.parametrize(("chore", "lock"), [("demo", "DEMO_LOCK"), ("check", "DEV_LOCK")])
def test_chore_runs_in_the_environment_that_it_needs_with_its_arguments(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, chore: str, lock: str
) -> None:
    calls: list[tuple[object, ...]] = []

    def call(*words: object) -> int:
        calls.append(words)
        return 3

    monkeypatch.setattr(dev, "ready", Path)
    monkeypatch.setattr(dev, "call", call)
    assert dev.main([chore, "--crash", "twice"]) == 3
    assert calls == [(getattr(dev, lock), "-m", "poethepoet", chore, "--crash", "twice")]


def test_processes_of_a_chore_find_the_programs_of_the_environment_and_keep_what_they_compile(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environment = dev.child_environment()
    assert environment["PATH"].split(os.pathsep)[0] == str(dev.environment_python().parent)
    assert "PYTHONDONTWRITEBYTECODE" not in environment


@pytest.mark.parametrize("version", [(3, 8, 1), (3, 14, 0)])
def test_unsupported_python_alone_on_the_path_is_said_plainly(
    dev: ModuleType, version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(shutil, "which", dict[str, str]().get)
    with pytest.raises(SystemExit):
        dev.use_supported_python()
    assert f"this is Python 3.{version[1]}; Penstock needs Python 3.11, 3.12 or 3.13" in capsys.readouterr().err


def test_full_disk_is_said_before_anything_is_made(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", partial(room, 500_000_000))
    with pytest.raises(SystemExit):
        dev.main(["test"])
    assert "0.5 GB free; the environment needs 3 GB" in capsys.readouterr().err
    assert not dev.VENV.exists()


def test_python_without_venv_says_what_to_install(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", partial(room, 10**10))
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
        monkeypatch.setattr(dev, "pip", self._install)

    def _install(self, *words: object) -> None:
        self.done.append(Path(str(words[-1])).stem or "project")

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
