"""Clusters for tests: a scripted one for each test, and real ones for the whole run."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest
from tests.search.scripted import ScriptedCluster
from tests.services import search as service

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def scripted() -> Iterator[ScriptedCluster]:
    with ScriptedCluster() as cluster:
        yield cluster


def require_servers() -> None:
    """Skip where this machine cannot have the servers; in CI that is a failure."""
    reason = service.why_missing()
    if reason is not None:
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture(scope="session", params=[service.ELASTICSEARCH, service.OPENSEARCH], ids=lambda engine: engine.name)
def cluster(request: pytest.FixtureRequest) -> Iterator[service.Cluster]:
    """A real cluster; all tests of a run share it."""
    require_servers()
    with service.shared_server(request.param) as found:
        yield service.Cluster(found["url"])


@pytest.fixture
def elasticsearch() -> Iterator[service.Cluster]:
    """Elasticsearch alone, for what takes long."""
    require_servers()
    with service.shared_server(service.ELASTICSEARCH) as found:
        yield service.Cluster(found["url"])


@pytest.fixture
def index() -> str:
    """The name of an index that no other test has."""
    return f"t-{uuid.uuid4().hex[:10]}"
