"""Three queries of Nexmark for Bytewax 0.21: ``python bytewax_queries.py PLACE - q5=EVENTS q7=EVENTS``.

One worker reads the two files as two partitions. There is a recovery store, and an epoch each two seconds. Bytewax has
a watermark for each key, which rises with the key's own events: a window of a cold key ends with the input, so the
hottest auctions of a window (Q5) are known at the end of the input.
"""

import json
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.files import FileSink
from bytewax.dataflow import Dataflow, Stream
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import run_main

BATCH = 1_000
EPOCH_INTERVAL = timedelta(seconds=2)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
Event = dict[str, Any]


class Lines(StatefulSourcePartition[str, int]):
    def __init__(self, file: TextIO, position: int | None) -> None:
        self.file = file
        self.file.seek(position or 0)

    def next_batch(self) -> list[str]:
        lines = [line for line in (self.file.readline() for _ in range(BATCH)) if line]
        if not lines:
            raise StopIteration
        return lines

    def snapshot(self) -> int:
        return self.file.tell()

    def close(self) -> None:
        self.file.close()


class Files(FixedPartitionedSource[str, int]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def list_parts(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Lines:
        return Lines((self.folder / for_part).open(), resume_state)


def bid_of(line: str) -> Event | None:
    return json.loads(line).get("bid")


def clock() -> win.EventClock[Event]:
    return win.EventClock(
        lambda bid: EPOCH + bid["dateTime"] * MILLISECOND,
        timedelta(seconds=10),  # the two partitions may drift apart by this
        now_getter=lambda: EPOCH,  # only event time moves the watermark
        to_system_utc=lambda _: None,
    )


def q5(bids: Stream[Event]) -> Stream[str]:
    hops = win.SlidingWindower(timedelta(seconds=10), timedelta(seconds=2), EPOCH)
    keyed = op.key_on("auction", bids, lambda bid: str(bid["auction"]))
    counts = win.fold_window(
        *("count", keyed, clock(), hops, lambda: 0, lambda count, bid: count + 1, lambda a, b: a + b), ordered=False
    )

    def hottest(found: list[tuple[str, int]], item: tuple[str, int]) -> list[tuple[str, int]]:
        if not found or item[1] > found[0][1]:
            return [item]
        return [*found, item] if item[1] == found[0][1] else found

    by_window = op.map("window", counts.down, lambda item: (str(item[1][0]), (item[0], item[1][1])))
    hot = op.fold_final("hottest", by_window, list, hottest)
    return op.flat_map(
        "rows", hot, lambda item: [f"{int(item[0]) * 2_000 + 10_000},{auction},{n}" for auction, n in item[1]]
    )


def q7(bids: Stream[Event]) -> Stream[str]:
    def highest(found: list[Event], bid: Event) -> list[Event]:
        if not found or bid["price"] > found[0]["price"]:
            return [bid]
        return [*found, bid] if bid["price"] == found[0]["price"] else found

    windows = win.TumblingWindower(timedelta(seconds=10), EPOCH)
    keyed = op.key_on("all", bids, lambda _: "all")
    found = win.fold_window(*("highest", keyed, clock(), windows, list, highest, lambda a, b: a + b), ordered=False)
    fields = ("auction", "price", "bidder", "dateTime", "extra")
    return op.flat_map(
        "rows", found.down, lambda item: [",".join(str(bid[name]) for name in fields) for bid in item[1][1]]
    )


def q11(bids: Stream[Event]) -> Stream[str]:
    Session = tuple[int, int, int]

    def add(session: Session, bid: Event) -> Session:
        return session[0] + 1, min(session[1], bid["dateTime"]), max(session[2], bid["dateTime"])

    def merge(a: Session, b: Session) -> Session:
        return a[0] + b[0], min(a[1], b[1]), max(a[2], b[2])

    sessions = win.SessionWindower(timedelta(seconds=10))
    keyed = op.key_on("bidder", bids, lambda bid: str(bid["bidder"]))
    found = win.fold_window(*("session", keyed, clock(), sessions, lambda: (0, 1 << 62, 0), add, merge), ordered=False)
    return op.map(
        "rows", found.down, lambda item: f"{item[0]},{item[1][1][0]},{item[1][1][1]},{item[1][1][2] + 10_000}"
    )


QUERIES: dict[str, Callable[[Stream[Event]], Stream[str]]] = {each.__name__: each for each in (q5, q7, q11)}


def pass_on(bids: Stream[Event]) -> Stream[str]:
    fields = ("auction", "bidder", "price", "dateTime", "extra")
    return op.map("rows", bids, lambda bid: ",".join(str(bid[name]) for name in fields))


def run(query: str, folder: Path, place: Path) -> None:
    (place / "out").mkdir(parents=True)
    (place / "recovery").mkdir()
    init_db_dir(place / "recovery", 1)
    out = place / "out" / "part-0"
    out.touch()
    flow = Dataflow(query)
    lines = op.input("lines", flow, Files(folder / "events"))
    rows = QUERIES.get(query, pass_on)(op.filter_map("bids", lines, bid_of))
    op.output("out", op.map("keyed", rows, lambda row: ("", row)), FileSink(out))
    run_main(flow, epoch_interval=EPOCH_INTERVAL, recovery_config=RecoveryConfig(str(place / "recovery")))


def main(place: Path, *tasks: str) -> None:
    for number, task in enumerate(tasks):
        query, _, folder = task.partition("=")
        try:
            run(query, Path(folder), place / str(number))
            print("DONE", number, flush=True)
        except Exception:  # noqa: BLE001 - the other queries go on
            traceback.print_exc()
            print("FAILED", number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[3:])
