"""A part of a file sink that cannot be published: its bytes are not lost, and nothing else is given up for it."""

from __future__ import annotations

import base64
import errno
import json
import pickle
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.unit.driver.test_batch_recovery import SUMS, driver_of

from penstock._connectors.files.local import LocalFileSystem

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SETTINGS = {"restart-strategy.type": "none", "execution.state-recovery.path": "latest"}


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> bool:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(LocalFileSystem, "publish", full)


def test_a_part_is_named_alone_and_its_bytes_are_in_the_file_of_what_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        refuse(patched)
        driver, loop = driver_of(tmp_path, **SETTINGS)
        driver.run(loop)
    error = str(driver.result.exception())
    [part] = re.findall(r"committable (\d+-\d+-[0-9a-f]{12}), which holds \d+ bytes", error)
    lost = tmp_path / "lost"
    driver, loop = driver_of(tmp_path, **SETTINGS, **{"penstock.committables": f"{part}=give-up:{lost}"})
    driver.run(loop)
    assert [one.count for one in driver.result.result(0).get_given_up_committables()] == [1]
    pieces = [json.loads(line) for line in lost.read_text().splitlines()]
    held = b"".join(pickle.loads(base64.b64decode(piece["pickle"])) for piece in pieces).decode().splitlines()
    files = [file for file in (tmp_path / "sums").rglob("part-*") if file.is_file()]
    assert held
    assert Counter(held) + Counter(line for file in files for line in file.read_text().splitlines()) == SUMS
