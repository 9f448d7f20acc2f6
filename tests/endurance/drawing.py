"""Lines over time as a drawing (SVG), one panel below the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH, LEFT, RIGHT, TOP, PANEL, GAP = 860, 64, 20, 44, 150, 46
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
#: A line has so many points at most: of more that follow each other the greatest is drawn.
POINTS: Final = 400
STYLE = """
    .chart { background: #fff } .chart text { font: 13px system-ui, sans-serif; fill: #555 }
    .chart .title { font-size: 17px; font-weight: 600; fill: #222 } .chart .grid { stroke: #e4e4e4 }
    .chart polyline { fill: none; stroke-width: 1.5 } .chart .mark { stroke: #999; stroke-dasharray: 2 3 }
    @media (prefers-color-scheme: dark) {
      .chart { background: #16181d } .chart text { fill: #aaa } .chart .title { fill: #eee }
      .chart .grid { stroke: #2b2e35 }
    }
  """
Points = list[tuple[float, float]]


class Panel(NamedTuple):
    """What one panel shows."""

    title: str
    #: By name: points of minutes and values.
    lines: dict[str, Points]


def drawing(title: str, panels: Sequence[Panel], marks: Sequence[float] = ()) -> str:
    """Return a drawing.

    Args:
        title: Above all.
        panels: Share the axis of time.
        marks: Minutes at which something happened.
    """
    end = max((points[-1][0] for panel in panels for points in panel.lines.values() if points), default=1) or 1
    height = TOP + len(panels) * (PANEL + GAP)
    parts = [f'<text class="title" x="16" y="26">{title}</text>']

    def x(minutes: float) -> float:
        return round(LEFT + minutes / end * (WIDTH - LEFT - RIGHT), 1)

    for place, panel in enumerate(panels):
        parts += _panel(panel, TOP + place * (PANEL + GAP) + 24, x, end, marks)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {height}" role="img">'
    return "\n  ".join([head, f"<style>{STYLE}</style>", *parts]) + "\n</svg>\n"


def _panel(panel: Panel, top: int, x: Callable[[float], float], end: float, marks: Sequence[float]) -> list[str]:
    bottom = top + PANEL - 20
    most = max((value for points in panel.lines.values() for _, value in points), default=1) or 1
    step = _step(most / 4)
    ceiling = math.ceil(most / step) * step

    def y(value: float) -> float:
        return round(bottom - value / ceiling * (bottom - top), 1)

    parts = [f'<text x="16" y="{top - 12}">{panel.title}</text>']
    for place, name in enumerate(panel.lines):
        at = WIDTH - RIGHT - 130 * (len(panel.lines) - place)
        parts.append(f'<circle cx="{at}" cy="{top - 16}" r="5" fill="{COLOURS[place]}"/>')
        parts.append(f'<text x="{at + 10}" y="{top - 12}">{name}</text>')
    for number in range(round(ceiling / step) + 1):
        value = number * step
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value)}" y2="{y(value)}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4}" text-anchor="end">{value:g}</text>')
    minutes = _step(end / 6)
    for at in (number * minutes for number in range(int(end / minutes) + 1)):
        parts += [f'<text x="{x(at)}" y="{bottom + 16}" text-anchor="middle">{at:g} min</text>']
    parts += [f'<line class="mark" x1="{x(at)}" x2="{x(at)}" y1="{top}" y2="{bottom}"/>' for at in marks]
    for place, points in enumerate(panel.lines.values()):
        path = " ".join(f"{x(at)},{y(value)}" for at, value in _fewer(points))
        parts.append(f'<polyline stroke="{COLOURS[place]}" points="{path}"/>')
    return parts


def _fewer(points: Points) -> Points:
    many = math.ceil(len(points) / POINTS) or 1
    return [max(points[start : start + many], key=lambda point: point[1]) for start in range(0, len(points), many)]


def _step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, … that is no smaller."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999)
