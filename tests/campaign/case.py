"""A case of the campaign."""

from __future__ import annotations

from dataclasses import dataclass

CASE_LIMIT_S = 1800


@dataclass(frozen=True)
class Case:
    """One long test: what it shows and the command that shows it."""

    name: str
    shows: str
    command: list[str]
    environment: dict[str, str]
    limit_s: int = CASE_LIMIT_S
