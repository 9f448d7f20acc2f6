"""What a run leaves to chance, and the place of the examples in docstrings.

Each run draws other examples of properties, and another order of the tests of a file. Its first lines name the seed,
and ``PENSTOCK_SEED`` set to it draws the same again.
"""

from __future__ import annotations

import os
import random
import secrets
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import hypothesis.core
import pytest
from _pytest.nodeid import coerce_node_id

if TYPE_CHECKING:
    from collections.abc import Generator

SOURCES = Path(__file__).with_name("src")
#: The processes of a run inherit it.
SEED = os.environ.setdefault("PENSTOCK_SEED", str(secrets.randbelow(1 << 32)))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Import no private module without examples: those of public classes are collected where a user imports them."""
    is_private = (
        collection_path.suffix == ".py"
        and collection_path.is_relative_to(SOURCES)
        and "/_" in str(collection_path.parent)
    )
    return True if is_private and b">>>" not in collection_path.read_bytes() else None


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Seed the examples, unless ``--hypothesis-seed`` does."""
    if hypothesis.core.global_force_seed is None:
        hypothesis.core.global_force_seed = int(SEED)


def pytest_report_header() -> str:
    """Name the seed."""
    return f"seed of examples and of the order of tests: PENSTOCK_SEED={SEED}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle the tests of each file, those with an exchange of their own last; lanes run one test of an id."""
    for item in items:
        if not item.nodeid.endswith(item.name):  # one for each route of a document, made by schemathesis
            item._id = coerce_node_id(f"{item.nodeid.rpartition('::')[0]}::{item.name}")
    ids = Counter(item.nodeid for item in items)
    assert len(ids) == len(items), ids.most_common(3)
    shuffled: list[pytest.Item] = []
    for file, group in groupby(items, lambda item: item.path):
        tests = list(group)
        random.Random(f"{SEED} {file.name}").shuffle(tests)  # noqa: S311 - no secret
        tests.sort(key=has_exchange_of_its_own)
        shuffled += tests
    items[:] = shuffled


def has_exchange_of_its_own(item: pytest.Item) -> bool:
    """Tell whether the session that tests share is made anew for a test, see ``tests.kit.exchange``."""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("exchange") is not None


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


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape what a test has printed or logged and no process could be sent: halves of surrogate pairs."""
    return _sendable((yield))


def _sendable(part: Any) -> Any:
    match part:
        case str():
            return part.encode(errors="backslashreplace").decode()
        case dict():
            return {key: _sendable(inner) for key, inner in cast("dict[str, Any]", part).items()}
        case list():
            return [_sendable(inner) for inner in cast("list[Any]", part)]
        case tuple():
            return tuple(_sendable(inner) for inner in cast("tuple[Any, ...]", part))
        case _:
            return part
