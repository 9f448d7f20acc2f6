"""The cached streams of a program: which of them are computed already, and what the next job does about them.

A cached stream is one node of the graph. In a job that computes the stream it passes the records on, and writes them
where the job is a batch job; in later jobs it is a source of what was written.
"""

from __future__ import annotations

import logging
import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING

from penstock._builders.pipeline import set_factory
from penstock._engine.caches.files import check_cached, take_noted
from penstock._engine.caches.place import cache_directory
from penstock._engine.caches.streams import CacheSource, StreamSink
from penstock._engine.graph.job_graph import JobType
from penstock._engine.operators.factories.sources_and_sinks import CacheFactory, SourceFactory
from penstock._engine.operators.operator_factory import OperatorRole
from penstock._engine.storage.opening import checkpoint_directory, storage_options
from penstock.common import option_table
from penstock.common.batch_options import JOB_RECOVERY
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.errors import CachedStreamError, CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._engine.caches.files import CachedFile
    from penstock._engine.caches.place import CacheDirectory
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.graph.stream_graph import StreamGraph, StreamNode
    from penstock.common.configuration import Configuration
    from penstock.common.typeinfo import TypeInformation

_log = logging.getLogger("penstock")

_WRITE, _READ = "CacheWrite", "CacheRead"


class CachedStream:
    """What is known of one cached stream.

    Args:
        node: Its node, as it is in a job that computes the stream.
        type_info: The type of the stream, None without one.
    """

    def __init__(self, node: StreamNode, type_info: TypeInformation | None) -> None:
        self.node = node
        self._inputs = node.inputs
        self._type_info = type_info
        self._lock = threading.Lock()
        #: What is kept: where, the directory of the job that wrote it, and its files.
        self._cached: tuple[CacheDirectory, str, tuple[CachedFile, ...]] | None = None

    def prepare(self) -> None:
        """Make the node read what is kept; if nothing is, or not all of it is there any more, compute the stream."""
        node, cached = self.node, self._found()
        if cached is None:
            node.name, node.inputs = _WRITE, self._inputs
            set_factory(node, CacheFactory(None))
        else:
            place, _, files = cached
            source = CacheSource(place.storage.url, files, self._type_info)
            node.name, node.inputs = _READ, ()
            set_factory(node, SourceFactory(source, WatermarkStrategy.no_watermarks()))

    def write(self, place: CacheDirectory) -> Callable[[JobView | None], None]:
        """Have the next job write the stream; return what is called at its end, without a view if it did not start."""
        writing = secrets.token_hex(8)
        set_factory(self.node, CacheFactory(StreamSink(place.storage.url, writing)))
        return partial(self._ended, place, writing)

    def invalidate(self) -> None:
        """Delete what is kept."""
        with self._lock:
            cached, self._cached = self._cached, None
        if cached is not None:
            place, writing, _ = cached
            place.delete(writing)

    def _ended(self, place: CacheDirectory, writing: str, job: JobView | None) -> None:
        files = take_noted(writing)
        if job is not None and job.is_complete and files is not None:
            with self._lock:
                if self._cached is None:
                    self._cached = place, writing, files
                    return
        place.delete(writing)

    def _found(self) -> tuple[CacheDirectory, str, tuple[CachedFile, ...]] | None:
        """Return what is kept if all of it is there and as it was written; a damaged file would fail the job."""
        with self._lock:
            cached = self._cached
        if cached is None:
            return None
        place, _, files = cached
        try:
            check_cached(place.storage, files)
        except (CheckpointStorageError, CachedStreamError) as error:
            _log.warning("The cached stream of %s is computed anew: %s", self.node, error)
            self.invalidate()
            return None
        return cached


class Caches:
    """The cached streams of one environment."""

    def __init__(self) -> None:
        self._streams: dict[int, CachedStream] = {}

    def add(self, stream: CachedStream) -> None:
        """Add a cached stream."""
        self._streams[stream.node.id] = stream

    def prepare(self) -> None:
        """Decide for each stream whether the next job reads or computes it."""
        for stream in self._streams.values():
            stream.prepare()

    def write(self, graph: StreamGraph, configuration: Configuration) -> Callable[[JobView | None], None]:
        """Have a job write the cached streams that it computes; return what is called at its end.

        Raises:
            CheckpointStorageError: There is no directory for what is kept.
        """
        computed = [self._streams[node.id] for node in graph.nodes if node.factory.role is OperatorRole.CACHE]
        if computed and graph.job_type is not JobType.BATCH:
            _log.warning(
                "cache() keeps nothing in a job in streaming mode: %s computes %s. Set %s to BATCH",
                *(graph.job_name, ", ".join(str(stream.node) for stream in computed), option_table.RUNTIME_MODE.key),
            )
            computed = []
        if computed and _recovers(configuration):
            _log.warning(
                "cache() keeps nothing in job %s, for which %s is set: no later job of its program could read it",
                *(graph.job_name, JOB_RECOVERY.key),
            )
            computed = []
        if not computed:
            return _nothing
        place = cache_directory(configuration.get(option_table.CHECKPOINT_DIRECTORY), storage_options(configuration))
        return partial(_call_each, [stream.write(place) for stream in computed])

    def invalidate(self) -> None:
        """Delete all that is kept."""
        for stream in self._streams.values():
            stream.invalidate()


def _recovers(configuration: Configuration) -> bool:
    """Tell whether a batch job outlives its driver: then it is the only one of its program."""
    return configuration.get(JOB_RECOVERY) and checkpoint_directory(configuration, recovers=True) is not None


def _nothing(job: JobView | None) -> None:
    """Do nothing at the end of a job that writes no cached stream."""


def _call_each(ended: Iterable[Callable[[JobView | None], None]], job: JobView | None) -> None:
    for tell in ended:
        tell(job)
