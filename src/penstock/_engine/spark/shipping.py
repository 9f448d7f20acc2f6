"""Ships the user's own modules to workers on other machines; called once for each job.

Workers of a local session import modules from their files. On other machines they import them from an archive of the
job, with the modules and packages that the program has loaded from its own folders.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import shutil
import tempfile
import threading
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.spark.installation import LOOPBACK
from penstock._engine.storage.scratch import MODULES, ScratchDirectory
from penstock.common.process import at_exit
from penstock.errors import LocalDirectoryError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from penstock._engine.spark.session import SparkHandle

log = logging.getLogger(__name__)

#: Files by any other name are not imported from a zip.
_SOURCE: Final = ".py"
#: The time of all files, so that the same modules make the same zip.
_TIME: Final = (1980, 1, 1, 0, 0, 0)
#: A variable of workers, by which Spark keeps those of other modules apart.
_MODULES: Final = "PENSTOCK_MODULES"
#: The environment belongs to the SparkContext, and several jobs may begin at the same time.
_environment_lock: Final = threading.Lock()


def is_local(spark: SparkHandle) -> bool:
    """Return whether all workers of a session are on this machine."""
    return runs_here(spark.session)


def driver_addresses(spark: SparkHandle) -> tuple[str, str]:
    """Return the address at which tasks reach the driver, and the one at which that listens, as Spark has them."""
    if is_local(spark):
        return LOOPBACK, LOOPBACK
    conf = spark.session.sparkContext.getConf()
    host = conf.get("spark.driver.host", "")
    return host, conf.get("spark.driver.bindAddress", host)


def runs_here(session: SparkSession) -> bool:
    """Return whether all workers of a session of Spark are on this machine."""
    master = session.sparkContext.master or ""
    return master == "local" or master.startswith("local[")


def ship(spark: SparkHandle, modules: Mapping[str, Path]) -> tuple[str, ...]:
    """Let all workers of a session import modules of this machine.

    All tasks of the SparkContext can import them from a zip. Tasks of jobs import them from a folder, in which packages
    find their data files.

    Args:
        spark: The session.
        modules: The file of a module, or the folder of a package, by top-level name.

    Returns:
        The folder in the working directory of each executor; nothing without modules.

    Raises:
        LocalDirectoryError: The temporary directory cannot be written.
    """
    content = zipped(modules)
    if content is None:
        return ()
    context = spark.session.sparkContext
    # By its content: Spark takes a name once, and a job that is started again brings the same modules.
    folder = f"penstock-modules-{_digest(content)}"
    if f"{folder}.zip" not in (context._python_includes or ()):
        try:
            path = process_folder() / f"{folder}.zip"
            path.write_bytes(content)
        except OSError as error:
            raise LocalDirectoryError(tempfile.gettempdir(), error.strerror or str(error)) from error
        context.addPyFile(str(path))
        ship_archive(spark, path, folder)
        log.info("Shipped to the workers: %s (%d KB).", ", ".join(modules), len(content) >> 10)
    return (folder,)


@contextlib.contextmanager
def in_workers_of(spark: SparkHandle, python_path: Sequence[str]) -> Generator[None]:
    """Let the functions of this block run in Python processes in which no other code was imported before.

    A worker keeps the modules that it has imported, so a session on a cluster has others for each set of shipped
    modules: Spark keeps workers apart by their environment.

    Args:
        spark: The session.
        python_path: The entries of sys.path that tasks get.
    """
    shipped = [entry for entry in python_path if not Path(entry).is_absolute()]
    if not shipped:
        yield
        return
    environment = spark.session.sparkContext.environment
    with _environment_lock:
        environment[_MODULES] = " ".join(shipped)
        try:
            yield
        finally:
            del environment[_MODULES]


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

    An executor may come after weeks, so the folder is locked: cleaners of temporary directories pass over it.

    Raises:
        LocalDirectoryError: There is no temporary directory in which others cannot exchange it.
    """
    folder = ScratchDirectory(MODULES)
    at_exit(folder.remove)
    return folder.path


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
