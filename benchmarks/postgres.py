"""Rows into PostgreSQL: the exactly-once sink beside a bare COPY of the same rows by psycopg.

    python benchmarks/postgres.py URL [rows] [rounds]

Both write the same tuples into a table without an index, and are run in turn. The sink is driven as the engine drives
it: one writer and one committer, blocks of records, a checkpoint and its commit for each tenth of the rows. Shown are
medians, and the ratio of throughputs, by the clock and by the processor time of this process and of a server on the
same machine.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path
from statistics import median

import psycopg

from penstock.datastream.connectors.postgres import PostgresSink
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for

CHECKPOINTS = 10
#: Records that the engine hands to a writer at a time.
BLOCK = 2048
COLUMNS = "id bigint, name text, price double precision, day date"


class Meter:
    """Seconds by the clock, and of processor time of this process and of the server."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        self._server = int(_stat(str(row[0]))[1])
        self._began = time.perf_counter(), self._spent()

    def read(self) -> tuple[float, float]:
        began, spent = self._began
        return time.perf_counter() - began, self._spent() - spent

    def _spent(self) -> float:
        own = _stat(str(self._server))
        ticks = sum(map(int, own[11:15]))  # with those of children that have ended
        for path in Path("/proc").glob("[0-9]*"):
            try:
                child = _stat(path.name)
            except OSError:  # ended while we look
                continue
            ticks += sum(map(int, child[11:13])) if int(child[1]) == self._server else 0
        return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: str) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def bare(url: str, rows: list[tuple[object, ...]]) -> tuple[float, float]:
    with psycopg.connect(url) as connection:
        connection.execute("TRUNCATE bench")
        connection.commit()
        meter = Meter(connection)
        with connection.cursor().copy("COPY bench FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        connection.commit()
        return meter.read()


def ours(url: str, rows: list[tuple[object, ...]]) -> tuple[float, float]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE bench")
        sink, context = PostgresSink.builder().set_url(url).set_table("bench").build(), TestWriterContext()
        writer, committer = sink.create_writer(context), sink.create_committer(TestCommitterContext())
        share = len(rows) // CHECKPOINTS
        meter = Meter(connection)
        for number, place in enumerate(range(0, len(rows), share), 1):
            context.checkpoint_id, context.attempt_token = number, uuid.uuid4().hex[:16]
            for begin in range(place, place + share, BLOCK):
                writer.write_all(rows[begin : min(begin + BLOCK, place + share)])
            writer.flush(end_of_input=False)
            committer.commit(requests_for(list(writer.prepare_commit()), number))
        taken = meter.read()
        writer.close()
        committer.close()
        found = connection.execute("SELECT count(*), count(DISTINCT id) FROM bench").fetchone()
        assert found == (len(rows), len(rows)), found
        return taken


def main(url: str, count: int = 200_000, rounds: int = 5) -> None:
    import datetime

    day = datetime.date(2024, 2, 29)
    rows: list[tuple[object, ...]] = [(number, f"name {number}", number / 7, day) for number in range(count)]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS bench ({COLUMNS})".encode())
    taken = [(bare(url, rows), ours(url, rows)) for _ in range(rounds + 1)][1:]
    for place, kind in enumerate(("by the clock", "of processor time")):
        pairs = [(one[place], other[place]) for one, other in taken]
        copied, sunk = (median(side) for side in zip(*pairs, strict=True))
        ratios = ", ".join(f"{one / other:.2f}" for one, other in sorted(pairs, key=lambda pair: pair[0] / pair[1]))
        print(f"bare COPY {count / copied:,.0f} rows/s, sink {count / sunk:,.0f} rows/s {kind}")
        print(f"ratio {copied / sunk:.2f} (of rounds {ratios})")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
