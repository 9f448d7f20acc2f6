"""The folders and buckets that all hosts of a job share: which they are, and what is written into them to try it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.operators.factories.sources_and_sinks import SinkWriterFactory, SourceFactory
from penstock._engine.spark.probe import COMPARED, Place
from penstock.common import option_table
from penstock.common.batch_options import HA_STORAGE
from penstock.errors import UnsuitableClusterError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from penstock._engine.graph.job_graph import JobGraph, OperatorNode
    from penstock._engine.spark.probe import Question
    from penstock.common.configuration import Configuration


def places_of(graph: JobGraph | None, configuration: Configuration) -> Iterator[Place]:
    """Yield the paths that a job uses."""
    keys = (option_table.CHECKPOINT_DIRECTORY, option_table.SAVEPOINT_DIRECTORY, HA_STORAGE)
    for option in keys:
        if (path := configuration.get(option)) is not None:
            yield Place(option.key, path, is_written=True)
    for node in () if graph is None else graph.operators.values():
        match node.make_factory() if issubclass(node.factory, (SinkWriterFactory, SourceFactory)) else None:
            case SinkWriterFactory(sink=sink):
                yield from (Place(_named("sink", node), path, is_written=True) for path in sink.storage_paths())
            case SourceFactory(source=source):
                yield from (Place(_named("source", node), path) for path in source.storage_paths())
            case _:
                pass


def _named(kind: str, node: OperatorNode) -> str:
    """Return the name of a source or sink, with the uid that the program gives it: many sinks have no name."""
    uid = f" (uid {node.uid!r})" if node.explicit_uid else ""
    return f"{kind} {node.name.removeprefix('Source: ')!r}{uid}"


@contextlib.contextmanager
def marked(question: Question, master: str) -> Generator[Question]:
    """Write a file into each folder that tasks write to, and list files of sources; at the end nothing is left.

    Raises:
        UnsuitableClusterError: The driver cannot write to one of them.
    """
    folders = {Path(place.path): place for place in question.places if place.is_local and place.is_written}
    mark, made = f"{question.token}-driver", list[Path]()
    try:
        for folder, place in folders.items():
            try:
                made += _make(folder)
                (folder / mark).touch()
            except OSError as error:
                problem = f"the driver cannot write to {folder} of {place.user}: {error.strerror or error}"
                raise UnsuitableClusterError(master, (problem,)) from None
        yield replace(question, places=tuple(_described(place, mark) for place in question.places))
    finally:
        for folder in folders:
            for left in folder.glob(f"{question.token}-*"):
                left.unlink(missing_ok=True)
        for folder in reversed(made):
            with contextlib.suppress(OSError):  # it is used by now
                folder.rmdir()


def _make(folder: Path) -> list[Path]:
    """Make a folder with those above it, and return the new ones, the uppermost first."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _described(place: Place, mark: str) -> Place:
    """Return a place with what hosts compare there; where the driver has no such files, the source itself says so."""
    if not place.is_local:
        return place
    return replace(place, mark=mark) if place.is_written else replace(place, files=tuple(_some_files(Path(place.path))))


def _some_files(path: Path) -> Iterator[tuple[str, int]]:
    """Yield some files of a source's folder, or the one that it is, with their sizes."""
    files = (Path(folder, name) for folder, _, names in os.walk(path) for name in sorted(names) if name[0] not in "._")
    for file in islice(filter(Path.is_file, files if path.is_dir() else [path]), COMPARED):
        yield str(file), file.stat().st_size
