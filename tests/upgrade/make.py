"""Makes the savepoint of a format for `data`, once: python -m tests.upgrade.make, from the root of the repository."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

from tests.unit.savepoints.jobs import savepoint_of

from penstock._engine.protocol.metadata import FORMAT_VERSION
from penstock.savepoint import SavepointWriter

#: The numbers that the job goes through; it has stopped within them.
NUMBERS = 20_000
DATA = Path(__file__).with_name("data")


def main() -> None:
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        path = savepoint_of(Path(place), numbers=NUMBERS, inline="200 b")
        writer = SavepointWriter.from_existing(path).set_broadcast_state("limits", "limits", {1: 10, "two": (2, 0.5)})
        writer.write(str(DATA / f"format-{FORMAT_VERSION}"))


if __name__ == "__main__":
    main()
