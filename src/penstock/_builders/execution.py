"""How an environment makes a job of the operators that a program has built, and submits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock._api.execution_mode import RuntimeExecutionMode
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.graph.combining import with_combiners
from penstock._engine.graph.job_graph import JobType
from penstock._engine.graph.pickling import main_classes
from penstock._engine.graph.stream_graph import StreamGraph, StreamNode, with_ancestors
from penstock._engine.graph.uids import assign_uids
from penstock._engine.operators.operator_factory import OperatorRole
from penstock.common import option_table
from penstock.common.arguments import text
from penstock.common.batch_options import BATCH_COMBINE
from penstock.common.configuration import Configuration
from penstock.common.job_listener import tell
from penstock.common.redaction import shown_name
from penstock.errors import EmptyJobError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._builders.caches import Caches
    from penstock._builders.pipeline import Pipeline
    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.launch import JobHandle
    from penstock.common.job_client import JobClient
    from penstock.common.job_listener import JobListener

DEFAULT_JOB_NAME: Final = "Flink Streaming Job"
_COLLECT_JOB_NAME: Final = "DataStream Collect"
_FRAME_JOB_NAME: Final = "DataStream to DataFrame"


class Execution:
    """Runs the operators of one environment, whose settings may change until then.

    Args:
        configuration: The settings.
        pipeline: The operators.
        caches: The cached streams.
        listeners: Told of each job.
    """

    def __init__(
        self, configuration: Configuration, pipeline: Pipeline, caches: Caches, listeners: list[JobListener]
    ) -> None:
        self.configuration = configuration
        self.pipeline = pipeline
        self.caches = caches
        self.listeners = listeners

    def submit(self, job_name: str | None) -> JobClient:
        """Start the next job."""
        return self._submit(self.stream_graph(job_name)).client

    def run_and_collect(self, node: StreamNode, job_name: str | None) -> tuple[Iterator[object], JobClient]:
        """Run the next job, and return what one of its nodes collects."""
        graph = self.stream_graph(_COLLECT_JOB_NAME if job_name is None else job_name)
        handle = self._submit(graph)
        return handle.results(assign_uids(graph)[node.id]), handle.client

    def run_alone(self, node: StreamNode, job_name: str | None) -> None:
        """Run a job of one node and what it reads from, to its end; it never continues an earlier one."""
        graph = self.stream_graph(_FRAME_JOB_NAME if job_name is None else job_name, only=node)
        self._submit(graph, continues=False).finish()

    def stream_graph(self, job_name: str | None, only: StreamNode | None = None) -> StreamGraph:
        """Return the operators of the next job.

        Args:
            job_name: The name of the job; None for the configured one.
            only: The node that is run, with what it reads from; None for all that was built since the last execution.

        Raises:
            EmptyJobError: There is nothing to run.
        """
        config = self.configuration
        configured_name = config.get(option_table.JOB_NAME)
        if job_name is None or (job_name == DEFAULT_JOB_NAME and configured_name is not None):
            job_name = configured_name or DEFAULT_JOB_NAME
        self.caches.prepare()
        nodes = self.pipeline.nodes() if only is None else with_ancestors([only])
        if not nodes:
            raise EmptyJobError(job_name)
        return StreamGraph(
            job_name=shown_name(text("job_name", job_name)),
            nodes=nodes,
            parallelism=config.get(option_table.PARALLELISM),
            max_parallelism=config.get(option_table.MAX_PARALLELISM),
            chaining_enabled=config.get(option_table.OPERATOR_CHAINING),
            chain_different_max_parallelism=config.get(option_table.CHAIN_DIFFERENT_MAX_PARALLELISM),
            auto_generate_uids=config.get(option_table.AUTO_GENERATE_UIDS),
            job_type=_job_type(config.get(option_table.RUNTIME_MODE), nodes),
        )

    def _submit(self, graph: StreamGraph, *, continues: bool = True) -> JobHandle:
        """Start a job, which may start from a checkpoint of an earlier one if it `continues`."""
        from penstock._engine import launch

        configuration = Configuration(self.configuration)
        if not continues:
            configuration.remove_config(option_table.RECOVERY_PATH.key)
        ended = self.caches.write(graph, configuration)
        try:
            job_graph: JobGraph = build_job_graph(graph)
            if graph.job_type is JobType.BATCH:
                _check_batch(configuration, graph)
                job_graph = with_combiners(job_graph) if self.configuration.get(BATCH_COMBINE) else job_graph
            else:
                _check_streaming(graph)
            self.pipeline.execute(graph.nodes)
            handle = launch.submit(job_graph, configuration, main_classes(), ended)
        except Exception as error:
            ended(None)
            failure = error  # Python forgets the other name at the end of this block
            tell(self.listeners, lambda listener: listener.on_job_submitted(None, failure))
            raise
        tell(self.listeners, lambda listener: listener.on_job_submitted(handle.client, None))
        return handle


def _job_type(mode: str, nodes: Iterable[StreamNode]) -> JobType:
    """Return the mode of a job: AUTOMATIC means BATCH if all sources are bounded, else STREAMING."""
    if mode != RuntimeExecutionMode.AUTOMATIC.name:
        return JobType(mode)
    bounded = all(node.bounded for node in nodes if node.factory.role is OperatorRole.SOURCE)
    return JobType.BATCH if bounded else JobType.STREAMING


def _check_streaming(graph: StreamGraph) -> None:
    """Raise for a streaming job that could not run.

    Raises:
        UnsupportedOperationError: It has a full window partition, which needs the end of its input.
    """
    key = option_table.RUNTIME_MODE.key
    operator = next((node for node in graph.nodes if node.full_window), None)
    if operator is not None:
        unbounded = next((source for source in graph.sources() if not source.bounded), None)
        way_out = f"set {key} to BATCH, or to AUTOMATIC"
        if unbounded is not None:
            way_out = f"{unbounded} never comes to an end; read bounded sources only, and set {key} to BATCH"
        raise UnsupportedOperationError(f"{operator}, which takes whole partitions, with {key} = STREAMING", way_out)


def _check_batch(configuration: Configuration, graph: StreamGraph) -> None:
    """Raise for a batch job that could not run.

    Raises:
        UnsupportedOperationError: A source is unbounded, the job is to start from a checkpoint or savepoint, or its
            operators behind a committer cannot run in stages.
    """
    key = option_table.RUNTIME_MODE.key
    unbounded = [source for source in graph.sources() if not source.bounded]
    if unbounded:
        reason = f"{unbounded[0]} never comes to an end; set {key} to STREAMING, or to AUTOMATIC"
        raise UnsupportedOperationError(f"{key} = BATCH", reason)
    _check_behind_committers(graph)
    path = configuration.get(option_table.RECOVERY_PATH)
    if path not in {None, option_table.LATEST}:
        reason = (
            f"batch jobs have no checkpoints and start from the beginning; set {key} to STREAMING to continue from it"
        )
        raise UnsupportedOperationError(f"{option_table.RECOVERY_PATH.key} = {path} with {key} = BATCH", reason)


def _check_behind_committers(graph: StreamGraph) -> None:
    """Raise for operators behind a committer that a batch job cannot run: in stages of their own, behind the commit.

    Raises:
        UnsupportedOperationError: They have other input as well.
    """
    key, fed = option_table.RUNTIME_MODE.key, set[int]()
    for node in graph.nodes:
        behind = [edge.source.id in fed for edge in node.inputs]
        if any(behind) and not all(behind):
            operation = f"{node}, which is behind a committer and has other input as well, with {key} = BATCH"
            raise UnsupportedOperationError(operation, f"set {key} to STREAMING")
        if node.factory.role is OperatorRole.COMMITTED or any(behind):
            fed.add(node.id)
