"""The five doors of the site: which page stands behind which, and how a file of the repository becomes a page.

Each document for users is behind one door (``tests/docs/test_site.py``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

#: The pages of each door, in the order of the site's navigation, as files of the repository.
DOORS: Final[dict[str, tuple[str, ...]]] = {
    "Why and when": ("docs/why.md", "docs/concepts.md", "docs/demo.md"),
    "Start": ("docs/tutorial.md", "docs/from-pyflink.md", "docs/from-structured-streaming.md", "docs/notebooks.md"),
    "How-tos": (
        "docs/connectors.md",
        "docs/own-source.md",
        "docs/own-sink.md",
        "docs/kafka.md",
        "docs/postgres.md",
        "docs/elasticsearch.md",
        "docs/lake.md",
        "docs/dataframes.md",
        "docs/windows.md",
        "docs/joins.md",
        "docs/state.md",
        "docs/async.md",
        "docs/pipelined.md",
        "docs/columns.md",
        "docs/batch.md",
        "docs/records.md",
        "docs/types-and-idleness.md",
        "docs/testing.md",
        "docs/stopping.md",
        "docs/restoring.md",
        "docs/rescaling.md",
        "docs/upgrading.md",
        "docs/savepoints.md",
        "docs/s3.md",
        "docs/cluster.md",
        "docs/supervise.md",
        "docs/dashboard.md",
    ),
    "Reference": (
        "api",
        "docs/configuration.md",
        "docs/cli.md",
        "docs/rest.md",
        "docs/values.md",
        "docs/pyflink-compatibility.md",
        "docs/stability.md",
        "docs/behaviours.md",
        "docs/glossary.md",
        "CHANGELOG.md",
    ),
    "Inside": (
        "docs/architecture.md",
        "docs/coordinator.md",
        "docs/decisions",
        "BENCHMARKS.md",
        "benchmarks/README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ),
}

#: Pages whose place on the site is not that of their file below ``docs``.
PLACES: Final = {
    "README.md": "index",
    "docs/decisions": "decisions/index",
    "BENCHMARKS.md": "benchmarks",
    "benchmarks/README.md": "measuring",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
    "api": "api/index",
}


def place_of(file: str) -> str | None:
    """Return where a file of the repository stands on the site, without suffix; None if it is no page."""
    if file in PLACES:
        return PLACES[file]
    if file.startswith("docs/") and file.endswith(".md"):
        return file.removeprefix("docs/").removesuffix(".md")
    return None


def documents() -> list[str]:
    """Return the files of the repository that are pages."""
    below = (path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return sorted({*below, *(file for file in PLACES if file.endswith(".md"))})
