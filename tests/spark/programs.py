"""Runs a program in a Python of its own: what happens to a whole process cannot be tested from inside one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
from tests.kit.exchange import VARIABLES, is_pipelined

from penstock._engine.spark.java import find_java, user_cache

SOURCES = Path(__file__).parents[2] / "src"


def environment(home: Path, **variables: str) -> dict[str, str]:
    """An environment with nothing of this machine's in it but its cache, not even a PATH with programs."""
    return {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(user_cache()),  # the class data archive is the same, and is made once
        "TMPDIR": str(home),
        "PATH": str(home / "bin"),
        "PYTHONPATH": str(SOURCES),
        **(VARIABLES if is_pipelined() else {}),
        **variables,
    }


def java_environment(home: Path) -> dict[str, str]:
    """The same with the Java that the library would take here, for programs that start Spark themselves."""
    java = find_java(pyspark.__version__)
    # Spark's launch script calls env, bash and dirname.
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/bin", "/bin"])
    return environment(home, PATH=path, JAVA_HOME=str(java.home))


def start(program: str, env: dict[str, str]) -> subprocess.Popen[str]:
    """Start a program; what it prints can be read line by line."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(program: str, env: dict[str, str]) -> tuple[str, str]:
    """Run a program to its end; answers what it printed, and what it printed as errors."""
    with start(program, env) as process:
        printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return printed, errors
