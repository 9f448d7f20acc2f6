from __future__ import annotations

from itertools import count

import pytest

_names = count()


@pytest.fixture
def name() -> str:
    """Name a job, its target and its checkpoint directory as no other test does."""
    return f"driver-{next(_names)}"
