from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lifecycle.jobs import Jobs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    return Jobs(tmp_path, monkeypatch)
