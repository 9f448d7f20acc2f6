"""Whole programs in batch mode give what PyFlink gave there; those that say so give what they give as streams.

They run without Spark; `test_conformance` runs programs on a session, and `tests/spark` batch jobs.
"""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kit.without_spark import Cluster

HERE = Path(__file__).parent / "conformance"
#: What PyFlink gave in place of what Flink's rules give, see `test_conformance`.
WRONG = {"window_session": ("('a', 1000, 13001, 6)", "('a', 1000, 13001, 7)")}

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # of programs as they were written


def results_in_batch() -> dict[str, Any]:
    """Return what programs give in batch mode, by name: of those for which PyFlink or the program says so."""
    found: dict[str, Any] = {}
    for path in sorted((HERE / "programs").glob("*.py")):
        text = (HERE / "expected" / f"{path.stem}.json").read_text().replace(*WRONG.get(path.stem, ("", "")))
        expected = json.loads(text)
        if "\nSAME_IN_BATCH = True" in path.read_text():
            expected["BATCH"] = expected["STREAMING"]
        if "BATCH" in expected:
            found[path.stem] = expected["BATCH"]
    return found


IN_BATCH = results_in_batch()


@pytest.fixture(scope="module")
def runner() -> Any:
    """The runner, whose folder is no package: its programs are as their authors wrote them."""
    return SimpleNamespace(**runpy.run_path(str(HERE / "run.py"), run_name="conformance_run"))


@pytest.mark.parametrize("program", IN_BATCH)
def test_program_gives_in_batch_mode_what_pyflink_gave(
    program: str, runner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"])  # the runner changes it
    Cluster(tmp_path).patch(monkeypatch)
    runner.child("penstock", str(HERE / "programs" / f"{program}.py"), str(tmp_path / "out"), "BATCH")
    assert json.loads((tmp_path / "out").read_text()) == {"BATCH": IN_BATCH[program]}
