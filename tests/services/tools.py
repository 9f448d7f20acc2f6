"""What tests need from the system: a browser, Flink's jars, a client of its REST, and servers of many kinds.

Each step says what it does, and a step that cannot be done stops nothing: the tests that need it are skipped, or say
why they fail. ``make test`` runs this first.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.services import kafka, postgres, s3, search
from tests.services.cache import ServiceError

ROOT: Final = Path(__file__).parents[2]
#: What a browser is looked for as; Debian's is the first.
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Flink's jars, as its Python package has them.
FLINK: Final = ROOT / ".flink"
FLINK_LOCK: Final = ROOT / "requirements" / "flink.txt"
#: flink-rest-client, aside: its wheel brings a package `tests`, which would hide ours.
FLINK_CLIENT: Final = ROOT / ".flink-client"
FLINK_CLIENT_LOCK: Final = ROOT / "requirements" / "flink-client.txt"
#: PyFlink itself, for the examples in it; nothing of it is imported.
PYFLINK: Final = ROOT / ".pyflink"
PYFLINK_LOCK: Final = ROOT / "requirements" / "pyflink.txt"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def browser() -> str | None:
    """Return the path of a browser on this machine."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def install_browser() -> None:
    """Install Debian's Chromium where that needs no question; elsewhere the tests that need one are skipped."""
    is_root_on_debian = Path("/etc/debian_version").is_file() and getattr(os, "geteuid", lambda: 1)() == 0
    if browser() or not is_root_on_debian or not shutil.which("apt-get"):
        return
    say("Installing Debian's chromium for the dashboard's tests: about 100 MB, this once.")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", "chromium"]):
        if subprocess.call(["/usr/bin/apt-get", *command], env=environment, stdout=subprocess.DEVNULL) != 0:
            say(f"apt-get {command[0]} failed; the tests that need a browser are skipped.")
            return


def install_flink(place: Path = FLINK, lock: Path = FLINK_LOCK) -> None:
    """Get Flink's jars where pip can; elsewhere the tests send what its command line sent when it was recorded."""
    _install_aside(place, lock, "Flink's jars for the tests of its command line: 330 MB")


def install_flink_client() -> None:
    """Get a Python client of Flink's REST API where pip can; elsewhere its tests are skipped."""
    _install_aside(FLINK_CLIENT, FLINK_CLIENT_LOCK, "flink-rest-client for its tests: 1 MB")


def install_pyflink() -> None:
    """Get PyFlink's examples where pip can; elsewhere the tests that run them are skipped."""
    _install_aside(PYFLINK, PYFLINK_LOCK, "PyFlink's examples for the tests of compatibility: 3 MB")


def _install_aside(place: Path, lock: Path, what: str) -> None:
    stamp, wanted = place / "made-from", hashlib.sha256(lock.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    say(f"Getting {what}, this once.")
    shutil.rmtree(place, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--no-cache-dir")
    options = ("--only-binary", ":all:", "--retries", "1", "--target", str(place), "--requirement", str(lock))
    if subprocess.call([*pip, *options]) == 0:
        stamp.write_text(wanted)
        return
    shutil.rmtree(place, ignore_errors=True)
    say("pip could not get them; the tests that need them are skipped.")


def install_s3() -> None:
    """Build the S3 server."""
    try:
        s3.binary()
    except ServiceError as error:
        say(f"The S3 server of the tests cannot be built; the tests that need it fail. {error}")


def install_postgres() -> None:
    """Get PostgreSQL."""
    try:
        postgres.programs()
    except ServiceError as error:
        say(f"PostgreSQL cannot be had for the tests of its connector; without CI they are skipped. {error}")


def install_kafka() -> None:
    """Get the jars of the Kafka server."""
    reason = kafka.why_missing()
    if reason is not None:
        say(f"{reason}; the tests that need it are skipped.")
        return
    try:
        kafka.jars()
    except ServiceError as error:
        say(f"Kafka's jars cannot be had; the tests that need them fail. {error}")


def install_search() -> None:
    """Get the jars of the search servers."""
    reason = search.why_missing()
    if reason is not None:
        say(f"{reason}; the tests that need them are skipped.")
        return
    for engine in (search.ELASTICSEARCH, search.OPENSEARCH):
        try:
            search.classes(engine)
        except ServiceError as error:
            say(f"The jars of {engine.name} cannot be had; the tests that need them fail. {error}")


if __name__ == "__main__":
    install_browser()
    install_flink()
    install_flink_client()
    install_pyflink()
    install_s3()
    install_postgres()
    install_kafka()
    install_search()
