"""Brings to the tasks what a job's configuration names: modules, packages, archives and files.

On this machine tasks find it in folders of the driver, which end with its process. To other machines Spark brings it:
modules as it brings those of the script, archives and files into the working directory of each executor.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.spark.shipping import (
    content_folder,
    is_local,
    process_folder,
    ship,
    ship_archive,
    ship_file,
    zipped,
)
from penstock.common.config_values import MAP
from penstock.common.redaction import hiding
from penstock.common.task_options import (
    BEHIND_PATH,
    CACHED_FILES,
    PYTHON_ARCHIVES,
    PYTHON_EXECUTABLE,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
)
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.spark.session import SparkHandle
    from penstock.common.config_options import ConfigOption
    from penstock.common.configuration import Configuration

_log = hiding(logging.getLogger(__name__))

_PACKED: Final = (".zip", ".egg", ".whl")
_PIP_TIMEOUT_S: Final = 1800


@dataclass(frozen=True, slots=True)
class TaskPlaces:
    """Where tasks find what was brought."""

    #: More entries of sys.path; relative ones are below the working directory.
    python_path: tuple[str, ...] = ()
    #: The working directory of tasks on this machine; empty where they keep their own.
    working_directory: str = ""


def bring(spark: SparkHandle, configuration: Configuration) -> TaskPlaces:
    """Bring what a job's configuration names to the tasks of a session.

    Raises:
        ConfigurationError: A file does not exist or cannot be read, or packages cannot be installed.
        LocalDirectoryError: The temporary directory cannot be written.
    """
    _check_executable(spark, configuration)
    packages = [_installed(entry) for entry in configuration.get(PYTHON_REQUIREMENTS)]
    files = [_existing(PYTHON_FILES, path) for path in configuration.get(PYTHON_FILES)]
    archives = list(_archives(configuration))
    cached = list(_cached_files(configuration))
    if is_local(spark):
        entries = (*map(_importable, files), *packages)
        return TaskPlaces(tuple(map(str, entries)), _working_directory(archives, cached))
    folders = [folder for path in files for folder in ship(spark, _modules_of(path))]
    _check_unchanged(spark, archives, cached)
    for path, folder in archives:
        ship_archive(spark, path, folder)
    for path, name, executable in cached:
        ship_file(spark, path, name, executable=executable)
    return TaskPlaces((*folders, *(ship_archive(spark, _packed(path), path.name) for path in packages)))


#: What this process has brought to the working directories of executors: by application and name, which file it was.
_brought: Final[dict[tuple[str, str], tuple[object, ...]]] = {}


def _check_unchanged(
    spark: SparkHandle, archives: list[tuple[Path, str]], cached: list[tuple[Path, str, bool]]
) -> None:
    """Check that no name in the working directories gets another file than before.

    Spark takes a name once in an application: executors that have the file keep it, and new ones fetch the other.

    Raises:
        ConfigurationError: One does.
    """
    application = spark.session.sparkContext.applicationId or ""
    for path, folder in archives:
        status = path.stat()
        file = str(path.resolve()), status.st_size, status.st_mtime_ns
        for name in {folder, path.name}:
            _check_name(PYTHON_ARCHIVES, path, (application, name), file)
    for path, name, _ in cached:
        _check_name(CACHED_FILES, path, (application, name), (content_folder(path.read_bytes()),))


def _check_name(
    option: ConfigOption[tuple[str, ...]], path: Path, name: tuple[str, str], file: tuple[object, ...]
) -> None:
    if _brought.setdefault(name, file) != file:
        reason = (
            f"the executors of this Spark session already have another {name[1]!r}, and keep it: give the file another "
            "name, or, where it has changed since an earlier job, run this one in a new session"
        )
        raise ConfigurationError(option.key, str(path), reason)


def _check_executable(spark: SparkHandle, configuration: Configuration) -> None:
    wanted = configuration.get(PYTHON_EXECUTABLE)
    if wanted is None:
        return
    runs = spark.session.sparkContext.pythonExec
    if shutil.which(wanted) != shutil.which(runs):
        _log.warning(
            "%s = %s has no effect: the Spark session runs tasks with %s, and was there before.",
            *(PYTHON_EXECUTABLE.key, wanted, runs),
        )


def _existing(option: ConfigOption[tuple[str, ...]], path: str) -> Path:
    found = Path(path)
    if not found.exists():
        raise ConfigurationError(option.key, path, "it does not exist on this machine")
    return found


# ------------------------------------------------------------------------------------------------------------- modules


def _importable(path: Path) -> Path:
    """Return what tasks on this machine put on sys.path: folders and zips as they are, one module as a zip of it."""
    if path.is_dir() or path.suffix in _PACKED:
        return path
    content = zipped({path.stem: path})
    if content is None:
        raise ConfigurationError(PYTHON_FILES.key, str(path), "it is no module, zip, egg, wheel or folder")
    module = content_folder(content) / f"{path.stem}.zip"
    module.write_bytes(content)
    return module


def _modules_of(path: Path) -> dict[str, Path]:
    """Return the modules and packages that a file or folder brings, by name."""
    if path.suffix in _PACKED and path.is_file():
        unpacked = content_folder(path.read_bytes())
        shutil.unpack_archive(path, unpacked, "zip")
        path = unpacked
    if path.is_file():
        return {path.stem: path}
    found = (inner for inner in sorted(path.iterdir()) if inner.is_dir() or inner.suffix == ".py")
    return {inner.stem: inner for inner in found}


# ------------------------------------------------------------------------------------------------------------ packages


def _installed(entry: str) -> Path:
    """Install the packages of a requirements file into a folder of this process, once."""
    path, _, cache = entry.partition(BEHIND_PATH)
    requirements = _existing(PYTHON_REQUIREMENTS, path)
    folder = content_folder(f"{entry}\n".encode() + requirements.read_bytes())
    done = folder.with_suffix(".done")
    if done.exists():
        return folder
    offline = ["--no-index", "--find-links", cache] if cache else []
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = [*offline, "--target", str(folder), "--upgrade", "--requirement", str(requirements)]
    _log.info("Installing the packages of %s for the tasks.", requirements)
    try:
        ran = subprocess.run([*command, *options], capture_output=True, text=True, timeout=_PIP_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(
            PYTHON_REQUIREMENTS.key, path, f"pip took more than {_PIP_TIMEOUT_S} seconds"
        ) from error
    if ran.returncode != 0:
        said = (ran.stderr.strip() or ran.stdout.strip() or "nothing").splitlines()[-1]
        raise ConfigurationError(PYTHON_REQUIREMENTS.key, path, f"pip could not install its packages: {said}")
    done.touch()
    return folder


def _packed(folder: Path) -> Path:
    """Return a zip of a folder."""
    return Path(shutil.make_archive(str(folder), "zip", folder))


# -------------------------------------------------------------------------------------------------- archives and files


def _archives(configuration: Configuration) -> Iterator[tuple[Path, str]]:
    """Yield the archives, each with its folder in the working directory."""
    for entry in configuration.get(PYTHON_ARCHIVES):
        path, _, folder = entry.partition(BEHIND_PATH)
        yield _existing(PYTHON_ARCHIVES, path), folder or Path(path).name


def _cached_files(configuration: Configuration) -> Iterator[tuple[Path, str, bool]]:
    """Yield the registered files, each with its name in the working directory, and whether it can be run."""
    for entry in configuration.get(CACHED_FILES):
        try:
            parts = MAP.parse(entry)
            path, name = parts["path"].strip("'"), parts["name"].strip("'")
        except (KeyError, ValueError):
            reason = "each entry is name:NAME,path:PATH and may have executable:true"
            raise ConfigurationError(CACHED_FILES.key, entry, reason) from None
        yield _existing(CACHED_FILES, path), name, parts.get("executable", "false") == "true"


def _working_directory(archives: list[tuple[Path, str]], cached: list[tuple[Path, str, bool]]) -> str:
    """Make the working directory of one job's tasks on this machine; without anything in it there is none."""
    if not archives and not cached:
        return ""
    home = Path(tempfile.mkdtemp(prefix="job-", dir=process_folder()))
    for path, folder in archives:
        try:
            shutil.unpack_archive(path, home / folder, filter=None if path.suffix == ".zip" else "data")
        except (shutil.ReadError, tarfile.TarError, ValueError, OSError) as error:
            raise ConfigurationError(PYTHON_ARCHIVES.key, str(path), f"it cannot be unpacked: {error}") from error
    for path, name, executable in cached:
        shutil.copyfile(path, home / name)
        (home / name).chmod(0o700 if executable else 0o600)
    return str(home)
