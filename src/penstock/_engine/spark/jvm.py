"""The JVM of a Spark session of our own: started with its noise in a file, ended with its files gone.

Called by the session. What a JVM inherits from its environment is fixed here and put back at once, so the program's own
environment is as it was.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pyspark
from pyspark.conf import SparkConf
from pyspark.core.context import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway  # pyright: ignore[reportUnknownVariableType]  # it has no annotations

from penstock._engine.spark import installation
from penstock._engine.spark.directories import RunDirectory
from penstock._engine.spark.java import find_java
from penstock.errors import SparkLaunchError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from py4j.java_gateway import JavaGateway

log = logging.getLogger(__name__)

_END_TIMEOUT_S = 10

#: Everything into one file that does not grow for ever, nothing to the console.
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
# Says at every start that there is no native Hadoop library, which nobody here needs.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


#: The JVM only moves blocks, so the second compiler earns nothing: it took half of a short job's processor time. A
#: block is a large array, which G1 handles as an exception and the parallel collector does not.
_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"


class Jvm:
    """One JVM that belongs to us.

    Args:
        conf: Spark's settings, without those that depend on where the JVM runs.
        log_level: The level of Spark's own log, a name that log4j knows.
        local_dir: Where Spark's temporary files go; None for ``SPARK_LOCAL_DIRS``, else the temporary directory.

    Raises:
        SparkSetupError: A subclass says what on this machine stands in the way.
    """

    def __init__(self, conf: Mapping[str, str], log_level: str, local_dir: Path | None) -> None:
        home = _check_machine()
        java = find_java(pyspark.__version__)
        self._run = RunDirectory(local_dir or _local_dir_of_environment())
        try:
            self.conf = self._complete(conf, log_level)
            self.gateway: JavaGateway = self._launch(
                # Spark takes its local directory from here before any setting.
                {"SPARK_HOME": str(home), "JAVA_HOME": str(java.home), "SPARK_LOCAL_DIRS": str(self._run.path)}
            )
        except BaseException:
            self._run.remove()
            raise
        log.debug("Spark %s on Java %s (%s), log in %s", pyspark.__version__, java.version, java.origin, self.log_file)

    @property
    def log_file(self) -> Path:
        """The file with all that the JVM and its Python workers print."""
        return self._run.log_file

    def end(self) -> None:
        """End the JVM and remove its files. Doing it twice does no harm."""
        process = cast("subprocess.Popen[bytes]", self.gateway.proc)  # pyright: ignore[reportUnknownMemberType]  # PySpark sets it
        with contextlib.suppress(Exception):  # py4j raises many types on a JVM that is already gone
            self.gateway.shutdown()
        if process.stdin:
            process.stdin.close()  # the JVM ends by itself when this pipe does, also when we are killed
        try:
            process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if SparkContext._gateway is self.gateway:
            SparkContext._gateway = SparkContext._jvm = None
        self._run.remove()

    def _complete(self, conf: Mapping[str, str], log_level: str) -> SparkConf:
        """Return the settings, completed with those that name files of this run."""
        run = self._run.path
        log4j = run / "log4j2.properties"
        log4j.write_text(_LOG4J.format(level=log_level.lower(), file=self.log_file))
        complete = SparkConf(loadDefaults=False)
        complete.setAll(list(conf.items()))
        complete.set("spark.sql.warehouse.dir", str(run / "warehouse"))
        complete.set("spark.driver.extraJavaOptions", f"{_JAVA_OPTIONS} -Dlog4j2.configurationFile={log4j.as_uri()}")
        return complete

    def _launch(self, environment: Mapping[str, str]) -> JavaGateway:
        with self.log_file.open("ab") as output, launch_environment(environment):
            try:
                return launch_gateway(self.conf, {"stdout": output, "stderr": output})
            except (OSError, PySparkRuntimeError) as error:
                reason = _telling_line(self.log_file) or str(error)
                raise SparkLaunchError(reason, str(self.log_file)) from error


@contextlib.contextmanager
def launch_environment(environment: Mapping[str, str]) -> Generator[None]:
    """Give ``os.environ`` what a JVM of ours and its workers must inherit, until the block ends.

    Args:
        environment: Further variables to set.
    """
    library = str(Path(__file__).parents[3])  # where tasks import Penstock from, however this process found it
    wanted: dict[str, str | None] = {
        **environment,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": _appended(os.environ.get("PYTHONPATH", ""), library),
        # Spark's launch script is for bash and calls env, bash and dirname.
        "PATH": _appended(os.environ.get("PATH", ""), "/usr/bin", "/bin") if os.name == "posix" else os.environ["PATH"],
        # Else Spark resolves the name of the host, which fails on some machines.
        "SPARK_LOCAL_IP": installation.LOOPBACK,
        "SPARK_LOCAL_HOSTNAME": None,  # would win over that
    }
    before = {name: os.environ.get(name) for name in wanted}
    _update(wanted)
    try:
        yield
    finally:
        _update(before)


def _check_machine() -> Path:
    """Return the home of the Spark to start.

    Raises:
        SparkSetupError: Something stands in the way.
    """
    package = Path(pyspark.__file__).parent
    home = installation.spark_home(package, pyspark.__version__)
    installation.warn_of_second_pyspark(package)
    installation.quieten_pandas()
    installation.require_loopback()
    return home


def _local_dir_of_environment() -> Path | None:
    """Return the first disk that ``SPARK_LOCAL_DIRS`` names."""
    first = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    return Path(first) if first else None


def _telling_line(log_file: Path) -> str:
    """Return the line of a failed start that says most: the first with an error, else the last."""
    lines = [line.strip() for line in log_file.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "exception" in line.lower()]
    return (telling or lines[-1:] or [""])[0]


def _appended(path: str, *entries: str) -> str:
    """Return a search path with those entries appended that it lacks."""
    parts = [part for part in path.split(os.pathsep) if part]
    return os.pathsep.join([*parts, *(entry for entry in entries if entry not in parts)])


def _update(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
