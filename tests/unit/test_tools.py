"""What tests need from the system is installed where that can be done, and that is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services import tools


class Apt:
    """A machine with or without a browser, on which apt-get does what it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *found: str, user: int = 0, code: int = 0) -> None:
        self.calls: list[list[str]] = []
        monkeypatch.setattr(tools.shutil, "which", lambda name: f"/usr/bin/{name}" if name in found else None)
        monkeypatch.setattr(tools.os, "geteuid", lambda: user, raising=False)
        monkeypatch.setattr(tools.Path, "is_file", lambda path: str(path) == "/etc/debian_version")
        monkeypatch.setattr(tools.subprocess, "call", lambda command, **_options: self.calls.append(command) or code)


def test_browser_is_installed_on_debian_by_root_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apt = Apt(monkeypatch, "apt-get")
    tools.install_browser()
    assert [(Path(call[0]).name, call[1]) for call in apt.calls] == [("apt-get", "update"), ("apt-get", "install")]
    assert apt.calls[1][-1] == "chromium"
    assert "Installing Debian's chromium" in capsys.readouterr().out


@pytest.mark.parametrize(("found", "user"), [(("apt-get", "google-chrome"), 0), (("apt-get",), 1000), ((), 0)])
def test_no_browser_is_installed_beside_another_nor_without_the_right_to(
    monkeypatch: pytest.MonkeyPatch, found: tuple[str, ...], user: int
) -> None:
    apt = Apt(monkeypatch, *found, user=user)
    tools.install_browser()
    assert apt.calls == []


def test_browser_that_cannot_be_installed_is_told_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Apt(monkeypatch, "apt-get", code=100)
    tools.install_browser()
    assert "apt-get update failed; the tests that need a browser are skipped" in capsys.readouterr().out


class Pip:
    """Puts a file where it is told to, or fails."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> None:
        self.calls: list[list[str]] = []
        self.jar = place / "some.jar"
        self._code = code
        monkeypatch.setattr(tools.subprocess, "call", self._call)

    def _call(self, command: list[str]) -> int:
        self.calls.append(command)
        self.jar.parent.mkdir()
        self.jar.touch()
        return self._code


def test_flinks_jars_come_with_their_hashes_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / ".flink"
    pip = Pip(place, monkeypatch)
    tools.install_flink(place)
    tools.install_flink(place)
    (command,) = pip.calls
    assert {"--require-hashes", "--no-deps", str(place)} <= set(command)
    assert "Getting Flink's jars for the tests of its command line: 330 MB" in capsys.readouterr().out
    assert command[-1] == str(tools.FLINK_LOCK)
    assert "--hash=sha256:" in tools.FLINK_LOCK.read_text()


def test_other_jars_of_flink_take_the_place_of_those_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip(tmp_path / ".flink", monkeypatch)
    tools.install_flink(tmp_path / ".flink")
    (tmp_path / "lock").write_text("apache-flink-libraries==9")
    tools.install_flink(tmp_path / ".flink", tmp_path / "lock")
    assert len(pip.calls) == 2


def test_jars_of_flink_that_cannot_be_had_are_told_and_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pip = Pip(tmp_path / ".flink", monkeypatch, code=1)
    tools.install_flink(tmp_path / ".flink")
    assert not pip.jar.exists()
    assert "pip could not get them; the tests that need them are skipped" in capsys.readouterr().out
