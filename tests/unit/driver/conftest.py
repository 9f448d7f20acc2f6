from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.kit.without_spark import Cluster

from penstock._engine.caches.place import remove_places

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_names = count()


@pytest.fixture
def name() -> str:
    """Name a job, its target and its checkpoint directory as no other test does."""
    return f"driver-{next(_names)}"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """What runs jobs in place of Spark."""
    cluster = Cluster(tmp_path)
    cluster.patch(monkeypatch)
    yield cluster
    remove_places()
