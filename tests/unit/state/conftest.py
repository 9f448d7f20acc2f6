"""What most tests of a store need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.state.checkpoints import Checkpoints

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkpoints() -> Checkpoints:
    """The checkpoints of one subtask."""
    return Checkpoints()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The place of its local state."""
    return tmp_path / "state"
