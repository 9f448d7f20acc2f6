"""The parts of a job's view that never change: its plan, and the settings of its checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.connectors.source import Boundedness
from penstock._engine.gateway.checkpoint_view import CheckpointSettings
from penstock._engine.gateway.job_view import InputView, OperatorView, PlanView, VertexView, vertex_id
from penstock.common import option_table
from penstock.common.redaction import shown_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._api.connectors.source import Source
    from penstock._engine.graph.job_graph import JobGraph
    from penstock.common.configuration import Configuration
    from penstock.common.time import Duration


def plan_view(graph: JobGraph, sources: Iterable[Source[Any, Any, Any]], configuration: Configuration) -> PlanView:
    """Return a job's plan.

    Args:
        graph: The job.
        sources: Its sources.
        configuration: Its configuration.
    """
    ids = [vertex_id(vertex.operators[0].uid) for vertex in graph.vertices]
    vertices = tuple(
        VertexView(
            id=ids[vertex.id],
            name=shown_text(vertex.name),
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            operators=tuple(
                OperatorView(node.uid, shown_text(node.name), node.created_at, node.is_part)
                for node in vertex.operators
            ),
            inputs=tuple(InputView(ids[edge.source], edge.partitioner.name) for edge in graph.inputs(vertex.id)),
        )
        for vertex in graph.vertices
    )
    return PlanView(
        vertices=vertices,
        bounded=all(source.get_boundedness() is Boundedness.BOUNDED for source in sources),
        parallelism=max((vertex.parallelism for vertex in vertices), default=1),
        max_parallelism=configuration.get(option_table.MAX_PARALLELISM),
        job_type=graph.job_type.value,
    )


def checkpoint_settings(configuration: Configuration) -> CheckpointSettings:
    """Return the checkpoint settings of a job."""
    interval = configuration.get(option_table.CHECKPOINTING_INTERVAL)
    durable = configuration.get(option_table.CHECKPOINT_DIRECTORY) is not None
    return CheckpointSettings(
        enabled=durable or bool(_millis(interval)),
        interval_ms=_millis(interval),
        timeout_ms=_millis(configuration.get(option_table.CHECKPOINTING_TIMEOUT)),
        min_pause_ms=_millis(configuration.get(option_table.CHECKPOINTING_MIN_PAUSE)),
        tolerable_failures=configuration.get(option_table.CHECKPOINTING_TOLERABLE_FAILURES),
        kept_on_cancel=configuration.get(option_table.CHECKPOINT_RETENTION) == "RETAIN_ON_CANCELLATION",
        durable=durable,
    )


def _millis(duration: Duration | None) -> int:
    return 0 if duration is None else duration.to_millis()
