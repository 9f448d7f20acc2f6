"""Ships the user's own modules to workers on other machines; called once for each job.

Workers of a local session import modules from their files. On other machines they import them from a zip of the job,
with the modules and packages that the program has loaded from its script's folder.
"""

from __future__ import annotations

import hashlib
import io
import logging
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.storage.scratch import temporary_directory
from penstock.common.process import at_exit
from penstock.errors import LocalDirectoryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from penstock._engine.spark.session import SparkHandle

log = logging.getLogger(__name__)

#: Files by any other name are not imported from a zip.
_SOURCE: Final = ".py"
#: The time of all files, so that the same modules make the same zip.
_TIME: Final = (1980, 1, 1, 0, 0, 0)


def is_local(spark: SparkHandle) -> bool:
    """Return whether all workers of a session are on this machine."""
    return runs_here(spark.session)


def runs_here(session: SparkSession) -> bool:
    """Return whether all workers of a session of Spark are on this machine."""
    master = session.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def ship(spark: SparkHandle, modules: Mapping[str, Path]) -> None:
    """Let all workers of a session import modules of this machine.

    Args:
        spark: The session; all tasks of its SparkContext can import them from now on.
        modules: The file of a module, or the folder of a package, by top-level name.

    Raises:
        LocalDirectoryError: The temporary directory cannot be written.
    """
    content = zipped(modules)
    if content is None:
        return
    context = spark.session.sparkContext
    # By its content: Spark takes a name once, and a job that is started again brings the same modules.
    name = f"penstock-modules-{_digest(content)}.zip"
    if name not in (context._python_includes or ()):
        try:
            path = process_folder() / name
            path.write_bytes(content)
        except OSError as error:
            raise LocalDirectoryError(tempfile.gettempdir(), error.strerror or str(error)) from error
        context.addPyFile(str(path))
        log.info("Shipped to the workers: %s.", ", ".join(modules))


def ship_archive(spark: SparkHandle, path: Path, folder: str) -> str:
    """Let an archive be unpacked in the working directory of each executor of a session.

    Args:
        spark: The session.
        path: The archive, as Spark takes it: zip, tar, tar.gz or tgz.
        folder: The folder that it is unpacked in.

    Returns:
        The folder.
    """
    spark.session.sparkContext.addArchive(f"{path}#{folder}")
    return folder


def ship_file(spark: SparkHandle, path: Path, name: str, *, executable: bool) -> None:
    """Put a file into the working directory of each executor of a session.

    Args:
        spark: The session.
        path: The file.
        name: Its name there.
        executable: Whether tasks may run it.
    """
    copied = content_folder(path.read_bytes()) / name
    shutil.copyfile(path, copied)
    copied.chmod(0o700 if executable else 0o600)
    spark.session.sparkContext.addFile(str(copied))


def content_folder(content: bytes) -> Path:
    """Return a folder of this process for what belongs to a content, the same one for the same content."""
    folder = process_folder() / _digest(content)
    folder.mkdir(exist_ok=True)
    return folder


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@cache
def process_folder() -> Path:
    """Return a folder that lives as long as this process, from which executors fetch files at their first use.

    Raises:
        LocalDirectoryError: There is no temporary directory in which others cannot exchange it.
    """
    folder = tempfile.mkdtemp(prefix="penstock-modules-", dir=temporary_directory())
    at_exit(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def zipped(modules: Mapping[str, Path]) -> bytes | None:
    """Return a zip of modules from which Python can import; None without modules."""
    buffer = io.BytesIO()
    empty = True
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in modules.items():
            for inner, file in _files(name, path):
                archive.writestr(zipfile.ZipInfo(inner, _TIME), file.read_bytes(), zipfile.ZIP_DEFLATED)
                empty = False
    return None if empty else buffer.getvalue()


def _files(name: str, path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a module or package, with their names in the zip."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield f"{name}/{file.relative_to(path).as_posix()}", file
    elif path.suffix == _SOURCE:
        yield f"{name}{_SOURCE}", path
    else:
        log.warning("Module %s is compiled (%s) and cannot be shipped: install it where the tasks run.", name, path)
