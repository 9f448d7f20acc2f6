"""The types that users see: complete, and right where a checker infers more of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src"
PYRIGHT = Path(sys.executable).with_name("pyright")

pytestmark = pytest.mark.skipif(not PYRIGHT.exists(), reason="pyright is not installed")


def _pyright(*arguments: object) -> dict[str, object]:
    done = subprocess.run(
        [str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_programs_have_the_types_that_they_claim_and_each_mistake_is_found() -> None:
    found = _pyright(HERE / "pipelines.py", HERE / "mistakes.py")["generalDiagnostics"]
    errors = {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
        for one in found  # type: ignore[attr-defined]
        if one["severity"] == "error"
    }
    lines = (HERE / "mistakes.py").read_text(encoding="utf-8").splitlines()
    assert errors == {("mistakes.py", number) for number, line in enumerate(lines, 1) if re.search("# mistake$", line)}


def test_every_public_name_has_a_type() -> None:
    report = _pyright("--verifytypes", "penstock", "--ignoreexternal")["typeCompleteness"]
    lacking = [
        (one["name"], [said["message"] for said in one["diagnostics"]])
        for one in report["symbols"]  # type: ignore[index]
        if one["isExported"] and not (one["isTypeKnown"] and not one["isTypeAmbiguous"])
    ]
    assert lacking == []
    assert report["completenessScore"] == 1.0  # type: ignore[index]
