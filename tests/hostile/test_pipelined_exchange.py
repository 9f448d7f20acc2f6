"""Spark's servers of a pipelined exchange answer anybody: what a stranger sends is not decoded, and costs nothing.

The stranger speaks Spark's protocol: a frame has its length, a type and a body; a body of the exchange has its kind, a
sequence number, the writer, the reader, and rows in Spark's format. It has no key of the job.

The servers are those of the writers, to which readers connect: Spark refuses rows there, and the epoch is lost. What
becomes of rows that are changed, or sent again, between a writer and its reader is in `unit/driver/epochs`
(test_pipelined).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest
from tests.fault.job import are_truth, published
from tests.fault.processes import descendants
from tests.fault.support import ROOT
from tests.hostile.exchange_victim import PER_SECOND
from tests.hostile.ports import listeners
from tests.kit.crafted import crafted_pickle

from penstock._engine.protocol.rows import PayloadKind, slot_target, subtask_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the ports of the JVM in /proc"),
]

PATIENCE_S: Final = 240
READERS: Final = 2
#: Types of messages of Spark's transport.
CHUNK_FETCH_REQUEST, RPC_REQUEST, STREAM_REQUEST, ONE_WAY = 0, 3, 6, 9
#: Kinds of messages of the exchange.
DATA, CREDIT, TERMINATION, ACKNOWLEDGED = 1, 2, 3, 4
SEAL: Final = bytes(16)
#: Those of ``make test``; the campaign has all.
TELLING: Final = ("rows with a wrong seal",)


def frame(body: bytes) -> bytes:
    return struct.pack(">q", 8 + len(body)) + body


def one_way(body: bytes) -> bytes:
    return frame(struct.pack(">Bi", ONE_WAY, len(body)) + body)


def message(kind: int, rest: bytes = b"", *, number: int = 0, reader: int = 0) -> bytes:
    """Return a message of the exchange from writer 0, as it is sent."""
    return one_way(struct.pack(">iqii", kind, number, 0, reader) + rest)


def unsafe_row(numbers: tuple[int, ...], payload: bytes) -> bytes:
    """Return a row in Spark's format: which fields are null, the numbers, and where the bytes are that stand behind."""
    fixed = 8 * (2 + len(numbers))
    padded = payload + bytes(-len(payload) % 8)
    row = struct.pack(f"<q{len(numbers)}qq", 0, *numbers, fixed << 32 | len(payload)) + padded
    return struct.pack(">i", len(row)) + row


def rows(payload: bytes, target: int, kind: int, token: int = 7) -> bytes:
    head = struct.pack("<iiiiqi", 0, target, 0, 0, token, kind)
    data = unsafe_row((0,), head + payload) + struct.pack(">i", -1)
    return struct.pack(">iq", len(data), 0) + data


class Stranger:
    """Attacks the exchange of one job.

    Args:
        marker: A file that is made where something of the stranger's is unpickled.
    """

    def __init__(self, marker: Path) -> None:
        self._random = random.Random(20131)
        self._evil = crafted_pickle(marker)

    def attacks(self) -> dict[str, Callable[[socket.socket], None]]:
        """Return what it does on a connection, by name."""
        evil, at, slot = b"\0" + self._evil, subtask_target(1, 0), slot_target(1, 0)
        return {
            "noise": self._sending(self._random.randbytes(1 << 16)),
            "half a frame": self._sending(message(DATA, rows(evil, at, PayloadKind.DATA))[:-20]),
            "a frame that is too large": self._sending(struct.pack(">q", 1 << 62)),
            "a frame of two gigabytes": self._sending(struct.pack(">q", (1 << 31) - 1) + bytes(1 << 20)),
            "a frame that is shorter than its length": self._sending(struct.pack(">q", 3)),
            "an unknown kind": self._sending(message(99)),
            "a reader that does not exist": self._sending(message(CREDIT, struct.pack(">i", 1), reader=1 << 20)),
            "an early acknowledgement": self._sending(message(ACKNOWLEDGED, number=3)),
            "an end": self._sending(message(TERMINATION)),
            "rows without a seal": self._sending(message(DATA, rows(evil, at, PayloadKind.DATA))),
            "rows with a wrong seal": self._sending(message(DATA, rows(SEAL + evil, at, PayloadKind.DATA))),
            "an end of channels with a wrong seal": self._sending(
                message(DATA, rows(SEAL + self._evil, slot, PayloadKind.CLOSING))
            ),
            "a call": self._sending(frame(struct.pack(">Bqi", RPC_REQUEST, 7, len(evil)) + evil)),
            "a wish for a chunk": self._sending(frame(struct.pack(">Bqi", CHUNK_FETCH_REQUEST, 7, 0))),
            "a wish for a stream": self._sending(frame(struct.pack(">Bi", STREAM_REQUEST, 4) + b"jars")),
            "in place of the readers": self._listen,
        }

    @staticmethod
    def _sending(data: bytes) -> Callable[[socket.socket], None]:
        def send(connection: socket.socket) -> None:
            connection.sendall(data)
            with contextlib.suppress(TimeoutError):
                connection.recv(1 << 16)

        return send

    def _listen(self, connection: socket.socket) -> None:
        for reader in range(READERS):
            connection.sendall(message(CREDIT, struct.pack(">i", 1), reader=reader))
        with contextlib.suppress(OSError):
            while connection.recv(1 << 16):
                pass


class Victim:
    """The job in a process of its own; what is left of it behind a ``with`` is killed."""

    def __init__(self, place: Path) -> None:
        self._place = place
        with (place / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.exchange_victim", str(place)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Victim:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    @property
    def log(self) -> str:
        return (self._place / "log").read_text()

    def open_ports(self) -> list[int]:
        """Return the ports that anybody reaches."""
        pids = [self.process.pid, *descendants(self.process.pid)]
        return [listener.port for listener in listeners(pids) if listener.is_open_to_all]

    def wait_for_a_port(self) -> list[int]:
        deadline = time.monotonic() + PATIENCE_S
        while not (ports := self.open_ports()):
            self._look(deadline)
            time.sleep(0.002)
        return ports

    def wait_for_a_checkpoint(self) -> None:
        """Wait until the job has made a checkpoint from now on."""
        before, deadline = self._newest(), time.monotonic() + PATIENCE_S
        while self._newest() <= before:
            self._look(deadline)
            time.sleep(0.02)

    def drain(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def _look(self, deadline: float) -> None:
        assert self.process.poll() is None, self.log
        assert time.monotonic() < deadline, self.log

    def _newest(self) -> int:
        return max((int(path.parent.name[4:]) for path in self._checkpoints()), default=0)

    def _checkpoints(self) -> Iterator[Path]:
        return (self._place / "checkpoints").glob("*/chk-*/_metadata")


def attack(ports: list[int], act: Callable[[socket.socket], None]) -> int:
    """Act on a connection to each port, and return how many there were: a server may be gone by then."""
    connected = 0
    for port in ports:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.settimeout(2)
            connected += 1
            act(connection)
    return connected


def test_stranger_at_the_exchange_costs_no_record_and_has_nothing_decoded(tmp_path: Path) -> None:
    stranger = Stranger(tmp_path / "unpickled")
    attacks = stranger.attacks()
    with Victim(tmp_path) as victim:
        victim.wait_for_a_checkpoint()
        for name in TELLING if "PENSTOCK_ALL_CELLS" not in os.environ else attacks:
            while not attack(victim.wait_for_a_port(), attacks[name]):
                pass
            victim.wait_for_a_checkpoint()  # the job goes on
        while len(published(tmp_path)) <= PER_SECOND:
            victim.wait_for_a_checkpoint()
        assert victim.drain() == 0, victim.log
        assert "runs again" in victim.log
    lines = published(tmp_path)
    assert are_truth(lines, len(lines))
    assert not (tmp_path / "unpickled").exists()
