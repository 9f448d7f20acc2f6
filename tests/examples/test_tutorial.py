"""The tutorial's blocks, run from top to bottom as one program, print what the tutorial says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END_OF_STEP = "--- end of step ---"


@pytest.mark.spark
def test_each_step_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    blocks = BLOCK.findall(TUTORIAL.read_text(encoding="utf-8"))
    steps = [text for kind, text in blocks if kind == "python"]
    shown = [text for kind, text in blocks if kind == "text"]
    assert [kind for kind, _ in blocks] == ["python", "text"] * len(steps)

    program = tmp_path / "tutorial.py"
    program.write_text("".join(f"{step}\nprint({END_OF_STEP!r})\n" for step in steps), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split(END_OF_STEP + "\n") == [*shown, ""]
