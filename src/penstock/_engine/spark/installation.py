"""Checks, before the JVM starts, which Spark the imported ``pyspark`` uses, and whether it can run on this machine.

Called by the session. An unusable installation raises; a merely confusing one is a line in the log.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import LoopbackError, PySparkVersionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"

_OLDEST_PYSPARK = (4, 1)
_NEXT_PYSPARK = (5,)

#: Distributions that write into the same ``pyspark`` directory as the distribution of that name.
_OVERLAYS = ("pyspark-client", "pyspark-connect", "databricks-connect")


def spark_home(package: Path, version: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the Spark whose jars belong to the imported ``pyspark``.

    PySpark from pip contains its jars. Only where it has none, as in the ``python`` directory of an unpacked Spark,
    ``SPARK_HOME`` is used.

    Args:
        package: The directory of the imported ``pyspark`` package.
        version: Its version.
        environ: The environment to look in.

    Raises:
        PySparkVersionError: The version is not supported, or there are no jars of that version.
    """
    if not _OLDEST_PYSPARK <= _numbers(version) < _NEXT_PYSPARK:
        needed = f"Penstock needs PySpark {_OLDEST_PYSPARK[0]}.{_OLDEST_PYSPARK[1]} or newer, below {_NEXT_PYSPARK[0]}"
        raise PySparkVersionError(f"PySpark {version} is imported from {package}", needed)
    named = Path(environ["SPARK_HOME"]) if environ.get("SPARK_HOME") else None
    homes = [home for home in (package, named) if home and (home / "jars").is_dir()]
    if not homes:
        needed = "it comes without Spark's jars, and SPARK_HOME names no directory that has them"
        raise PySparkVersionError(f"PySpark {version} is imported from {package}", needed)
    home = homes[0]
    if (jars := jar_version(home)) != version:
        needed = f"Spark's jars in {home / 'jars'} are version {jars or 'unknown'}"
        raise PySparkVersionError(f"PySpark {version} is imported from {package}", needed)
    if named and named.resolve() != home.resolve():
        log.warning(
            "SPARK_HOME=%s (Spark %s) is not used: the imported PySpark %s brings its own Spark.",
            named,
            jar_version(named) or "of unknown version",
            version,
        )
    return home


def jar_version(home: Path) -> str | None:
    """Return the version of the Spark in a directory, by the name of its core jar."""
    for jar in (home / "jars").glob("spark-core_*.jar"):
        return jar.stem.partition("-core_")[2].partition("-")[2]
    return None


def warn_of_second_pyspark(
    package: Path, path: Iterable[str] | None = None, distributions: Iterable[str] | None = None
) -> None:
    """Log a warning when Python could import more than one PySpark.

    Args:
        package: The directory of the imported ``pyspark`` package.
        path: The module search path; ``sys.path`` by default.
        distributions: The names of the installed distributions, by default those of this environment.
    """
    imported = package.resolve()
    found = [Path(entry) / "pyspark" for entry in (sys.path if path is None else path)]
    others = {other.resolve(): None for other in found if (other / "__init__.py").is_file()}
    others.pop(imported, None)
    for other in others:
        log.warning("There is a second PySpark in %s; the one in use is %s.", other, imported)
    installed = _installed(_OVERLAYS) if distributions is None else [d for d in distributions if d in _OVERLAYS]
    for name in installed:
        log.warning("The package %s overwrites files of pyspark: uninstall both, then install pyspark alone.", name)


def require_loopback(address: str = LOOPBACK) -> None:
    """Check that a port can be opened on the loopback address.

    Raises:
        LoopbackError: No port can be opened.
    """
    try:
        with socket.create_server((address, 0)):
            pass
    except OSError as error:
        raise LoopbackError(address, error.strerror or str(error)) from error


def _installed(names: Iterable[str]) -> list[str]:
    """Return the installed distributions among ``names``."""
    found: list[str] = []
    for name in names:
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        found.append(name)
    return found


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``4.2.0.dev1`` is (4, 2, 0)."""
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
