"""For the examples in the docstrings: each runs in an empty directory, with ``tmp_path`` as a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def example_place(
    request: pytest.FixtureRequest,
    doctest_namespace: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let an example write files without a trace; tests are left alone."""
    if isinstance(request.node, pytest.DoctestItem):
        place: Path = tmp_path_factory.mktemp("example")
        monkeypatch.chdir(place)
        doctest_namespace["tmp_path"] = place
