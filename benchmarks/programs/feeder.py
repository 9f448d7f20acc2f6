"""Makes records at a steady rate and keeps them, for the latency measurement: a broker in a few lines.

Usage: feeder.py RATE SECONDS; prints its two ports, and ends with its standard input.

A record is a line `number,creation time in nanoseconds`, made when its moment has come, whether somebody listens or
not. On the first port a client gets the lines from its connection on: what Spark's socket source can read. On the
second it says `FROM number STEP n`, gets every n-th line from there on, and may come back: a source that can be read
again.
"""

import contextlib
import socket
import sys
import threading
import time

TICK_S = 0.002

lines: list[bytes] = []
grown = threading.Condition()


def make(rate: float, seconds: float) -> None:
    """Make records for a time."""
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        now_ns = time.time_ns()
        with grown:
            lines.extend([b"%d,%d\n" % (number, now_ns) for number in range(len(lines), int(elapsed * rate))])
            grown.notify_all()
        time.sleep(TICK_S)


def send(client: socket.socket, first: int, step: int) -> None:
    """Send every step-th line until the client goes away."""
    with contextlib.suppress(OSError), client:
        while True:
            with grown:
                while not (due := lines[first::step]):
                    grown.wait()
            client.sendall(b"".join(due))
            first += len(due) * step


def serve(server: socket.socket, *, replay: bool) -> None:
    """Take clients."""
    while True:
        client, _ = server.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        first, step = len(lines), 1
        if replay:
            _, first, _, step = client.makefile("r").readline().split()
        threading.Thread(target=send, args=(client, int(first), int(step)), daemon=True).start()


def main(rate: float, seconds: float) -> None:
    for replay in (False, True):
        server = socket.create_server(("127.0.0.1", 0))
        print(server.getsockname()[1], flush=True)
        threading.Thread(target=serve, args=(server,), kwargs={"replay": replay}, daemon=True).start()
    threading.Thread(target=make, args=(rate, seconds), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
