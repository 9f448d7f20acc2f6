"""The look for leaks sees threads, also daemons, descriptors and processes; and nothing where nothing is left."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from tests.kit import leaks
from tests.kit.leaks import Look

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "PATIENCE_S", 0.05)


def test_nothing_is_left_of_what_was_closed_and_waited_for(tmp_path: Path) -> None:
    look = Look.now()
    (tmp_path / "file").write_text("x")
    subprocess.run(["true"], check=True)
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert look.left_for_good() == []


def test_daemon_thread_is_seen() -> None:
    look, end = Look.now(), threading.Event()
    thread = threading.Thread(target=end.wait, name="poller", daemon=True)
    thread.start()
    assert look.left_for_good() == ["thread poller"]
    end.set()
    thread.join()


def test_file_that_takes_the_place_of_another_is_seen(tmp_path: Path) -> None:
    first = (tmp_path / "first").open("w")
    look = Look.now()
    first.close()
    with (tmp_path / "second").open("w") as second:
        assert look.left_for_good() == [f"descriptor {second.fileno()} of {second.name}"]


def test_open_file_and_socket_are_seen(tmp_path: Path) -> None:
    look = Look.now()
    with (tmp_path / "file").open("w"), socket.socket():
        file, connection = sorted(look.left_for_good(), key=lambda line: "socket:" in line)
    assert file.endswith(f" of {tmp_path / 'file'}")
    assert "socket:" in connection


@pytest.mark.parametrize("ended", [False, True])
def test_process_that_was_not_waited_for_is_seen(*, ended: bool) -> None:
    look = Look.now()
    process = subprocess.Popen(["sleep", "0" if ended else "100"])
    shown = "ended" if ended else "sleep 100"
    if ended:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert look.left_for_good() == [f"process {process.pid} ({shown})"]
    process.kill()
    process.wait()
