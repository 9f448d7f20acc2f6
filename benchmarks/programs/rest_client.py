"""Asks a REST server: python rest_client.py HOST:PORT SECONDS EACH_MS PATH…; prints the milliseconds of each answer.

One connection that stays open, one request at a time, the paths in turn; from the first byte sent to the last
received.
"""

import http.client
import json
import sys
import time


def main(address: str, seconds: float, each_s: float, paths: list[str]) -> None:
    connection = http.client.HTTPConnection(address, timeout=60)
    took: dict[str, list[float]] = {path: [] for path in paths}
    start = time.perf_counter()
    turn = 0
    while time.perf_counter() < start + seconds:
        path = paths[turn % len(paths)]
        turn += 1
        time.sleep(each_s)
        asked = time.perf_counter()
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        took[path].append((time.perf_counter() - asked) * 1000)
        assert response.status == 200, (path, response.status)
    print(json.dumps(took))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]) / 1000, sys.argv[4:])
