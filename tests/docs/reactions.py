"""Writes the table of events and phases in ``docs/coordinator.md``.

``python -m tests.docs.reactions`` writes it anew; a test says when that is due.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from penstock._engine.coordinator.epochs.reactions import EPOCHS
from penstock._engine.coordinator.life.reactions import LIFE
from penstock._engine.coordinator.life.start_reactions import START
from penstock._engine.coordinator.phases import RUNNING, STOPPING, Phase, StartPhase
from penstock._engine.coordinator.reactions import LIVE, TAKEN_OVER
from penstock._engine.coordinator.stages.reactions import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import Enum

    from penstock._engine.coordinator.reactions import Rule

DOCUMENT = Path(__file__).parents[2] / "docs" / "coordinator.md"
BEGIN, END = "<!-- made by tests/docs/reactions.py: begin -->\n", "<!-- end -->\n"
SETS: dict[type[Enum], dict[str, frozenset[Any]]] = {
    Phase: {"all": LIVE, "*taken over*": TAKEN_OVER, "*running*": RUNNING, "*stopping*": STOPPING},
    StartPhase: {"all others": frozenset(StartPhase) - {StartPhase.LOOKING}},
}


def phases(of: frozenset[Any]) -> str:
    """Name phases, sets of them first."""
    names: list[str] = []
    left = of
    kind = cast("type[Enum]", type(next(iter(of))))
    for name, members in SETS[kind].items():
        if members <= of and members & left:
            names.append(name)
            left -= members
    return ", ".join([*names, *(phase.name for phase in kind if phase in left)])


def rows(rules: Iterable[Rule[Any]], whose: str) -> Iterable[str]:
    for rule in rules:
        events = ", ".join(event.__name__ for event in rule.events)
        yield f"| {events} | {phases(rule.phases)} | {whose} | `{rule.reaction.__name__}` |\n"


def table() -> str:
    """Return the table as Markdown."""
    head = "| Events | Phases | Whose | Reaction |\n| --- | --- | --- | --- |\n"
    return "".join(
        ["\n", head, *rows(START, "start"), *rows(LIFE, "life"), *rows(EPOCHS, "epochs"), *rows(STAGES, "stages"), "\n"]
    )


def main() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    DOCUMENT.write_text(before + table() + after, encoding="utf-8")


if __name__ == "__main__":
    main()
