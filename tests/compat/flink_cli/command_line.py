"""Flink's own programs: where they are, and how they are called."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.services.tools import FLINK

from penstock._engine.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping

JARS: Final = FLINK / "pyflink" / "lib"
#: What Flink's script `bin/flink` starts once it has put the class path together; pip's package has the jars alone.
_MAIN: Final = "org.apache.flink.client.cli.CliFrontend"
#: For a JVM that lives for a second.
SHORT: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def flink_is_here() -> bool:
    """Tell whether Flink's jars are there."""
    return any(JARS.glob("flink-dist-*.jar"))


def java() -> Path:
    """Return the Java that Spark runs on; Flink's programs run on it as well."""
    return find_java("4.3.0").home / "bin" / "java"


@cache
def _directory() -> Path:
    made = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def _class_data() -> str:
    """Return the option that keeps the loaded classes of a first call, and shows them to all later ones."""
    archive = _directory() / "classes.jsa"
    return f"-XX:SharedArchiveFile={archive}" if archive.is_file() else f"-XX:ArchiveClassesAtExit={archive}"


def flink(address: str, *arguments: str, place: Path, more: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Call Flink's command line; returns its exit code and what it printed.

    Args:
        address: Where the job is: "host:port".
        arguments: The command and its arguments.
        place: A directory for its configuration, which is empty.
        more: Variables of its environment.
    """
    command, *rest = arguments
    (place / "config.yaml").touch()
    done = subprocess.run(
        [java(), *SHORT, _class_data(), "-classpath", f"{JARS}/*", _MAIN, command, "-m", address, *rest],
        env={**os.environ, "FLINK_CONF_DIR": str(place), **(more or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
