"""An S3 server for the whole run, and a bucket for each test."""

from __future__ import annotations

import itertools
import os
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

import pytest
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def _resource_tracker() -> None:
    """Start the process in which Python's `multiprocessing` notes resources; it lives as long as this one."""
    resource_tracker.ensure_running()


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def bucket(server: S3Server) -> str:
    """The name of a new bucket."""
    name = f"bucket-{next(_numbers)}"
    server.make_bucket(name)
    return name
