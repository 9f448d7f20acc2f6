"""What one executor finds out about its host before a job begins; `preflight` asks, and judges the answers."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock._engine.runtime.worker_cache import add_import_path
from penstock._engine.storage.local_state import LocalStateDirectory
from penstock._engine.storage.opening import open_storage
from penstock.common.paths import scheme_of
from penstock.errors import PenstockError

#: Of the files that a source's folder has, so many are compared.
COMPARED: Final = 16
#: What to do about a folder that is not the same one on all hosts.
SHARED: Final = "let it name a place that all hosts share, such as a mounted network disk or a bucket"
#: Variables of the tools of clouds, by which clients without keys of the configuration reach object stores.
CLOUD_VARIABLES: Final = ("AWS_", "AZURE_", "GOOGLE_")


@dataclass(frozen=True, slots=True)
class Place:
    """A path or URL that a job uses.

    Attributes:
        user: The key, or the source or sink, that names it.
        path: The path or URL.
        is_written: Whether tasks write there.
        mark: For a folder in which tasks write: the name of the file in it that the driver has written.
        files: For a source: the paths and sizes of some files that the driver has found.
    """

    user: str
    path: str
    is_written: bool = False
    mark: str = ""
    files: tuple[tuple[str, int], ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether it is a path on a disk."""
        return not scheme_of(self.path)


@dataclass(frozen=True, slots=True)
class Question:
    """What the driver asks each host.

    Attributes:
        token: A random name for what is written.
        places: The paths and URLs that the job uses.
        storage_options: How object stores are reached; they may contain secrets.
        variables: The names of the variables of cloud tools that the driver has.
        modules: The modules that the job's functions name.
        python_path: Entries of sys.path for the tasks.
    """

    token: str
    places: tuple[Place, ...] = ()
    storage_options: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    variables: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    python_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a host has found.

    Attributes:
        problems: What stands in the way of the job, each a clause behind the name of the host.
        written: Files that the host has written: user and path of their place, and the name of the file.
    """

    problems: tuple[str, ...]
    written: tuple[tuple[str, str, str], ...]


def answer(question: Question) -> Answer:
    """Look at this host; called in a task."""
    problems: list[str] = []
    written: list[tuple[str, str, str]] = []
    name = f"{question.token}-{os.getpid()}-{os.urandom(4).hex()}"
    for place in question.places:
        if not place.is_local:
            problems += _reach(place, question, name)
        elif place.is_written:
            problem = _write(place, name)
            if problem is None:
                written.append((place.user, place.path, name))
            else:
                problems.append(problem)
        else:
            problems += _compare(place)
    problems += _import(question)
    problems += _keep_state(question)
    return Answer(tuple(problems), tuple(written))


def _write(place: Place, name: str) -> str | None:
    """Read the driver's file in a folder, and write one of this host's; return what is wrong."""
    folder = Path(place.path)
    if not (folder / place.mark).exists():
        return f"does not have {place.path} of {place.user} as the driver has it; {SHARED}"
    try:
        (folder / name).write_text(name)
        if (folder / name).read_text() == name:
            return None
        said = "what is written is not what is read"
    except OSError as error:
        said = error.strerror or str(error)
    return f"cannot write to {place.path} of {place.user}: {said}"


def _compare(place: Place) -> list[str]:
    """Compare the files of a source with those that the driver has found."""
    for path, size in place.files:
        try:
            with Path(path).open("rb") as file:
                found = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            return [f"does not have {path} of {place.user}, which the driver has; {SHARED}"]
        except OSError as error:
            return [f"cannot read {path} of {place.user}: {error.strerror or error}"]
        if found < size:
            return [f"has another file as {path} of {place.user} than the driver ({found} bytes, not {size}); {SHARED}"]
    return []


def _reach(place: Place, question: Question, name: str) -> list[str]:
    """Write and read an object, or for a source look for one."""
    lacking = [variable for variable in question.variables if variable not in os.environ]
    try:
        if not place.is_written:
            open_storage(_folder(place.path), question.storage_options).find(name)
            return []
        storage = open_storage(place.path, question.storage_options)
        storage.put(name, name.encode())
        try:
            found = storage.find(name)
        finally:
            storage.delete([name])
        if found == name.encode():
            return []
        said = "what is written is not what is read"
    except PenstockError as error:
        said = str(getattr(error, "reason", error))
    hint = ""
    if lacking:
        keys = " or the keys s3.access-key and s3.secret-key" if place.path.startswith("s3") else ""
        hint = (
            f"; the driver has {', '.join(lacking)} in its environment, and this host does not: set "
            f"spark.executorEnv.{lacking[0]} and so on{keys}"
        )
    return [f"cannot reach {place.path} of {place.user}: {said}{hint}"]


def _folder(url: str) -> str:
    """Return the folder of an object, or of a folder; a bucket has none."""
    bucket, _, name = url.rpartition("/")
    return url if bucket.endswith(":/") or not name else bucket


def _import(question: Question) -> list[str]:
    """Look for modules as the tasks of the job will."""
    missing: list[str] = []
    before = list(sys.path)
    add_import_path(question.python_path)
    importlib.invalidate_caches()
    try:
        for module in question.modules:
            try:
                found = module in sys.modules or importlib.util.find_spec(module) is not None
            except Exception as error:  # noqa: BLE001 - the packages above the module are imported, and may raise anything
                missing.append(
                    f"cannot import {module} ({type(error).__name__}: {error}), which functions of the job need"
                )
                continue
            if not found:
                missing.append(f"has no module {module}, which functions of the job need")
    finally:
        sys.path[:] = before
    way_out = (
        "; install it there, or ship it: modules with python.files or env.add_python_file(), packages with "
        "python.requirements, a whole environment with spark.archives and PYSPARK_PYTHON"
    )
    return [text + way_out for text in missing]


def _keep_state(question: Question) -> list[str]:
    """Make a directory of local state."""
    directory = LocalStateDirectory(question.token)
    try:
        place = directory.hold()
        (place / question.token).touch()
    except (PenstockError, OSError) as error:
        return [f"has no place for state: {str(error).removesuffix('.')}"]
    else:
        return []
    finally:
        directory.leave()
