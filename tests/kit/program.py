"""A program for tests: sources that are lists, outputs by name."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from tests.kit.settings import configured

from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.stream_graph import Chaining
from penstock._engine.operators.factories.sources_and_sinks import CollectFactory
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.sources import ListSource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock._engine.graph.job_graph import JobGraph
    from penstock.datastream import DataStream


class Program:
    """What a job is written on.

    Args:
        place: Its sources note there what they are told.
        parallelism: Of all that says nothing else.
        settings: Configuration, by the short names of the kit.
    """

    def __init__(self, place: Path, parallelism: int = 1, **settings: str) -> None:
        env = StreamExecutionEnvironment.get_execution_environment(configured(**settings))
        self.env = env.set_parallelism(parallelism)
        self._place = place

    def source(
        self,
        *lists: Sequence[Any],
        name: str = "list",
        timestamps: WatermarkStrategy | None = None,
        kind: type[ListSource] = ListSource,
        events: Path | None = None,
    ) -> DataStream:
        """Return a stream of lists, each a split; a poll gives one record.

        Args:
            lists: Their records.
            name: The source's.
            timestamps: Where records have any.
            kind: The kind of source.
            events: Where it notes which events have happened; a directory of its own by default.
        """
        self._place.mkdir(parents=True, exist_ok=True)
        source = kind(*lists, happened_in=str(events or tempfile.mkdtemp(dir=self._place, prefix="events-")))
        return self.env.from_source(source, timestamps or WatermarkStrategy.no_watermarks(), name)

    def collect(self, stream: DataStream, name: str = "out", *, uid: str | None = None, as_text: bool = False) -> None:
        """Have the records of a stream as an output; with a uid in a vertex of its own, so that it changes no chain."""
        node = stream._add(CollectFactory(None, as_text=as_text), name, keep_size=True)
        if uid is not None:
            node.uid, node.chaining = uid, Chaining.NEVER

    def graph(self) -> JobGraph:
        """Return the job graph."""
        return build_job_graph(self.env._stream_graph("test"))
