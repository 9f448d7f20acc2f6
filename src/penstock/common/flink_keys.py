"""All keys of Flink, so that a configuration for Flink is never taken for misspelt, even if Penstock ignores a key."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources


def is_flinks(key: str) -> bool:
    """Tell whether Flink 2 has a key, an older name of one, or a family of keys that it belongs to.

    Example:
        >>> is_flinks("taskmanager.numberOfTaskSlots"), is_flinks("metrics.reporter.graphite.port")
        (True, True)
    """
    names, families = _keys()
    return key in names or any(family.fullmatch(key) for family in families)


@cache
def _keys() -> tuple[frozenset[str], tuple[re.Pattern[str], ...]]:
    text = resources.files("penstock.common").joinpath("flink_keys.txt").read_text(encoding="utf-8")
    keys = [line for line in text.splitlines() if not line.startswith("#")]
    families = tuple(_family(key) for key in keys if "<" in key)
    return frozenset(key for key in keys if "<" not in key), families


def _family(key: str) -> re.Pattern[str]:
    """Return the pattern of a family of keys: ``<name>`` stands for one part, at the end for all remaining parts."""
    pattern = re.sub(r"<\w+>", r"[^.]+", re.escape(key))
    return re.compile(pattern.removesuffix("[^.]+") + ".+" if pattern.endswith("[^.]+") else pattern)
