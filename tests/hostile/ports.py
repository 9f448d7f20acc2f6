"""The TCP ports on which processes of this machine listen; Linux tells it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Listener(NamedTuple):
    """A port, and whether it is one of all addresses of the machine."""

    port: int
    is_open_to_all: bool


def listeners(pids: Iterable[int]) -> Iterator[Listener]:
    """Yield the ports on which processes listen."""
    listening: dict[str, Listener] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                address, _, port = fields[1].rpartition(":")
                listening[f"socket:[{fields[9]}]"] = Listener(int(port, 16), not address.strip("0"))
    for pid in pids:
        with contextlib.suppress(OSError):
            opened = {str(descriptor.readlink()) for descriptor in Path(f"/proc/{pid}/fd").iterdir()}
            yield from (listening[name] for name in opened & listening.keys())
