"""The copies of a savepoint are compared with what was written at first."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from tests.kit.cells import cells

from penstock._engine.driver.checkpoints import savepoints
from penstock._engine.driver.checkpoints.savepoints import SavepointFiles
from penstock._engine.protocol.state_handle import StateHandle
from penstock._engine.storage.local import LocalStorage
from penstock.errors import CorruptCheckpointError

if TYPE_CHECKING:
    from pathlib import Path

STATE = b"state of a subtask"


@cells("there", {"damaged": b"stote of a subtask", "cut": STATE[:-1], "longer": STATE + b"!"})
def test_a_damaged_file_does_not_become_part_of_a_savepoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bytes
) -> None:
    digest = hashlib.sha256(STATE).digest()
    handle = StateHandle(1, 1, "snapshot", "a", None, len(STATE), 1, crc32(STATE), (0, 127), digest=digest)
    monkeypatch.setattr(savepoints, "handles_of", lambda _: [handle])
    storage, target = LocalStorage(tmp_path / "checkpoints"), LocalStorage(tmp_path / "savepoint")
    nothing: Any = None
    files = SavepointFiles(storage, nothing, nothing)
    write: Any = SimpleNamespace(files=(("shared/a", "a"),), entry=SimpleNamespace(snapshot=True))
    storage.put("shared/a", STATE)
    files._copy(target, write)
    storage.put("shared/a", there)
    with pytest.raises(CorruptCheckpointError, match="savepoint/a"):
        files._copy(target, write)
