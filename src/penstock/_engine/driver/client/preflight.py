"""Looks at the paths of a job before Spark takes its seconds to start."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._api.connectors.source import Boundedness
from penstock._engine.coordinator.settings import LATEST
from penstock._engine.operators.factories.sources_and_sinks import SourceFactory
from penstock._engine.protocol.paths import METADATA
from penstock._engine.storage.opening import above, absolute, open_storage, storage_options
from penstock.common import option_table
from penstock.common.paths import scheme_of
from penstock.errors import NoCheckpointError, PathError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engine.graph.job_graph import JobGraph
    from penstock.common.configuration import Configuration

#: How the directories of savepoints and checkpoints begin, and how many of them a message names.
_NAMES: Final = ("savepoint-", "chk-")
_SHOWN: Final = 5


def look_at_paths(graph: JobGraph, configuration: Configuration) -> None:
    """Look whether a job can start from its paths: its directory of checkpoints, what it restores, and its input.

    Args:
        graph: The job.
        configuration: Its effective configuration.

    Raises:
        CheckpointStorageError: The checkpoint directory cannot be used.
        NoCheckpointError: There is no savepoint or checkpoint at the path to start from.
        PathError: A bounded source is to read a local path at which nothing is.
    """
    options = storage_options(configuration)
    directory, start = (
        configuration.get(option_table.CHECKPOINT_DIRECTORY),
        configuration.get(option_table.RECOVERY_PATH),
    )
    if directory is not None:
        open_storage(directory, options).probe()
    if start is None:
        _look_at_input(graph)
    elif start != LATEST:
        _look_at_start(graph.name, absolute(start).removesuffix(f"/{METADATA}"), options)


def _look_at_start(job_name: str, path: str, options: dict[str, str]) -> None:
    storage = open_storage(path, options)
    if storage.find(METADATA) is not None:
        return
    reason, within = "there is no checkpoint metadata at that path", _savepoints(storage.names(""))
    if within:
        raise NoCheckpointError(path, repr(job_name), f"{reason}; in it are {_some(within, '')}")
    parent, name = above(path)
    beside = _savepoints(open_storage(parent, options).names("")) if name and parent else []
    if beside:
        reason = f"{reason}; beside it are {_some(beside, name)}"
    raise NoCheckpointError(path, repr(job_name), reason)


def _savepoints(names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(_NAMES)]


def _some(names: list[str], wanted: str) -> str:
    """Return the names most like one first, at most some of them."""
    like = get_close_matches(wanted, names, _SHOWN, 0.6)
    shown = [*like, *(name for name in reversed(names) if name not in like)][:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{', '.join(shown)}{more}"


def _look_at_input(graph: JobGraph) -> None:
    for node in graph.operators.values():
        if not issubclass(node.factory, SourceFactory):
            continue
        factory = node.make_factory()
        assert isinstance(factory, SourceFactory)
        if factory.source.get_boundedness() is not Boundedness.BOUNDED:
            continue  # what it reads may come later
        for path in factory.source.storage_paths():
            if not scheme_of(path) and not Path(path).exists():
                raise PathError(path, f"source {node!s} is to read it, and nothing is there")
