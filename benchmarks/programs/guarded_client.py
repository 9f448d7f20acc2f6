"""Asks several REST servers in turn: python guarded_client.py SECONDS EACH_MS PATH… with the servers as JSON on stdin.

A server is its address (HOST:PORT), the token that it wants or null, and the PEM file of its certificate or null.
Prints the milliseconds of each answer, by server, and this client's own processor time for it. One connection to each
that stays open, one request at a time, and another server first in each round; from the first byte sent to the last
received.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import time


def connected(address: str, certificate: str | None) -> http.client.HTTPConnection:
    if certificate is None:
        return http.client.HTTPConnection(address, timeout=60)
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    return http.client.HTTPSConnection(address, timeout=60, context=context)


def main(seconds: float, each_s: float, paths: list[str]) -> None:
    servers = [
        (connected(address, certificate), {"Authorization": f"Bearer {token}"} if token else {})
        for address, token, certificate in json.load(sys.stdin)
    ]
    took: list[list[float]] = [[] for _ in servers]
    own: list[list[float]] = [[] for _ in servers]
    start, turn = time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        path = paths[turn % len(paths)]
        for place in range(len(servers)):
            at = (turn + place) % len(servers)
            connection, headers = servers[at]
            time.sleep(each_s)
            begun, asked = time.thread_time(), time.perf_counter()
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            response.read()
            took[at].append((time.perf_counter() - asked) * 1000)
            own[at].append((time.thread_time() - begun) * 1000)
            assert response.status == 200, (path, response.status)
        turn += 1
    print(json.dumps({"ms": took, "client_ms": own}))


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]) / 1000, sys.argv[3:])
