"""The JVM of Penstock's own Spark session: its output is written to a file, and its files are deleted at its end.

Called by the session. The JVM runs below a keeper, in a process session of their own (decision 16). What it inherits
from its environment is fixed here and put back at once, so the program's own environment is as it was.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import struct
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pyspark
from pyspark.conf import SparkConf
from pyspark.core.context import SparkContext
from pyspark.java_gateway import launch_gateway  # pyright: ignore[reportUnknownVariableType]  # it has no annotations

from penstock._engine.spark import installation, keeper
from penstock._engine.spark.class_data import find_archive, quoted
from penstock._engine.spark.directories import RunDirectory
from penstock._engine.spark.java import find_java
from penstock.errors import SparkLaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from py4j.java_gateway import JavaGateway

log = logging.getLogger(__name__)

#: The time in which the keeper ends the JVM and its workers.
_END_TIMEOUT_S: Final = keeper.JVM_END_S + 2 * keeper.WORKERS_END_S + 3
_LOOK_S: Final = 0.02

#: Log to a file of limited size, and not to the console.
_LOG4J = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
# It warns at every start that the native Hadoop library is missing, which is not needed here.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


#: The JVM only moves blocks, so the second compiler earns nothing: it took half of a short job's processor time. A
#: block is a large array, which G1 handles as an exception and the parallel collector does not.
_JAVA_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseParallelGC")


class Jvm:
    """One JVM of Penstock's own.

    Args:
        conf: Spark's settings, without those that depend on where the JVM runs.
        log_level: The level of Spark's own log, a name that log4j knows.
        local_dir: The directory for Spark's temporary files; None for ``SPARK_LOCAL_DIRS``, else the temporary
            directory.
        archived: Whether it may use a class data archive, and make one where it is missing.

    Raises:
        SparkSetupError: Spark cannot start on this machine; the subclass names the reason.
    """

    def __init__(self, conf: Mapping[str, str], log_level: str, local_dir: Path | None, *, archived: bool) -> None:
        home = _check_machine()
        java = find_java(pyspark.__version__)
        self._archive = find_archive(java, home) if archived else None
        #: The file in which the JVM lists its classes; None if it does not.
        self._class_list: Path | None = None
        #: Starts making the archive, after the JVM that listed its classes has ended.
        self._make_archive: Callable[[], None] | None = None
        self._run = RunDirectory(local_dir or _local_dir_of_environment())
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.conf = self._complete(conf, log_level)
            # Spark takes its local directory from here before any setting.
            places = {"SPARK_HOME": str(home), "JAVA_HOME": str(java.home), "SPARK_LOCAL_DIRS": str(self._run.path)}
            with launch_environment(places):
                self._process = self._start(home)
                self.gateway: JavaGateway = self._connect(self._process)
            self._note_classes()
        except BaseException:
            self._kill()  # there is nothing to end cleanly yet, and Ctrl-C must work at once
            self._run.remove()
            raise
        log.debug("Spark %s on Java %s (%s), log in %s", pyspark.__version__, java.version, java.origin, self.log_file)

    @property
    def log_file(self) -> Path:
        """The file with the output of the JVM and its Python workers."""
        return self._run.log_file

    @property
    def pid(self) -> int:
        """The id of the keeper process, which leads the process session of all of Spark's processes."""
        assert self._process is not None
        return self._process.pid

    def end(self) -> None:
        """End the JVM and remove its files; a second call has no effect."""
        with contextlib.suppress(Exception):  # py4j raises many types if the JVM has already ended
            self.gateway.shutdown()
        if self._process is not None:
            if self._process.stdin:
                self._process.stdin.close()  # keeper and JVM then end by themselves, also after this process was killed
            try:
                self._process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._kill()
        if SparkContext._gateway is self.gateway:
            SparkContext._gateway = SparkContext._jvm = None
        self._run.remove()
        if self._make_archive is not None:
            self._make_archive()
            self._make_archive = None

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            if self._process.stdin:
                self._process.stdin.close()

    def _complete(self, conf: Mapping[str, str], log_level: str) -> SparkConf:
        """Return the settings with those that name files of this run."""
        run = self._run.path
        log4j = run / "log4j2.properties"
        log4j.write_text(_LOG4J.format(level=log_level.lower(), file=self.log_file))
        complete = SparkConf(loadDefaults=False)
        complete.setAll(list(conf.items()))
        complete.set("spark.sql.warehouse.dir", str(run / "warehouse"))
        sockets = self._run.socket_directory()
        # Over TCP each task waits for acknowledgements that are held back (decision 30).
        complete.set("spark.python.unix.domain.socket.enabled", str(sockets is not None).lower())
        if sockets is not None:
            complete.set("spark.python.unix.domain.socket.dir", str(sockets))
        options = [*_JAVA_OPTIONS, f"-Dlog4j2.configurationFile={log4j.as_uri()}", *self._archive_options()]
        complete.set("spark.driver.extraJavaOptions", quoted(options))
        return complete

    def _archive_options(self) -> list[str]:
        """Return the options with which the JVM uses the class data archive, or lists its classes to make one."""
        if self._archive is None:
            return []
        if self._archive.is_ready:
            return self._archive.use()
        if self._archive.failure is not None:
            return []
        self._class_list = self._archive.new_list()
        return [f"-XX:DumpLoadedClassList={self._class_list}"]

    def _note_classes(self) -> None:
        """Note the data for making the archive, while the JVM is alive."""
        if self._archive is None or self._class_list is None:
            return
        system = cast("Any", self.gateway.jvm).java.lang.System
        home, class_path = Path(system.getProperty("java.home")), system.getProperty("java.class.path")
        self._make_archive = partial(self._archive.make, str(home / "bin" / "java"), class_path, self._class_list)

    @property
    def _connection(self) -> Path:
        """The file in which the JVM writes its address."""
        return self._run.path / "gateway"

    def _start(self, home: Path) -> subprocess.Popen[bytes]:
        """Start the JVM under its keeper, as PySpark starts it, but in a process session of its own."""
        settings = [word for key, value in self.conf.getAll() for word in ("--conf", f"{key}={value}")]
        arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        command = [str(home / "bin" / "spark-submit"), *settings, *arguments]
        told = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection), "SPARK_CONNECT_MODE": "0"}
        with self.log_file.open("ab") as output:
            try:
                return subprocess.Popen(
                    [sys.executable, "-I", "-S", keeper.__file__, str(os.getpid()), *command],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, **told},
                    start_new_session=True,
                )
            except OSError as error:
                raise SparkLaunchError(str(error), str(self.log_file)) from error

    def _connect(self, process: subprocess.Popen[bytes]) -> JavaGateway:
        """Wait until the JVM can be reached, and connect to it."""
        while process.poll() is None and not self._connection.is_file():
            time.sleep(_LOOK_S)
        if not self._connection.is_file():
            reason = _telling_line(self.log_file) or f"it ended with code {process.returncode}"
            raise SparkLaunchError(reason, str(self.log_file))
        port, length = struct.unpack(">ii", (told := self._connection.read_bytes())[:8])
        # PySpark's way to an existing JVM; spark-submit passes the same to a program.
        with _environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": told[8 : 8 + length].decode()}):
            return launch_gateway()


@contextlib.contextmanager
def launch_environment(environment: Mapping[str, str]) -> Generator[None]:
    """Set the variables in ``os.environ`` that our JVM and its workers inherit, until the block ends.

    Args:
        environment: Further variables to set.
    """
    library = str(Path(__file__).parents[3])  # where tasks import Penstock from, however this process found it
    wanted: dict[str, str | None] = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **environment,
        "PYTHONPATH": _appended(os.environ.get("PYTHONPATH", ""), library),
        # Spark's launch script is for bash and calls env, bash and dirname.
        "PATH": _appended(os.environ.get("PATH", ""), "/usr/bin", "/bin") if os.name == "posix" else os.environ["PATH"],
        # Else Spark resolves the name of the host, which fails on some machines.
        "SPARK_LOCAL_IP": installation.LOOPBACK,
        "SPARK_LOCAL_HOSTNAME": None,  # would take precedence
    }
    with _environment(wanted):
        yield


@contextlib.contextmanager
def _environment(variables: Mapping[str, str | None]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in variables}
    _update(variables)
    try:
        yield
    finally:
        _update(before)


def _check_machine() -> Path:
    """Return the home of the Spark to start.

    Raises:
        SparkSetupError: Spark cannot start on this machine.
    """
    package = Path(pyspark.__file__).parent
    home = installation.spark_home(package, pyspark.__version__)
    installation.warn_of_second_pyspark(package)
    installation.require_loopback()
    return home


def _local_dir_of_environment() -> Path | None:
    """Return the first disk that ``SPARK_LOCAL_DIRS`` names."""
    first = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return Path(first) if first else None


def _telling_line(log_file: Path) -> str:
    """Return the most informative log line of a failed start: the first with an error, else the last."""
    lines = [line.strip() for line in log_file.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "exception" in line.lower()]
    return (telling or lines[-1:] or [""])[0]


def _appended(path: str, *entries: str) -> str:
    """Return a search path with missing entries appended."""
    parts = [part for part in path.split(os.pathsep) if part]
    return os.pathsep.join([*parts, *(entry for entry in entries if entry not in parts)])


def _update(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
