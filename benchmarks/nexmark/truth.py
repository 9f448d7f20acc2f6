"""What each query gives, computed by DuckDB from the same files, and the comparison with what a program wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

if TYPE_CHECKING:
    from pathlib import Path

#: The fields of events.
PERSON = "id BIGINT, name TEXT, emailAddress TEXT, creditCard TEXT, city TEXT, state TEXT, dateTime BIGINT, extra TEXT"
AUCTION = (
    "id BIGINT, itemName TEXT, description TEXT, initialBid BIGINT, reserve BIGINT, dateTime BIGINT, expires BIGINT, "
    "seller BIGINT, category BIGINT, extra TEXT"
)
BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel TEXT, url TEXT, dateTime BIGINT, extra TEXT"
KINDS = {"person": PERSON, "auction": AUCTION, "bid": BID}

WINNING = """
    SELECT A.*, B.auction, B.bidder, B.price, B.dateTime AS bid_time, B.extra AS bid_extra
    FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
    QUALIFY row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime) = 1
"""
DAY = "strftime(make_timestamp(dateTime * 1000), '%Y-%m-%d')"
RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")


def _ranked(what: str) -> str:
    return ", ".join([what, *(f"{what} FILTER (WHERE {rank})" for rank in RANKS)])


class Truth(NamedTuple):
    """The rows of a query at the end of its input."""

    sql: str
    #: Of a query whose rows replace each other: the columns, from 1, of the key, and those by which the newest is last.
    key: tuple[int, ...] = ()
    order: tuple[int, ...] = ()


TRUTHS = {
    "q0": Truth("SELECT auction, bidder, price, dateTime, extra FROM bid"),
    "q1": Truth("SELECT auction, bidder, 0.908 * price, dateTime, extra FROM bid"),
    "q2": Truth("SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    "q3": Truth(
        "SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id "
        "WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')"
    ),
    "q4": Truth(f"SELECT category, count(*), sum(price)::BIGINT // count(*) FROM ({WINNING}) GROUP BY 1", (1,), (2,)),
    "q5": Truth(
        "WITH counts AS (SELECT (dateTime // 2000 - hop + 5) * 2000 AS ends, auction, count(*) AS bids "
        "FROM bid, range(5) AS hops(hop) GROUP BY 1, 2) "
        "SELECT * FROM counts QUALIFY bids = max(bids) OVER (PARTITION BY ends)"
    ),
    "q7": Truth(
        "SELECT auction, price, bidder, dateTime, extra FROM bid "
        "QUALIFY price = max(price) OVER (PARTITION BY dateTime // 10000)"
    ),
    "q8": Truth(
        "SELECT DISTINCT P.id, P.name, P.dateTime // 10000 * 10000 FROM person P JOIN auction A "
        "ON P.id = A.seller AND P.dateTime // 10000 = A.dateTime // 10000"
    ),
    "q9": Truth(WINNING),
    "q11": Truth(
        "WITH gaps AS (SELECT bidder, dateTime, dateTime - lag(dateTime) OVER of_bidder > 10000 AS begins FROM bid "
        "WINDOW of_bidder AS (PARTITION BY bidder ORDER BY dateTime)), "
        "numbered AS (SELECT *, count(*) FILTER (WHERE begins) OVER (PARTITION BY bidder ORDER BY dateTime) AS number "
        "FROM gaps) "
        "SELECT bidder, count(*), min(dateTime), max(dateTime) + 10000 FROM numbered GROUP BY bidder, number"
    ),
    "q13": Truth("SELECT auction, bidder, price, dateTime, value FROM bid JOIN side ON auction % 10000 = key"),
    "q14": Truth(
        "SELECT auction, bidder, 0.908 * price, CASE WHEN hour(moment) BETWEEN 8 AND 18 THEN 'dayTime' "
        "WHEN hour(moment) <= 6 OR hour(moment) >= 20 THEN 'nightTime' ELSE 'otherTime' END, "
        "dateTime, extra, length(extra) - length(replace(extra, 'c', '')) "
        "FROM (SELECT *, make_timestamp(dateTime * 1000) AS moment FROM bid) "
        "WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000"
    ),
    "q16": Truth(
        f"SELECT channel, {DAY}, max(strftime(make_timestamp(dateTime * 1000), '%H:%M')), {_ranked('count(*)')}, "
        f"{_ranked('count(DISTINCT bidder)')}, {_ranked('count(DISTINCT auction)')} FROM bid GROUP BY 1, 2",
        (1, 2), (4,),
    ),
    "q17": Truth(
        f"SELECT auction, {DAY}, {_ranked('count(*)')}, min(price), max(price), sum(price)::BIGINT // count(*), "
        "sum(price)::BIGINT FROM bid GROUP BY 1, 2",
        (1, 2), (3,),
    ),
    "q18": Truth(
        "SELECT * FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) = 1",
        (1, 2), (6,),
    ),
    "q19": Truth(
        "SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime) AS place FROM bid "
        "QUALIFY place <= 10",
        (1, 8), (3, -6),
    ),
    "q20": Truth(
        "SELECT B.*, A.* EXCLUDE (id) FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10"
    ),
}  # fmt: skip


class Events:
    """The events of a folder that `events.write` has made, and the truth about them.

    Args:
        folder: Of the events.
    """

    def __init__(self, folder: Path) -> None:
        self._duckdb = duckdb.connect()
        columns = {kind: f"STRUCT({fields})" for kind, fields in KINDS.items()}
        self._duckdb.execute(
            f"CREATE TABLE event AS FROM read_json('{folder}/events/*.jsonl', format='newline_delimited', "
            f"columns={columns})"
        )
        for kind in KINDS:
            self._duckdb.execute(f"CREATE TABLE {kind} AS SELECT unnest({kind}) FROM event WHERE {kind} IS NOT NULL")
        self._duckdb.execute("DROP TABLE event")
        self._duckdb.execute(
            f"CREATE TABLE side AS FROM read_csv('{folder}/side/*.csv', header=false, "
            "columns={'key': 'BIGINT', 'value': 'TEXT'})"
        )

    def close(self) -> None:
        """Free what DuckDB holds."""
        self._duckdb.close()

    def check(self, query: str, out: Path) -> int:
        """Compare the rows that a program wrote, in any order, with the truth; return how many lines there are.

        Raises:
            WrongResultError: They differ.
        """
        truth = TRUTHS[query]
        self._duckdb.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS SELECT COLUMNS(*)::VARCHAR FROM ({truth.sql})")
        width = len(self._duckdb.execute("FROM wanted LIMIT 0").description)
        columns = {f"c{number}": "TEXT" for number in range(1, width + 1)}
        # What is hidden, or Spark's own, holds no rows.
        shown = (path for path in out.rglob("*") if not any(part[0] in "._" for part in path.relative_to(out).parts))
        files = [str(path) for path in shown if path.is_file()]
        if not files:
            raise WrongResultError(query, "nothing was written")
        self._duckdb.execute(
            "CREATE OR REPLACE TEMP TABLE line AS FROM read_csv($files, header=false, delim=',', quote='', escape='', "
            f"auto_detect=false, null_padding=false, columns={columns})",
            {"files": files},
        )
        found = "line"
        if truth.key:
            keys, order = [f"c{one}" for one in truth.key], [_in_order(one) for one in truth.order]
            newest = ", ".join(f"{one} DESC" for one in order)
            twice = self._count(f"SELECT 1 FROM line GROUP BY {', '.join([*keys, *order])} HAVING count(*) > 1")
            if twice:
                raise WrongResultError(query, f"{twice} rows were written more than once")
            found = f"(SELECT DISTINCT ON ({', '.join(keys)}) * FROM line ORDER BY {', '.join(keys)}, {newest})"
        missing = self._count(f"FROM wanted EXCEPT ALL FROM {found}")
        more = self._count(f"FROM {found} EXCEPT ALL FROM wanted")
        if missing or more:
            raise WrongResultError(query, f"{missing} rows are missing, and {more} should not be there")
        return self._count("FROM line")

    def _count(self, sql: str) -> int:
        rows: Any = self._duckdb.execute(f"SELECT count(*) FROM ({sql})").fetchone()
        return rows[0]


def _in_order(column: int) -> str:
    return f"c{column}::BIGINT" if column > 0 else f"-c{-column}::BIGINT"


class WrongResultError(Exception):
    """A program wrote other rows than DuckDB finds."""

    def __init__(self, query: str, what: str) -> None:
        super().__init__(f"{query}: {what}")
