"""The sink with a committer of the documents passes the contract, and tells behind its commits what was delivered."""

from __future__ import annotations

import re
import shutil
import sys
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program

from penstock.common.job_status import JobStatus
from penstock.testing import SinkContract, SinkUnderTest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "own-sink.md"


@pytest.fixture
def maildir(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The names that the block of the document defines, as a main program's."""
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if "class MaildirSink" in block)
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(compile(block, str(DOCUMENT), "exec"), vars(main))
    return main


def subjects(folder: Path) -> list[int]:
    return sorted(int(path.read_text().split()[1]) for path in (folder / "new").iterdir())


def test_the_maildir_passes_the_contract(tmp_path: Path, maildir: Any) -> None:
    numbers = count()

    def make() -> SinkUnderTest:
        folder = tmp_path / str(next(numbers))
        return SinkUnderTest(
            maildir.MaildirSink(folder), lambda: subjects(folder), lambda: shutil.rmtree(folder / "tmp")
        )

    SinkContract(make, list(range(30))).check_all()


def test_a_job_delivers_each_message_once_and_lists_it(tmp_path: Path, maildir: Any) -> None:
    program = Program(tmp_path, 2, checkpoints=str(tmp_path / "checkpoints"), interval="1 s")
    sink = maildir.LoggedMaildirSink(tmp_path / "mail", str(tmp_path / "log"))
    program.source(list(range(100))).rebalance().sink_to(sink).uid("mail")
    driven = Driven(program.env, tmp_path / "state", Epochs(20))
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    assert subjects(tmp_path / "mail") == list(range(100))
    lines = [line.split()[1] for part in (tmp_path / "log").rglob("part-*") for line in part.read_text().splitlines()]
    assert sorted(lines) == sorted(path.name for path in (tmp_path / "mail" / "new").iterdir())
