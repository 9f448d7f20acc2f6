"""Spark's own ports: a client without the secret of the session gets neither a block nor a file.

The stranger speaks Spark's protocol of the transport as far as it takes to fetch: a frame has its length, a type and
the message. The secret is made by Spark in the JVM; it stands in no place that a test, or a stranger, can look at.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.hostile.ports import listeners

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.spark.session import SparkHandle

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the ports of the JVM in /proc"),
]

PLANTED: Final = b"planted-in-a-closure-"
PATIENCE_S: Final = 5
#: Types of messages.
CHUNK_FETCH_REQUEST, CHUNK_FETCH_SUCCESS, RPC_REQUEST, RPC_RESPONSE = 0, 1, 3, 4
STREAM_REQUEST, STREAM_RESPONSE = 6, 7
#: A request for blocks within an RPC.
OPEN_BLOCKS: Final = 0


class Stranger:
    """A connection to one port, from a process that has no secret."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._socket.settimeout(PATIENCE_S)

    def ask(self, message: bytes) -> bytes:
        """Send a message and return the one that answers; empty where the connection is closed, or nothing comes."""
        with contextlib.suppress(OSError):
            self._socket.sendall(struct.pack(">q", 8 + len(message)) + message)
            (length,) = struct.unpack(">q", self._read(8))
            return self._read(length - 8)
        return b""

    def rest(self) -> bytes:
        """Return what follows a message, as far as one packet goes."""
        with contextlib.suppress(OSError):
            return self._socket.recv(1 << 16)
        return b""

    def close(self) -> None:
        self._socket.close()

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return data


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def fetched_block(port: int, application: str, block: str) -> bytes:
    """Fetch a block of the driver as an executor does; empty where that is refused."""
    stranger = Stranger(port)
    wanted = bytes([OPEN_BLOCKS]) + text(application) + text("driver") + struct.pack(">i", 1) + text(block)
    answer = stranger.ask(struct.pack(">Bqi", RPC_REQUEST, 7, len(wanted)) + wanted)
    chunk = b""
    if answer[:1] == bytes([RPC_RESPONSE]):
        (stream,) = struct.unpack(">q", answer[-12:-4])
        chunk = stranger.ask(struct.pack(">Bqi", CHUNK_FETCH_REQUEST, stream, 0))
    stranger.close()
    return chunk if chunk[:1] == bytes([CHUNK_FETCH_SUCCESS]) else b""


def fetched_file(port: int, name: str) -> bytes:
    """Fetch a file that the driver gives to executors; empty where that is refused."""
    stranger = Stranger(port)
    wanted = f"/files/{name}"
    answer = stranger.ask(struct.pack(">B", STREAM_REQUEST) + text(wanted))
    data = stranger.rest() if answer[:1] == bytes([STREAM_RESPONSE]) else b""
    stranger.close()
    return data


def processes_of(session: int) -> Iterator[int]:
    """Yield the processes of a process session."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(process.name)) == session:
                yield int(process.name)


def test_stranger_gets_neither_blocks_nor_files_from_the_ports_of_our_session(
    spark: SparkHandle, tmp_path: Path
) -> None:
    context = spark.session.sparkContext
    assert spark.jvm is not None
    planted = tmp_path / "planted.txt"
    planted.write_bytes(PLANTED)
    context.addFile(str(planted))
    broadcast: Any = context.broadcast(PLANTED * 100)
    block = f"broadcast_{broadcast._jbroadcast.id()}_piece0"
    gateway: Any = context._gateway
    found = {listener.port for listener in listeners(processes_of(spark.jvm.pid))}
    ports = found - {gateway.gateway_parameters.port}  # py4j's, which has a secret of its own
    assert int(context.getConf().get("spark.driver.port") or 0) in ports
    assert len(ports) >= 2  # Spark's RPC and its blocks
    for port in ports:
        assert fetched_block(port, context.applicationId, block) == b""
        assert fetched_file(port, planted.name) == b""
    broadcast.destroy()


def test_secret_of_the_session_stands_in_none_of_its_properties_and_arguments(spark: SparkHandle) -> None:
    conf = dict(spark.session.sparkContext.getConf().getAll())
    assert conf["spark.authenticate"] == "true"
    assert not [key for key in conf if "secret" in key]
    assert spark.jvm is not None
    for process in processes_of(spark.jvm.pid):
        with contextlib.suppress(OSError):
            assert "authenticate.secret" not in Path(f"/proc/{process}/cmdline").read_text()
