"""The command in this process: with a home of its own, its exit code and what it printed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pytest

from penstock._engine.cli.main import main
from penstock._engine.processes.given_up import take_given_up

if TYPE_CHECKING:
    from pathlib import Path


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Command(Protocol):
    def __call__(self, *words: str) -> Done: ...


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and directory to work in; what jobs of other tests have given up is not this command's."""
    take_given_up()
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in list(os.environ):
        if name == "XDG_STATE_HOME" or name.startswith("PENSTOCK_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.fixture
def penstock(capfd: pytest.CaptureFixture[str]) -> Command:
    def call(*words: str) -> Done:
        code = main(words)
        printed = capfd.readouterr()
        return Done(code, printed.out, printed.err)

    return call
