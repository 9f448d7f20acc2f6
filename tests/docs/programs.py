"""Documents whose Python is one program, and what it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END_OF_STEP = "--- end of step ---"


def assert_prints_what_it_shows(document: Path, place: Path) -> None:
    """Run the Python blocks of a document as one program, and compare what each prints with the block behind it."""
    blocks = BLOCK.findall(document.read_text(encoding="utf-8"))
    steps = [text for kind, text in blocks if kind == "python"]
    shown = [text for kind, text in blocks if kind == "text"]
    assert steps, f"{document.name} has no step"
    assert [kind for kind, _ in blocks] == ["python", "text"] * len(steps)

    program = place / f"{document.stem}.py"
    program.write_text("".join(f"{step}\nprint({END_OF_STEP!r})\n" for step in steps), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=place, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split(END_OF_STEP + "\n") == [*shown, ""]
