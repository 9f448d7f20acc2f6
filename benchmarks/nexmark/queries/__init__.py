"""The queries of Nexmark as programs of PyFlink's DataStream API; ``penstock port`` makes them programs of Penstock.

Each takes the lines of events and those of the side input, and returns a stream of rows.
"""

from collections.abc import Callable

from pyflink.datastream import DataStream

from queries.joins import q3, q4, q9, q13, q20
from queries.selections import q0, q1, q2, q14
from queries.updates import q16, q17, q18, q19
from queries.windows import q5, q7, q8, q11

Query = Callable[[DataStream, DataStream], DataStream]

QUERIES: dict[str, Query] = {
    query.__name__: query for query in (q0, q1, q2, q3, q4, q5, q7, q8, q9, q11, q13, q14, q16, q17, q18, q19, q20)
}
