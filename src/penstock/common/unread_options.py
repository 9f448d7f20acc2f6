"""Flink's keys that Penstock does not read, each with the reason: the rows of ``unread_options.txt``.

They are known, so that a configuration for Flink can be used unchanged. Their values are checked like any other; if a
value differs from the default, the log says once that it has no effect, and why.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

from penstock.common.config_options import ConfigOption, option, optional
from penstock.common.config_values import BOOL, COUNT, DURATION, LIST, MEMORY, POSITIVE, STRING, ValueType, choice

_KINDS: Final = {kind.name: kind for kind in (BOOL, COUNT, DURATION, LIST, MEMORY, POSITIVE, STRING)}


def _kind(name: str) -> ValueType[Any]:
    return _KINDS.get(name) or choice(*name.split(" or "))


def _options(table: str) -> tuple[ConfigOption[Any], ...]:
    found: list[ConfigOption[Any]] = []
    reason = ""
    for line in table.splitlines():
        if line.startswith(">"):
            reason = line.removeprefix(">").strip()
        elif line and not line.startswith("#"):
            key, name, default, effect, *names = (column.strip() for column in line.split("|"))
            kind, aliases = _kind(name), tuple(" ".join(names).split())
            if default:
                found.append(option(key, kind, kind.parse(default), effect, aliases=aliases, no_effect=reason))
            else:
                found.append(optional(key, kind, effect, aliases=aliases, no_effect=reason))
    return tuple(found)


UNREAD: Final = _options((files("penstock.common") / "unread_options.txt").read_text(encoding="utf-8"))
