"""Flink's own command line: where it is, and how it is called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._engine.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = "2.3.0"
_ROOT = Path(__file__).resolve().parents[3]


def flink_home() -> Path | None:
    """Return the directory of an installed `apache-flink`, None where there is none.

    ``FLINK_HOME`` comes first, then the environment of the benchmarks, then one that `install` has made.
    """
    given = os.environ.get("FLINK_HOME")
    places = [Path(given)] if given else []
    for environment in (_ROOT / ".bench" / "venv-pyflink", _own_environment()):
        places += sorted(environment.glob("lib/python3.*/site-packages/pyflink"))
    return next((place for place in places if (place / "bin" / "flink").is_file()), None)


def _own_environment() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "penstock-tests" / f"flink-{_VERSION}"


def install() -> Path:
    """Install Flink into an environment outside of this repository; 300 MB, some minutes."""
    place = _own_environment()
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    # Its dependencies are Python's: the command line needs the jars alone.
    packages = [f"apache-flink=={_VERSION}", f"apache-flink-libraries=={_VERSION}"]
    subprocess.run([place / "bin" / "pip", "install", "--quiet", "--no-deps", *packages], check=True)
    home = flink_home()
    assert home is not None
    return home


def flink(
    home: Path, address: str, *arguments: str, place: Path, more: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Call Flink's command line; returns its exit code and what it printed.

    Args:
        home: Where Flink is.
        address: Where the job is: "host:port".
        arguments: The command and its arguments.
        place: A directory for its logs.
        more: Variables of its environment.
    """
    command, *rest = arguments
    environment = {
        **os.environ,
        "FLINK_HOME": str(home),
        "FLINK_CONF_DIR": str(home / "conf"),
        "FLINK_LOG_DIR": str(place),
        "JAVA_HOME": str(find_java("4.3.0").home),
        **(more or {}),
    }
    done = subprocess.run(
        [home / "bin" / "flink", command, "-m", address, *rest],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    print(install())  # noqa: T201 - a tool for whoever wants to run the tests marked flink
