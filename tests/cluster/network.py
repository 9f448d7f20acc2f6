"""Where the processes of a cluster are in the network: on loopback, or each host in a namespace of its own.

In the second case packets really can be lost. The namespaces are joined by that of this process, which routes between
them; a cut host is one whose packets this process drops in silence, in both directions, so nobody hears of it. All of
that is in the namespace of this process, which has to be of its own (`alone`), and goes with it.
"""

from __future__ import annotations

import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tests.services.cache import ServiceError

_PATIENCE_S: Final = 20
#: What a namespace has to allow: a pair of interfaces, rules that drop packets, and routing.
_TRIAL: Final = """
ip link set lo up && ip link add v1 type veth peer name v2 && ip rule add iif v1 blackhole &&
echo 1 >/proc/sys/net/ipv4/ip_forward
"""


@dataclass(frozen=True)
class Spot:
    """A place in the network: its address, and the command around what runs there."""

    address: str
    around: tuple[str, ...] = ()


class Spots(Protocol):
    """Gives each host of a cluster a place in the network."""

    def spot(self, name: str) -> Spot:
        """Return the place of a host, the same one for the same name."""
        ...


class Loopback:
    """All are on this machine's loopback; hosts other than master and driver have an address of their own there."""

    def __init__(self) -> None:
        self._hosts: list[str] = []

    def spot(self, name: str) -> Spot:
        """Return the place of a host."""
        if name in {"master", "driver"}:
            return Spot("127.0.0.1")
        if name not in self._hosts:
            self._hosts.append(name)
        # An address of its own: of an executor at its own address, Spark reads the files and asks for no block.
        return Spot(f"127.0.0.{2 + self._hosts.index(name)}")


def alone() -> list[str]:
    """Return the command that gives a program a network of its own; the program ends with this process.

    Raises:
        ServiceError: This machine allows it neither to this user nor to one who is root in a namespace of users.
    """
    said: list[str] = []
    for user in ("", "r"):
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", f"-{user}nf", "--kill-child"]
        try:
            tried = subprocess.run([*command, "sh", "-c", _TRIAL], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise ServiceError("a network of its own needs the commands setpriv and unshare (util-linux)") from None
        if tried.returncode == 0:
            return command
        said.append(f"{' '.join(command)}: {tried.stderr.strip()}")
    msg = f"a network of its own needs namespaces, veth and rules of iproute2, and has none here ({'; '.join(said)})"
    raise ServiceError(msg)


class Network:
    """Hosts in namespaces of their own, joined by that of this process, which must have nothing but loopback."""

    def __init__(self) -> None:
        if (found := [name for _, name in socket.if_nameindex()]) != ["lo"]:
            msg = (
                f"this process is in a network with {', '.join(found)}: run it by `alone`, or it would change that one"
            )
            raise ServiceError(msg)
        _ip("link set lo up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self._spots: dict[str, Spot] = {}
        #: A process in each namespace.
        self._holders: list[subprocess.Popen[bytes]] = []

    def spot(self, name: str) -> Spot:
        """Return the place of a host, which is made where it is new."""
        if name not in self._spots:
            self._spots[name] = self._make(len(self._spots) + 1)
        return self._spots[name]

    def _make(self, number: int) -> Spot:
        # It keeps the namespace until the pipe from here ends.
        holder = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE, start_new_session=True)
        place, deadline = Path(f"/proc/{holder.pid}/ns/net"), time.monotonic() + _PATIENCE_S
        while place.readlink() == Path("/proc/self/ns/net").readlink():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        around, ours, theirs = ("nsenter", f"--net={place}"), f"10.77.{number}.1", f"10.77.{number}.2"
        _ip(f"link add v{number} type veth peer name eth0 netns {holder.pid}")
        _ip(f"addr add {ours}/24 dev v{number}")
        _ip(f"link set v{number} up")
        for command in ("link set lo up", f"addr add {theirs}/24 dev eth0", "link set eth0 up"):
            _ip(command, around)
        _ip(f"route add default via {ours}", around)
        self._holders.append(holder)
        return Spot(theirs, around)

    def cut(self, name: str) -> None:
        """Lose all packets from a host and to it."""
        self._rules("add", name)

    def join(self, name: str) -> None:
        """Lose them no longer."""
        self._rules("del", name)

    def _rules(self, verb: str, name: str) -> None:
        number = list(self._spots).index(name) + 1
        _ip(f"rule {verb} iif v{number} blackhole pref {2 * number}")
        _ip(f"rule {verb} to {self._spots[name].address} blackhole pref {2 * number + 1}")


def _ip(command: str, around: tuple[str, ...] = ()) -> None:
    done = subprocess.run([*around, "ip", *command.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        msg = f"ip {command}: {done.stderr.strip()}"
        raise ServiceError(msg)
