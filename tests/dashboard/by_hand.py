"""Jobs made by hand, behind the real REST server."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.rest.fakes import SETTINGS, checkpoint, job

from penstock._engine.gateway.checkpoint_view import CheckpointsView
from penstock._engine.gateway.job_view import InputView, OperatorView, PlanView, SubtaskView, VertexView, vertex_id
from penstock._engine.protocol.control import IOMetrics
from penstock._engine.rest.server import RestServer
from penstock._engine.rest.settings import RestSettings
from penstock.common.configuration import Configuration

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from tests.unit.rest.fakes import FakeControl

    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.rest.metric_history import MetricHistory

#: The server asks pages to wait a little less before they ask again.
REFRESH_MS = 3500
#: The busiest vertex of `wide_job`.
CONVERT = vertex_id("convert")
#: In seconds: times made by hand lie long ago.
_FOR_EVER = "2000000000"


@contextmanager
def serving(
    directory: Path,
    *controls: FakeControl,
    token: str | None = None,
    figures: MetricHistory | None = None,
    no_executors_since: Callable[[], int | None] | None = None,
) -> Generator[str]:
    """Serve jobs on a port of this machine; gives the address of the pages."""
    keys = {"rest.port": "0", "penstock.rest.registry-dir": str(directory), "jobstore.expiration-time": _FOR_EVER}
    keys["penstock.rest.token"] = token or "none"
    server = RestServer(RestSettings.read(Configuration.from_dict(keys)), dispose=lambda _1, _2, _3: None)
    for control in controls:
        server.add(control, figures=figures)
    server.start(2, no_executors_since=no_executors_since)
    try:
        yield f"{server.address}/"
    finally:
        server.close()


def wide_job() -> JobView:
    """A job with two sources, a branch, an edge that passes a level, and all of it unlike busy."""
    names: dict[str, tuple[str, list[tuple[str, str]]]] = {
        "trades": ("Source: trades", []),
        "rates": ("Source: rates -> only known currencies", []),
        "parse": ("parse -> with timestamps", [("trades", "REBALANCE")]),
        "convert": ("convert to euros", [("parse", "HASH"), ("rates", "BROADCAST")]),
        "minute": ("mean of a minute -> as line -> Sink: means", [("convert", "HASH")]),
        "alerts": ("jumps -> Sink: alerts", [("convert", "HASH")]),
        "odd": ("<b>odd</b> & strange -> Sink: set aside", [("parse", "FORWARD")]),
    }
    vertices = tuple(
        VertexView(
            vertex_id(uid),
            name,
            2,
            128,
            tuple(
                OperatorView(f"{uid}-{at}", one, f"prices.py:{20 + at}") for at, one in enumerate(name.split(" -> "))
            ),
            tuple(InputView(vertex_id(source), strategy) for source, strategy in inputs),
        )
        for uid, (name, inputs) in names.items()
    )
    busy = {"trades": 310, "rates": 40, "parse": 220, "convert": 870, "minute": 330, "alerts": 150, "odd": 10}
    waits = {"trades": 620, "rates": 640, "parse": 480}
    subtasks = tuple(
        tuple(
            SubtaskView(
                io=IOMetrics(1_234_567, 1_200_000, 50_000_000, 48_000_000, busy[uid] * 30),
                last_io=IOMetrics(8_400, 8_300, busy_ms=busy[uid] - 100 * index),
                last_waited_ms=waits.get(uid, 0),
                input_watermark=1_795_229_585_000,
                output_watermark=1_795_229_585_000,
                finished=uid == "rates" and index == 0,
            )
            for index in range(2)
        )
        for uid in names
    )
    plan = PlanView(vertices, bounded=False, parallelism=2, max_parallelism=-1)
    last = checkpoint(412, subtask_count=14, subtasks=checkpoint(412).subtasks[:1] * len(names))
    return replace(
        job(),
        name="prices",
        plan=plan,
        subtasks=subtasks,
        failures=(),
        checkpoints=CheckpointsView(SETTINGS, completed=412, history=(last,), last_completed=last),
    )
