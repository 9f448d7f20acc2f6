"""What is published, built once for these tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, ROOT / "requirements" / "package.py", folder]
    subprocess.run(command, capture_output=True, check=True)
    return folder
