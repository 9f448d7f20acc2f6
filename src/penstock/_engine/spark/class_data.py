"""The class data archive of Spark's JVM: parsed classes that later starts map into memory.

Called by the JVM's start and end, and by ``penstock doctor``. The first run of a pair of Java and PySpark lists the
classes that it loads; after its end ``archive_maker`` makes the archive in the user's cache. A damaged or missing
archive costs the time that it would save, and nothing else (decision 30).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock._engine.spark import archive_maker
from penstock._engine.spark.directories import private_directory
from penstock._engine.spark.java import user_cache
from penstock.errors import LocalDirectoryError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.spark.java import Java

log = logging.getLogger(__name__)

#: A part of the names of archives: archives of another format are not used.
_FORMAT: Final = 2
#: What else than its own jars gets into the class path of Spark's JVM, see Spark's AbstractCommandBuilder.
_CLASS_PATHS: Final = (
    *("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_PREPEND_CLASSES", "SPARK_TESTING"),
    *("HADOOP_CONF_DIR", "YARN_CONF_DIR"),
)
#: The time after a failure until a run tries again.
_FAILURE_HOLDS_S: Final = 7 * 86_400


@dataclass(frozen=True, slots=True)
class ClassDataArchive:
    """The archive of one pair of Java and PySpark, which need not exist.

    Attributes:
        directory: The directory of the archive and of the files to make it, which only this user can enter.
    """

    directory: Path

    @property
    def path(self) -> Path:
        """The archive's file."""
        return self.directory / archive_maker.ARCHIVE

    @property
    def is_ready(self) -> bool:
        """Whether it exists and is unchanged since it was made."""
        return archive_maker.is_whole(self.directory)

    @property
    def failure(self) -> str | None:
        """The reason why it could not be made, until a run tries again; None without a failure."""
        noted = self.directory / archive_maker.FAILURE
        try:
            return noted.read_text(encoding="utf-8") if noted.stat().st_mtime > time.time() - _FAILURE_HOLDS_S else None
        except OSError:
            return None

    def use(self) -> list[str]:
        """Return the options of a JVM that uses the archive, its class path among them."""
        with contextlib.suppress(OSError):
            os.utime(self.directory)  # archives that are not used for long are removed
        class_path = f"@{self.directory / archive_maker.CLASS_PATH}"
        return [class_path, f"-XX:SharedArchiveFile={self.path}", "-Xlog:cds*=off", "-Xlog:class+path=off"]

    def new_list(self) -> Path:
        """Return a file for the names of the classes that a JVM loads."""
        return self.directory / f"{archive_maker.LIST}{secrets.token_hex(8)}"

    def make(self, java: str, class_path: str, class_list: Path) -> None:
        """Start making the archive in a process that continues when this one has ended; never raises.

        Args:
            java: The Java that ran.
            class_path: The class path of that Java.
            class_list: The file with their names.
        """
        maker = [sys.executable, "-I", "-S", archive_maker.__file__, str(self.directory), java, class_list.name]
        silent = subprocess.DEVNULL
        try:
            process = subprocess.Popen(
                maker, stdin=subprocess.PIPE, stdout=silent, stderr=silent, text=True, start_new_session=True
            )
            assert process.stdin is not None
            with process.stdin:
                process.stdin.write(class_path)
        except (OSError, RuntimeError):
            log.debug("the class data archive is not made", exc_info=True)
        else:
            _reap(process)


def find_archive(java: Java, spark_home: Path, environ: Mapping[str, str] = os.environ) -> ClassDataArchive | None:
    """Return the archive of a Java and a Spark in this user's cache; None where there is no place for it.

    Args:
        java: The Java that runs Spark.
        spark_home: The Spark, with its jars.
        environ: The environment to look in.
    """
    if sys.platform == "win32":
        return None
    jars = spark_home / "jars"
    try:
        core = [jar.name for jar in jars.glob("spark-core_*")]
        pair = (
            _FORMAT,
            str(java.home),
            java.version,
            _written(java.home / "bin" / "java"),
            str(jars),
            _written(jars),
            core,
            [environ.get(name) for name in _CLASS_PATHS],
            _defaults(spark_home, environ),
        )
        name = f"classes-{hashlib.sha256(json.dumps(pair).encode()).hexdigest()[:16]}"
        return ClassDataArchive(private_directory(private_directory(user_cache(environ) / "penstock") / name))
    except (OSError, LocalDirectoryError):
        log.debug("no place for a class data archive", exc_info=True)
        return None


def _defaults(spark_home: Path, environ: Mapping[str, str]) -> str | None:
    """Return the defaults of Spark's settings, one of which adds to the class path; None without any."""
    defaults = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf") / "spark-defaults.conf"
    return defaults.read_text(encoding="utf-8", errors="replace") if defaults.is_file() else None


def _reap(process: subprocess.Popen[str]) -> None:
    """Take the exit code of a process that may outlive this one, so that it does not stay as a zombie."""
    try:
        threading.Thread(target=process.wait, name="penstock-class-data", daemon=True).start()
    except RuntimeError:  # this process ends
        process.returncode = 0


def quoted(options: list[str]) -> str:
    """Return options of Java as one setting of Spark, which splits it at blanks."""
    return " ".join('"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"' for option in options)


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns
