"""Starts every chore of this repository: ``python3 dev.py help`` lists them. Needs nothing but Python.

The first call makes a virtual environment in ``.venv`` from the lock in ``requirements/``; the next ones find it done.
What the chores do stands in pyproject.toml, as tasks of Poe the Poet, which runs them in that environment.
Under an old Python it gets as far as saying so: it must parse there, and only what stands above that may run there.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

OLDEST, TOO_NEW = (3, 11), (3, 14)
ROOT = Path(__file__).resolve().parent


def give_up(message: str) -> NoReturn:
    """End with a plain message."""
    print("dev.py: " + message, file=sys.stderr)
    raise SystemExit(1)


def use_supported_python() -> None:
    """Go on in a Python that PySpark has releases for; a machine often has several."""
    if OLDEST <= sys.version_info[:2] < TOO_NEW:
        return
    for minor in range(TOO_NEW[1] - 1, OLDEST[1] - 1, -1):
        other = shutil.which(f"python3.{minor}")
        works = other and subprocess.call([other, "-c", ""], stderr=subprocess.DEVNULL) == 0
        if other and works:
            sys.exit(subprocess.call([other, str(ROOT / "dev.py"), *sys.argv[1:]]))
    give_up(
        f"this is Python {sys.version_info[0]}.{sys.version_info[1]}; Penstock needs Python 3.11, 3.12 or 3.13, and "
        "none of them is on the PATH."
    )


if __name__ == "__main__":
    use_supported_python()

# ------------------------------------------------------------------------------------------------- the environment

VENV = ROOT / os.environ.get("PENSTOCK_VENV", ".venv")
STAMP = VENV / "made-from.json"
INSTALL_LOG = ROOT / ".venv-install.log"
REQUIREMENTS = ROOT / "requirements"
#: What the demo needs, and with that what tests and checks need on top; both have the same versions.
BUILD_LOCK, DEMO_LOCK, DEV_LOCK = (REQUIREMENTS / f"{name}.txt" for name in ("build", "demo", "dev"))
#: The environment has 1.3 GB; while PySpark is unpacked and built there is nearly as much again beside it.
FREE_BYTES_NEEDED = 3 << 30

#: What a line of pip's log says, and what that means for the one who reads it. The first that fits is shown.
PIP_FAILURES = (
    (("No space left on device", "Errno 28"), "The disk is full. Make room, or let TMPDIR name another disk."),
    (
        ("THESE PACKAGES DO NOT MATCH THE HASHES",),
        "A download differs from what was locked. Try again; if it stays so, do not trust the index in use.",
    ),
    (("CERTIFICATE_VERIFY_FAILED", "SSLError"), "The certificate of the package index is not trusted (see PIP_CERT)."),
    (("ProxyError", "Tunnel connection failed"), "The proxy refuses the package index (see HTTPS_PROXY)."),
    (
        (
            "NewConnectionError",
            "NameResolutionError",
            "ConnectTimeoutError",
            "ReadTimeoutError",
            "ConnectionResetError",
        ),
        "The package index cannot be reached: no network, or pip needs an index or a proxy of its own here.",
    ),
    (("No matching distribution found",), "The package index in use lacks a package of the lock."),
)


def environment_python() -> Path:
    """The interpreter of the virtual environment."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def child_environment() -> dict[str, str]:
    """The caller's environment without what would let other packages in, or have each process compile them anew."""
    strange = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    environment = {k: v for k, v in os.environ.items() if k not in strange}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    environment["PATH"] = str(environment_python().parent) + os.pathsep + environment.get("PATH", os.defpath)
    return environment


def call(*command: object) -> int:
    """Run a command of the environment from the root of the repository; answers its exit code."""
    return subprocess.call([str(part) for part in command], cwd=str(ROOT), env=child_environment())


def digest(*parts: object) -> str:
    """A hash of texts and of the contents of files."""
    contents = [part.read_bytes() if isinstance(part, Path) else str(part).encode() for part in parts]
    return hashlib.sha256(b"\0".join(contents)).hexdigest()


def ready(lock: Path = DEV_LOCK) -> Path:
    """The interpreter of an environment with at least what a lock says, which is made or completed now if need be."""
    for needed in (BUILD_LOCK, DEMO_LOCK, DEV_LOCK):
        if not needed.is_file():
            give_up(f"{needed.relative_to(ROOT)} is missing; it belongs to the repository.")
    made: dict[str, str] = json.loads(STAMP.read_text()) if STAMP.is_file() else {}
    wanted = {
        "demo": digest(sys.version, str(VENV), BUILD_LOCK, DEMO_LOCK),
        "dev": digest(DEV_LOCK),
        "project": digest(ROOT / "pyproject.toml"),
    }
    python = environment_python()
    outdated = made.get("demo") != wanted["demo"] or made.get("dev") not in (None, wanted["dev"])
    if outdated or not python.is_file():
        make_environment()
        made = {}
    # First what builds packages, then those packages: thus nothing comes from outside the locks.
    if "demo" not in made:
        install(BUILD_LOCK, DEMO_LOCK)
    if lock == DEV_LOCK and "dev" not in made:
        print("Adding what tests and checks need: 500 MB on the disk, this once.", flush=True)
        install(DEV_LOCK)
        made["dev"] = wanted["dev"]
    if made.get("project") != wanted["project"]:
        pip("install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", ".")
    made.update(demo=wanted["demo"], project=wanted["project"])
    STAMP.write_text(json.dumps(made))
    return python


def make_environment() -> None:
    """Make ``.venv`` anew, with pip alone."""
    for place in (ROOT, Path(tempfile.gettempdir())):
        free = shutil.disk_usage(str(place)).free
        if free < FREE_BYTES_NEEDED:
            give_up(f"the disk of {place} has {free / 1e9:.1f} GB free; the environment needs 3 GB to be made.")
    try:
        import ensurepip
        import venv

        ensurepip.version()
    except ImportError as error:
        give_up(
            f"this Python has no module {error.name}. On Debian and Ubuntu: sudo apt install python3-venv; elsewhere "
            "use a Python from python.org, pyenv or uv."
        )
    print(f"Making {VENV}: about 600 MB to download, a few minutes, this once.", flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        venv.EnvBuilder(with_pip=True, symlinks=os.name != "nt").create(VENV)
    except (OSError, subprocess.CalledProcessError) as error:
        give_up(f"no virtual environment could be made in {VENV}: {error}")


def install(*locks: Path) -> None:
    """Install what locks say, one after the other."""
    for lock in locks:
        pip("install", "--no-deps", "--no-build-isolation", "--require-hashes", "--requirement", lock)


def pip(*arguments: object) -> None:
    """Run pip; where it fails, say what that means."""
    INSTALL_LOG.unlink(missing_ok=True)
    if call(environment_python(), "-m", "pip", *arguments, "--log", INSTALL_LOG) == 0:
        INSTALL_LOG.unlink(missing_ok=True)
        return
    log = INSTALL_LOG.read_text(encoding="utf-8", errors="replace") if INSTALL_LOG.is_file() else ""
    give_up(f"pip could not install what is needed. {explain_pip_failure(log)}")


def explain_pip_failure(log: str) -> str:
    """What a log of pip means, in a sentence."""
    for signs, meaning in PIP_FAILURES:
        if any(sign in log for sign in signs):
            return meaning
    return f"All of its output is in {INSTALL_LOG}."


# ------------------------------------------------------------------------------------------------------- the chores


def chores() -> dict[str, str]:
    """Return what each chore does; pyproject.toml has them, as tasks of Poe the Poet."""
    import tomllib

    tasks = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["poe"]["tasks"]
    return {name: task["help"] for name, task in tasks.items()} | {
        "clean": "Remove the environment and everything else that was made here.",
        "help": "List the chores.",
    }


def show_help() -> None:
    """List the chores."""
    print("Usage: python3 dev.py CHORE [ARGUMENTS], or make CHORE [ARGS='…']; needs Python 3.11 to 3.13, no more.\n")
    for name, text in chores().items():
        print(f"  {name:<14}{text}")


def clean() -> None:
    """Remove the environment and everything else that was made here."""
    for pattern in (
        ".venv*",
        ".bench",
        ".flink",
        ".flink-client",
        "build",
        "dist",
        "out",
        "src/*.egg-info",
        ".*_cache",
        ".hypothesis",
        "**/__pycache__",
    ):
        for path in ROOT.glob(pattern):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> int:
    """Do one chore."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["help"]
    if name in ("help", "-h", "--help"):
        show_help()
        return 0
    if name not in chores():
        give_up(f"there is no chore {name!r}; there are {', '.join(chores())}.")
    try:
        if name == "clean":
            clean()
            return 0
        return call(ready(DEMO_LOCK if name == "demo" else DEV_LOCK), "-m", "poethepoet", name, *rest)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno != 28:
            raise
        give_up("the disk is full.")


if __name__ == "__main__":
    sys.exit(main())
