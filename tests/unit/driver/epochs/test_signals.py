"""Running epochs that end early: what the driver and workers tell each other, and what a stranger can do to it."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.cells import cells

from penstock._engine.driver.epochs import signals as signalling
from penstock._engine.driver.epochs.signals import EpochSignals, listen
from penstock._engine.protocol.epoch_signals import ENDS, KNOWS, SIGNAL_BYTES, WANTS, new_nonce, signal
from penstock._engine.runtime import driver_link
from penstock._engine.runtime.driver_link import DriverLink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = b"k" * 32
LONG_S = 10.0
EPOCHS = count(1)
#: In which nothing is to happen.
WHILE_S = 0.1


@pytest.fixture
def driver() -> Iterator[EpochSignals]:
    found = listen("127.0.0.1", "127.0.0.1", KEY)
    assert found is not None
    yield found
    found.close()


@pytest.fixture
def link(driver: EpochSignals, monkeypatch: pytest.MonkeyPatch) -> Iterator[DriverLink]:
    monkeypatch.setattr(driver_link, "_LOOK_S", 0.0)
    found = DriverLink(driver.address, KEY)
    yield found
    found.close()


def soon(condition: Callable[[], object], within_s: float = LONG_S) -> bool:
    deadline = time.monotonic() + within_s
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.002)
    return bool(found)


def begin(driver: EpochSignals, link: DriverLink, epoch: str) -> None:
    driver.begin(epoch)
    link.begin(epoch)


def connected(driver: EpochSignals, link: DriverLink) -> None:
    assert soon(lambda: link.ends(wants=False) or driver._workers)


def ends(link: DriverLink, *, wants: bool = False, within_s: float = LONG_S) -> bool:
    return soon(lambda: link.ends(wants=wants), within_s)


def test_an_epoch_ends_when_the_driver_says_so_also_before_the_worker_has_connected(
    driver: EpochSignals, link: DriverLink
) -> None:
    for epoch in ("1 1 0", "2 1 0", "2 2 0"):
        begin(driver, link, epoch)
        if epoch != "1 1 0":
            assert not ends(link, within_s=WHILE_S)
        driver.end()
        assert ends(link)
        link.begin(epoch)  # another task of the epoch, in the same worker
        assert link.ends(wants=False)
        driver.begin("")


def test_what_was_told_of_an_epoch_does_not_end_the_next_one(driver: EpochSignals, link: DriverLink) -> None:
    begin(driver, link, "1 1 0")
    connected(driver, link)
    driver.end()
    time.sleep(WHILE_S)
    begin(driver, link, "2 1 0")
    assert not ends(link, within_s=WHILE_S)
    driver.end()
    assert ends(link)


def test_between_two_epochs_nothing_is_told(driver: EpochSignals, link: DriverLink) -> None:
    begin(driver, link, "1 1 0")
    connected(driver, link)
    driver.begin("")
    driver.end()
    driver.want()
    begin(driver, link, "2 1 0")
    assert not ends(link, within_s=WHILE_S)


def test_what_readers_want_ends_an_epoch_that_has_lasted_some_time(driver: EpochSignals, link: DriverLink) -> None:
    begin(driver, link, "1 1 0")
    assert ends(link, wants=True)
    began = time.monotonic()
    driver.begin("2 1 0", least_ms=300)
    link.begin("2 1 0")
    assert not ends(link, wants=True, within_s=0.1)
    assert ends(link, wants=True)
    assert time.monotonic() - began >= 0.3
    driver.begin("3 1 0", least_ms=60_000)
    link.begin("3 1 0")
    driver.want()
    assert not ends(link, within_s=0.1)
    driver.end()  # a request does not wait
    assert ends(link)


def test_a_failure_ends_an_epoch_at_once_although_its_worker_connects_only_then(
    driver: EpochSignals, link: DriverLink
) -> None:
    driver.begin("1 1 0", least_ms=60_000)
    link.begin("1 1 0")
    link.fails()
    assert ends(link)
    driver.begin("2 1 0", least_ms=60_000)
    link.begin("2 1 0")
    assert not ends(link, within_s=WHILE_S)
    link.fails()
    assert ends(link)


def test_a_failure_of_an_earlier_epoch_does_not_end_the_next_one(driver: EpochSignals, link: DriverLink) -> None:
    begin(driver, link, "1 1 0")
    driver.begin("2 1 0")
    link.fails()
    link.begin("2 1 0")
    assert not ends(link, within_s=WHILE_S)


def test_a_worker_connects_again_after_a_loss(
    driver: EpochSignals, link: DriverLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_link, "_AGAIN_S", 0.0)
    begin(driver, link, "1 1 0")
    connected(driver, link)
    for worker in list(driver._workers):
        worker.connection.shutdown(socket.SHUT_RDWR)
    assert soon(lambda: not link.ends(wants=False) and link._socket is None)
    begin(driver, link, "2 1 0")
    driver.end()
    assert ends(link)


def test_a_driver_that_nobody_reaches_costs_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"127.0.0.1:{gone.getsockname()[1]}"
    nobody = DriverLink(address, KEY)
    monkeypatch.setattr(driver_link, "_LOOK_S", 0.0)
    for number in range(3):
        nobody.begin(f"{number} 1 0")
        assert not ends(nobody, wants=True, within_s=0.02)
        nobody.fails()
    assert listen("192.0.2.1", "192.0.2.1", KEY) is None  # an address of nobody
    assert listen("", "", KEY) is None


class Stranger:
    """A client that says what it likes."""

    def __init__(self, driver: EpochSignals) -> None:
        host, _, port = driver.address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), LONG_S)
        self.theirs = self.socket.recv(SIGNAL_BYTES, socket.MSG_WAITALL)

    def is_dropped(self) -> bool:
        with self.socket:
            try:
                return self.socket.recv(1) == b""
            except ConnectionResetError:
                return True


@cells(
    "said",
    {
        "anything": lambda theirs: secrets.token_bytes(2 * SIGNAL_BYTES),
        "another key": lambda theirs: new_nonce() + signal(KNOWS, "", theirs, b"x" * 32),
        "of another connection": lambda theirs: new_nonce() + signal(KNOWS, "", new_nonce(), KEY),
        "another message": lambda theirs: theirs + signal(WANTS, "1 1 0", theirs, KEY),
        "much": lambda theirs: b"\x80\x05cos\nsystem\n(S'touch /tmp/x'\ntR." * 1000,
    },
)
def test_a_stranger_is_dropped_and_changes_nothing(
    driver: EpochSignals, link: DriverLink, said: Callable[[bytes], bytes]
) -> None:
    begin(driver, link, f"{next(EPOCHS)} 1 0")  # all cases have one link
    connected(driver, link)
    stranger = Stranger(driver)
    stranger.socket.sendall(said(stranger.theirs))
    assert stranger.is_dropped()
    assert not ends(link, within_s=WHILE_S)
    driver.end()
    assert ends(link)


def test_many_strangers_who_say_nothing_do_not_keep_a_worker_out_for_long(
    driver: EpochSignals, link: DriverLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signalling, "_MOST_WORKERS", 8)
    monkeypatch.setattr(signalling, "_STRANGE_S", 0.05)
    strangers = list[Stranger]()
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            strangers.append(stranger := Stranger(driver))
            stack.enter_context(stranger.socket)
            stranger.socket.sendall(b"x")
        time.sleep(0.1)
        begin(driver, link, "1 1 0")
        driver.end()
        assert ends(link)
        assert strangers[0].is_dropped()


def test_workers_that_connect_at_the_same_time_are_all_told(
    driver: EpochSignals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_link, "_LOOK_S", 0.0)
    links = [DriverLink(driver.address, KEY) for _ in range(100)]
    driver.begin("1 1 0")
    for link in links:
        link.begin("1 1 0")
    time.sleep(WHILE_S)
    driver.end()
    assert all(ends(link) for link in links)
    for link in links:
        link.close()


def test_more_workers_than_the_driver_takes_do_without(
    driver: EpochSignals, link: DriverLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signalling, "_MOST_WORKERS", 1)
    begin(driver, link, "1 1 0")
    connected(driver, link)
    another = DriverLink(driver.address, KEY)
    another.begin("1 1 0")
    assert soon(lambda: not another.ends(wants=True) and another._socket is None)
    driver.end()
    assert ends(link)
    assert not another.ends(wants=True)


def test_a_driver_that_is_somebody_else_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_link, "_LOOK_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as impostor:
        link = DriverLink(f"127.0.0.1:{impostor.getsockname()[1]}", KEY)
        link.begin("1 1 0")
        connection, _ = impostor.accept()
        nonce = new_nonce()
        connection.sendall(nonce)
        assert not ends(link, within_s=WHILE_S)
        known = connection.recv(2 * SIGNAL_BYTES, socket.MSG_WAITALL)
        for told in (known[SIGNAL_BYTES:], signal(ENDS, "1 1 0", known[:SIGNAL_BYTES], b"x" * 32), new_nonce()):
            connection.sendall(told)
        assert not ends(link, within_s=WHILE_S)
        connection.close()
        link.close()


def test_closing_leaves_nothing_open(driver: EpochSignals, link: DriverLink) -> None:
    begin(driver, link, "1 1 0")
    connected(driver, link)
    workers: Any = list(driver._workers)
    driver.close()
    assert soon(lambda: driver._listener.fileno() < 0)
    assert all(worker.connection.fileno() < 0 for worker in workers)
    assert soon(lambda: not link.ends(wants=False) and link._socket is None)


def test_the_driver_sleeps_where_nothing_is_wanted_any_more(driver: EpochSignals, link: DriverLink) -> None:
    begin(driver, link, "1")
    connected(driver, link)
    driver.want()
    assert soon(lambda: link.ends(wants=False))
    before_s = time.process_time()
    time.sleep(WHILE_S)
    assert time.process_time() - before_s < WHILE_S / 2
