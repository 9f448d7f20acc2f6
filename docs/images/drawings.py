"""Draws the pictures of docs/concepts.md into docs/images/concepts: `python -m docs.images.drawings`.

Each is plain SVG with a ground of its own, so that it can be read on any page; it is dark where the reader's browser
is.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Final

PLACE: Final = Path(__file__).resolve().parent / "concepts"
#: A line of text, and the width of a letter, which is that of most fonts at this size or more.
LINE, LETTER = 18, 7.6
STYLE: Final = """
  text { font: 14px system-ui, sans-serif; fill: #1f2933; text-anchor: middle }
  .note { font-size: 13px; fill: #52606d } .head { font-weight: 600 }
  .left { text-anchor: start } .end { text-anchor: end }
  .ground { fill: #ffffff } .frame { fill: none; stroke: #9aa5b1; stroke-dasharray: 5 4 }
  .plain { fill: #f0f4f8; stroke: #829ab1 } .strong { fill: #dceefb; stroke: #2680c2 }
  .kept { fill: #fff3c4; stroke: #cb6e17 }
  .arrow { stroke: #52606d; stroke-width: 1.5; fill: none } .tip { fill: #52606d }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4e7eb } .note { fill: #9aa5b1 } .ground { fill: #16181d } .frame { stroke: #616e7c }
    .plain { fill: #242a33; stroke: #7b8794 } .strong { fill: #0f3a5c; stroke: #4098d7 }
    .kept { fill: #4a3410; stroke: #de911d }
    .arrow { stroke: #9aa5b1 } .tip { fill: #9aa5b1 }
  }
"""


class Drawing:
    """A drawing of boxes, arrows and texts.

    Args:
        width: Of the whole, in pixels.
        height: Of the whole.
        title: What a screen reader says.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, *lines: str, kind: str = "plain") -> Drawing:
        """Draw a box with lines of text in its middle."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        first = y + height / 2 - (len(lines) - 1) * LINE / 2 + 5
        for number, line in enumerate(lines):
            assert len(line) * LETTER <= width, f"{line!r} is too wide for its box in {self.title!r}"
            self._parts.append(f'<text x="{x + width / 2}" y="{first + number * LINE}">{escape(line)}</text>')
        return self

    def frame(self, x: int, y: int, width: int, height: int, head: str) -> Drawing:
        """Draw a dashed frame with a heading in its upper left."""
        assert len(head) * LETTER + 24 <= width, f"{head!r} is too wide for its frame in {self.title!r}"
        self._parts.append(f'<rect class="frame" x="{x}" y="{y}" width="{width}" height="{height}" rx="8"/>')
        return self.text(x + 12, y + 22, head, "left head")

    def text(self, x: int, y: int, line: str, kind: str = "note") -> Drawing:
        """Write a line: its middle, or with `left` its beginning, is at a point."""
        self._parts.append(f'<text class="{kind}" x="{x}" y="{y}">{escape(line)}</text>')
        return self

    def arrow(self, *points: tuple[int, int]) -> Drawing:
        """Draw an arrow through points."""
        path = " L".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path class="arrow" d="M{path}" marker-end="url(#tip)"/>')
        return self

    def svg(self) -> str:
        """Return the file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img">'
        )
        tip = (
            '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
            '<path class="tip" d="M0 0 L10 5 L0 10 z"/></marker>'
        )
        ground = f'<rect class="ground" width="{self.width}" height="{self.height}" rx="8"/>'
        parts = [head, f"<title>{escape(self.title)}</title>", f"<style>{STYLE}</style>", tip, ground, *self._parts]
        return "\n".join([*parts, "</svg>"]) + "\n"


def epoch() -> Drawing:
    """One Spark job: from the driver through the levels and back."""
    drawing = Drawing(860, 340, "One epoch: the driver dispatches it, the levels run, and acks come back")
    drawing.box(
        20,
        24,
        820,
        62,
        "driver: the process of your program",
        "decides, assigns splits, stores checkpoints, commits",
        kind="strong",
    )
    drawing.frame(20, 150, 820, 172, "epoch 7: one Spark job")
    for number, y in enumerate((186, 246)):
        drawing.box(60, y, 200, 46, f"source, map: subtask {number}")
        drawing.box(370, y, 200, 46, f"keyed reduce: subtask {number}")
        drawing.box(650, y, 160, 46, f"sink: subtask {number}")
    for start, end in ((209, 209), (209, 269), (269, 209), (269, 269)):
        drawing.arrow((260, start), (370, end))
    for y in (209, 269):
        drawing.arrow((570, y), (650, y))
    drawing.arrow((240, 86), (240, 186)).text(250, 112, "dispatch: what to read,", "note left")
    drawing.text(250, 130, "which state to use", "note left")
    drawing.arrow((730, 186), (730, 86)).text(716, 112, "acks: changes of state, positions,", "note end")
    drawing.text(716, 130, "what sinks have staged", "note end")
    return drawing.text(315, 312, "blocks of records, with watermarks in them")


def levels() -> Drawing:
    """A graph of operators as levels."""
    drawing = Drawing(860, 330, "Levels: a job's operators, in the order in which one Spark job runs them")
    for number, (x, width) in enumerate(((20, 270), (310, 250), (580, 260))):
        drawing.frame(x, 20, width, 250, f"level {number}")
    drawing.box(45, 66, 220, 62, "Source: orders", "map, filter")
    drawing.box(45, 176, 220, 62, "Source: rates", "map")
    drawing.box(335, 120, 200, 62, "connect, process", "(two inputs, one state)")
    drawing.box(605, 66, 210, 62, "window", "Sink: sums")
    drawing.box(605, 176, 210, 62, "Sink: rejected", "(a side output)")
    drawing.arrow((265, 97), (335, 138)).arrow((265, 207), (335, 164))
    drawing.arrow((535, 138), (605, 97)).arrow((535, 164), (605, 207))
    drawing.text(
        430,
        296,
        "One box is a chain: its operators hand records on directly. Between two boxes records are moved by key.",
    )
    return drawing.text(
        430,
        316,
        "All subtasks of a level run at the same time; a level runs when the one before it has sent its records.",
    )


def checkpoint() -> Drawing:
    """The steps of a checkpoint, and what a kill means at each."""
    drawing = Drawing(860, 300, "One checkpoint: four steps, and what a kill before or after the second one means")
    steps = (
        ("1. acks", "of all subtasks", "plain"),
        ("2. _metadata", "is stored", "kept"),
        ("3. committers", "publish", "plain"),
        ("4. old ones", "are deleted", "plain"),
    )
    for number, (*lines, kind) in enumerate(steps):
        drawing.box(30 + 210 * number, 60, 170, 66, *lines, kind=kind)
        if number:
            drawing.arrow((210 * number - 10, 93), (30 + 210 * number, 93))
    drawing.text(325, 40, "the commit point", "head")
    drawing.arrow((325, 46), (325, 58))
    drawing.box(
        30, 180, 250, 84, "killed before it:", "the epoch never happened;", "its records are read again", kind="strong"
    )
    drawing.box(
        370,
        180,
        460,
        84,
        "killed after it:",
        "the next start continues from this checkpoint,",
        "and publishes first what was not published yet",
        kind="strong",
    )
    drawing.arrow((155, 180), (155, 130))
    return drawing.arrow((600, 180), (600, 130))


def end() -> Drawing:
    """The ways in which a job ends."""
    drawing = Drawing(860, 400, "The end of a job: what happens in each of four ways, and where latest continues")
    for x, width, head in (
        (20, 150, "how"),
        (190, 250, "what your functions see"),
        (460, 160, "what is kept"),
        (640, 200, "a start with latest"),
    ):
        drawing.text(x + width // 2, 32, head, "head")
    rows = (
        (
            ("the input", "ends"),
            ("windows and timers fire,", "finish(), close()"),
            ("last", "checkpoint"),
            ("says that the job", "has ended"),
        ),
        (("drain",), ("the same", ""), ("savepoint",), ("says that the job", "has ended")),
        (
            ("suspend",),
            ("close() alone: windows", "and timers stay"),
            ("savepoint",),
            ("continues from", "the savepoint"),
        ),
        (
            ("cancel",),
            ("close() alone; this epoch", "never happened"),
            ("newest", "checkpoint"),
            ("continues from", "that checkpoint"),
        ),
    )
    for number, (how, seen, kept, latest) in enumerate(rows):
        y = 50 + 84 * number
        drawing.box(20, y, 150, 62, *how, kind="strong")
        drawing.box(190, y, 250, 62, *(line for line in seen if line))
        drawing.box(460, y, 160, 62, *kept, kind="kept")
        drawing.box(640, y, 200, 62, *latest)
        for x in (170, 440, 620):
            drawing.arrow((x, y + 31), (x + 20, y + 31))
    return drawing.text(
        430, 388, "In all of them the output of sinks is complete up to what is kept, and has nothing behind it."
    )


def identity() -> Drawing:
    """What belongs to what: directory, job, run, operator, subtask."""
    drawing = Drawing(860, 460, "Identity: what belongs to a directory, a job, a run, an operator and a subtask")
    drawing.frame(20, 20, 820, 330, "checkpoint directory: has a random mark")
    drawing.frame(40, 56, 780, 280, "job: its name and the mark make its id; latest finds it by its name")
    drawing.frame(60, 92, 330, 110, "its chain of numbered entries")
    for number, name in enumerate(("chk-6", "takeover", "chk-8")):
        drawing.box(76 + 104 * number, 128, 92, 54, name, kind="kept")
    drawing.frame(410, 92, 395, 110, "run: one driver from its start to its end")
    drawing.box(426, 128, 174, 54, "files that sinks", "have staged").box(
        614, 128, 174, 54, "state on the disks", "of executors"
    )
    drawing.frame(60, 214, 745, 110, "operator: its uid finds its state, in each program that has it")
    drawing.box(76, 250, 210, 58, "key groups: keyed state", "follows its key").box(
        306, 250, 230, 58, "lists: are dealt out to", "the subtasks"
    )
    drawing.box(556, 250, 232, 58, "splits: go to the subtask", "that reads them")
    drawing.box(20, 376, 400, 62, "savepoint: a directory by itself,", "which may be moved and copied", kind="kept")
    drawing.box(
        440, 376, 400, 62, "a start from its path: another job,", "with an id of its own; both may run", kind="strong"
    )
    return drawing.arrow((420, 407), (440, 407))


DRAWINGS: Final = {"epoch": epoch, "levels": levels, "checkpoint": checkpoint, "end": end, "identity": identity}


def main() -> None:
    """Draw all of them."""
    PLACE.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (PLACE / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
