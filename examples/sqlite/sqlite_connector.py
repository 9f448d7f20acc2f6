"""A source and a sink for SQLite: a table is read in parts, and written exactly once."""

import sqlite3
from contextlib import closing
from itertools import pairwise

from penstock.datastream.connectors.base import FunctionSource, TransactionalSink


def table_source(path, table, parts=4):
    """Read a table's rows as dicts, in parts of its range of row ids; later rows are not read."""
    with closing(sqlite3.connect(path)) as db:
        first, last = db.execute(f"SELECT min(rowid) - 1, max(rowid) FROM {table}").fetchone()
    bounds = [] if last is None else [first + (last - first) * part // parts for part in range(parts + 1)]

    def read(split, offset):
        first, end = map(int, split.split(":"))
        with closing(sqlite3.connect(path)) as db:
            db.row_factory = sqlite3.Row
            rows = f"SELECT rowid AS _id, * FROM {table} WHERE rowid > ? AND rowid <= ? ORDER BY rowid"
            for row in db.execute(rows, (first if offset is None else offset, end)):
                yield {name: row[name] for name in row.keys()[1:]}, row["_id"]

    return FunctionSource(read, [f"{first}:{end}" for first, end in pairwise(bounds) if first < end])


class TableSink(TransactionalSink):
    """Insert dicts into a table; a table of commits has the transactions that were made."""

    def __init__(self, path, table):
        self.path, self.table = path, table

    def write_transaction(self, transaction, records):
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS penstock_commits (id TEXT PRIMARY KEY)")
            new = db.execute("INSERT OR IGNORE INTO penstock_commits VALUES (?)", (transaction.id,)).rowcount
            if new:
                for record in records:
                    names, marks = ", ".join(record), ", ".join("?" * len(record))
                    insert = f"INSERT INTO {self.table} ({names}) VALUES ({marks})"
                    db.execute(insert, list(record.values()))
