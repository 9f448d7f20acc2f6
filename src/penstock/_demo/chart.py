"""A line chart as SVG, and a page around it: text and nothing else, so that any browser shows it without a network."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 46, 96, 52, 40
COLOURS = ("#0072b2", "#d55e00", "#009e73")  # can be told apart by colour-blind eyes as well
STYLE = """
    .chart { background: #fff } .chart text { font: 13px system-ui, sans-serif; fill: #555 }
    .chart .title { font-size: 17px; font-weight: 600; fill: #222 } .chart .name { font-weight: 600 }
    .chart .grid { stroke: #e4e4e4 } .chart .zero { stroke: #999 }
    @media (prefers-color-scheme: dark) {
      .chart { background: #16181d } .chart text { fill: #aaa } .chart .title { fill: #eee }
      .chart .grid { stroke: #2b2e35 } .chart .zero { stroke: #666 }
    }
  """

Line = list[float | None]


@dataclass(frozen=True)
class Scale:
    """Where a value of a place stands on the drawing."""

    places: int
    low: int
    high: int

    def x(self, place: int) -> float:
        return round(LEFT + place * (WIDTH - LEFT - RIGHT) / (self.places - 1), 1)

    def y(self, value: float) -> float:
        return round(TOP + (self.high - value) * (HEIGHT - TOP - BOTTOM) / (self.high - self.low), 1)


def line_chart(title: str, labels: Sequence[str], lines: dict[str, Line], step: int = 5) -> str:
    """Draw one line for each name.

    Args:
        title: What stands above the chart.
        labels: The names of the places on the horizontal axis.
        lines: One value for each place; None leaves the place out of its line.
        step: From one horizontal grid line to the next.
    """
    values = [value for line in lines.values() for value in line if value is not None]
    low, high = (int(value // step) * step for value in (min(0.0, *values), max(values) + step))
    scale = Scale(len(labels), low, high)
    parts = [f'<text class="title" x="{LEFT}" y="26">{escape(title)}</text>', *axes(labels, scale, step)]
    names_at = spread({name: scale.y(last_value(line)) for name, line in lines.items()})
    for (name, line), colour in zip(lines.items(), COLOURS, strict=True):
        points = " ".join(f"{scale.x(at)},{scale.y(value)}" for at, value in enumerate(line) if value is not None)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        where = f'x="{WIDTH - RIGHT + 8}" y="{names_at[name] + 4}"'
        parts.append(f'<text class="name" {where} style="fill:{colour}">{escape(name)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    return "\n  ".join([head, f"<style>{STYLE}</style>", *parts]) + "\n</svg>\n"


def axes(labels: Sequence[str], scale: Scale, step: int) -> list[str]:
    parts: list[str] = []
    for value in range(scale.low, scale.high + 1, step):
        y = scale.y(value)
        parts.append(
            f'<line class="{"grid" if value else "zero"}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        )
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value}</text>')
    return parts + [
        f'<text x="{scale.x(place)}" y="{HEIGHT - 14}" text-anchor="middle">{escape(labels[place])}</text>'
        for place in range(0, scale.places, 2)
    ]


def last_value(line: Line) -> float:
    return [value for value in line if value is not None][-1]


def spread(places: dict[str, float], apart: float = 16) -> dict[str, float]:
    """Move names that stand too close to each other apart, downwards."""
    for upper, lower in pairwise(sorted(places, key=places.__getitem__)):
        places[lower] = max(places[lower], places[upper] + apart)
    return places


def page(title: str, text: str, svg: str) -> str:
    """Put a heading and a paragraph before a drawing and make a page of it."""
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem }}</style>
<h1>{escape(title)}</h1>
<p>{escape(text)}</p>
{svg}</html>
"""
