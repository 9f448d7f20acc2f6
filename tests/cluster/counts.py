"""What the program `counting` writes, and what it has to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import obstore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from obstore.store import S3Store

#: The keys of the program.
KEYS: Final = 97


def lines_in(bucket: S3Store, prefix: str) -> Iterator[str]:
    """Yield the lines of all objects with a prefix that readers see: those without a dot before their names."""
    for chunk in obstore.list(bucket, prefix):
        for meta in chunk:
            if not meta["path"].rpartition("/")[2].startswith("."):
                yield from bytes(obstore.get(bucket, meta["path"]).bytes()).decode().split()


def counts_of(lines: Iterable[str]) -> dict[int, list[int]]:
    """Return by key the counts that the program has written, sorted."""
    found: dict[int, list[int]] = {}
    for line in lines:
        key, count = map(int, line.split(","))
        found.setdefault(key, []).append(count)
    return {key: sorted(counts) for key, counts in found.items()}


def expected_counts(total: int) -> dict[int, list[int]]:
    """Return what it writes for so many numbers: each count of each key once."""
    return {key: list(range(1, len(range(key, total, KEYS)) + 1)) for key in range(min(KEYS, total))}
