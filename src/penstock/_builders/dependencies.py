"""The dependencies of functions: modules, packages, archives, files, and the Python interpreter of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.paths import absolute_path, scheme_of
from penstock.common.task_options import (
    BEHIND_PATH,
    CACHED_FILES,
    PYTHON_ARCHIVES,
    PYTHON_EXECUTABLE,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
)
from penstock.errors import PathError

if TYPE_CHECKING:
    from penstock.common.config_options import ConfigOption
    from penstock.common.configuration import Configuration


class Dependencies:
    """The methods of an environment that add dependencies for tasks; they set keys of its configuration."""

    _configuration: Configuration

    def add_python_file(self, file_path: str) -> None:
        """Let functions import from a file or folder where they run.

        Args:
            file_path: A module (``.py``), a zip, egg or wheel of pure Python, or a folder in which modules and packages
                are.

        Raises:
            PathError: There is no such file or folder on this machine.
        """
        self._add(PYTHON_FILES, _existing(file_path))

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack an archive in the working directory of the tasks.

        Args:
            archive_path: A ``.zip``, ``.tar``, ``.tar.gz``, ``.tgz``, ``.tar.bz2`` or ``.tar.xz``.
            target_dir: The folder in the working directory; the archive's file name when left out.

        Raises:
            PathError: There is no such file on this machine, or the folder is not below the working directory.
        """
        path = _existing(archive_path)
        if target_dir is None:
            self._add(PYTHON_ARCHIVES, path)
            return
        if Path(target_dir).is_absolute() or ".." in Path(target_dir).parts:
            raise PathError(target_dir, "an archive is unpacked in a folder below the tasks' working directory")
        self._add(PYTHON_ARCHIVES, f"{path}{BEHIND_PATH}{target_dir}")

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Install packages for the tasks when the job starts, by pip on this machine.

        On other machines they have to run the same platform and Python as this one.

        Args:
            requirements_file_path: A requirements file of pip.
            requirements_cache_dir: A folder of packages to install from, without asking an index.

        Raises:
            PathError: One of them does not exist on this machine.
        """
        paths = [_existing(requirements_file_path)]
        if requirements_cache_dir is not None:
            paths.append(_existing(requirements_cache_dir))
        self._configuration.set(PYTHON_REQUIREMENTS, (BEHIND_PATH.join(paths),))

    def set_python_executable(self, python_exec: str) -> None:
        """Set the Python that runs tasks in a Spark session that Penstock starts; it needs Penstock and its packages.

        A running session keeps its interpreter, and the log says so.

        Args:
            python_exec: The path of the interpreter, or its name on PATH.
        """
        self._configuration.set(PYTHON_EXECUTABLE, python_exec)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Put a file into the working directory of the tasks.

        Args:
            file_path: The file, on this machine.
            name: Its name there.
            executable: Whether tasks may run it.

        Raises:
            PathError: The file does not exist, or the name is no file name.
        """
        if name in ("", ".", "..") or set(name) & set("/\\,;"):
            raise PathError(name, "a registered file has the name of a file: no folder, comma or semicolon")
        entry = f"name:{name},path:{_existing(file_path)},executable:{str(executable).lower()}"
        self._configuration.set(CACHED_FILES, (*self._configuration.get(CACHED_FILES), entry))

    def _add(self, option: ConfigOption[tuple[str, ...]], path: str) -> None:
        self._configuration.set(option, (*self._configuration.get(option), path))


def _existing(path: str) -> str:
    """Return the one spelling of a path that exists on this machine."""
    found = absolute_path(path)
    if scheme_of(found):
        raise PathError(path, "what tasks import or open is brought from this machine; name a local path")
    if BEHIND_PATH in found:
        raise PathError(path, f"{BEHIND_PATH} stands for what belongs to a path; give it another name")
    if not Path(found).exists():
        raise PathError(path, "it does not exist on this machine")
    return found
