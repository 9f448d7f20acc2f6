"""One virtual environment per competitor, made on first use in .bench/ from benchmarks/requirements-*.txt."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
CACHE = PROJECT / ".bench"
PYTHONS = {
    "pyflink": ((3, 9), (3, 12)),
    "bytewax": ((3, 9), (3, 12)),
    "pyspark": ((3, 10), (3, 13)),
    "rocksdict": ((3, 9), (3, 13)),
}
FLINK_JAVA = range(11, 22)
INSTALL_TIMEOUT_S = 1_200


class UnavailableError(Exception):
    """A system that cannot run here, with the reason for the report."""


@dataclass(frozen=True, slots=True)
class Environment:
    """How to start a program of one system."""

    python: Path
    variables: dict[str, str]
    versions: str


def prepare(system: str) -> Environment:
    """Return the environment of a system, making it when it is not there yet or its pins have changed."""
    if system == "penstock":
        return _penstock()
    if system == "plain":
        python = Path(sys.executable)
        return Environment(python, {}, f"plain Python {_python_version(python)}")
    folder = CACHE / f"venv-{system}"
    python = folder / "bin" / "python"
    pins = HERE / f"requirements-{system}.txt"
    mark = folder / "pins.sha256"
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()
    if not mark.exists() or mark.read_text() != digest:
        _install(system, folder, pins)
        mark.write_text(digest)
    variables = {"PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}", "PYSPARK_PYTHON": str(python)}
    java = ""
    if system == "pyflink":
        # The interpreter embedded in the JVM (thread mode) does not look into a virtual environment by itself.
        variables["PYTHONPATH"] = _answer(python, "import sysconfig; print(sysconfig.get_path('purelib'))")
        java = f", Java {_flink_java()}"
    return Environment(python, variables, f"{_version(python, system)}, Python {_python_version(python)}{java}")


def _penstock() -> Environment:
    python = Path(sys.executable)
    source = str(PROJECT / "src")
    try:
        version = _answer(python, "import penstock; print(penstock.__version__)", {"PYTHONPATH": source})
    except subprocess.SubprocessError as error:
        reason = f"penstock cannot be imported by {python}"
        raise UnavailableError(reason) from error
    spark = _version(python, "pyspark")
    return Environment(python, {"PYTHONPATH": source}, f"penstock {version}, {spark}, Python {_python_version(python)}")


def _install(system: str, folder: Path, pins: Path) -> None:
    python = _find_python(system)
    print(f"Installing {system} for {python} into {folder} …", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        subprocess.run([python, "-m", "venv", folder], check=True, capture_output=True, text=True)
        subprocess.run(
            [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--requirement", pins],
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        reason = f"could not be installed: {last}"
        raise UnavailableError(reason) from error
    except subprocess.TimeoutExpired as error:
        reason = f"could not be installed within {INSTALL_TIMEOUT_S} s"
        raise UnavailableError(reason) from error


def _find_python(system: str) -> Path:
    """Find a Python the system has wheels for: the one that runs this, on the PATH, or from pyenv, newest first."""
    oldest, newest = PYTHONS[system]
    if oldest <= sys.version_info[:2] <= newest:
        return Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(newest[1], oldest[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        candidates = ([Path(found)] if found else []) + sorted(pyenv.glob(f"3.{minor}.*/bin/python"), reverse=True)
        for candidate in candidates:
            if subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
                return candidate
    reason = f"needs Python 3.{oldest[1]} to 3.{newest[1]}, none was found"
    raise UnavailableError(reason)


def _flink_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        reason = "needs Java 11, 17 or 21 in JAVA_HOME or on the PATH, none was found"
        raise UnavailableError(reason) from error
    match = re.search(r'version "(\d+)[^"]*"', text)
    if match is None or int(match[1]) not in FLINK_JAVA:
        reason = f"needs Java 11, 17 or 21, found {text.splitlines()[0]}"
        raise UnavailableError(reason)
    return match[0].removeprefix("version ").strip('"')


def _version(python: Path, system: str) -> str:
    package = {"pyflink": "apache-flink"}.get(system, system)
    return f"{package} " + _answer(python, f"from importlib.metadata import version; print(version({package!r}))")


def _python_version(python: Path) -> str:
    return _answer(python, "import platform; print(platform.python_version())")


def _answer(python: Path, code: str, variables: dict[str, str] | None = None) -> str:
    return subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True, env={**os.environ, **(variables or {})}
    ).stdout.strip()
