"""The runs of Nexmark as a table and a chart: ``python benchmarks/nexmark/report.py --chart docs/images/nexmark.svg``.

Only slopes are told, the difference of two runs of unlike sizes, so without start-up; of several pairs the median, and
the least and the greatest. Ratios are taken within a pair.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
RUNS = HERE.parents[1] / ".bench" / "nexmark" / "runs.jsonl"
TIMES_PYFLINK, TIMES_FLOOR, TIMES_BYTEWAX = 10, 2, 3

NAMES = {
    "q0": "pass bids on",
    "q1": "prices in euros",
    "q2": "bids of some auctions",
    "q3": "who sells in three states",
    "q4": "mean of winning bids",
    "q5": "hot items, sliding windows",
    "q7": "highest bids, tumbling windows",
    "q8": "new sellers, tumbling windows",
    "q9": "winning bids",
    "q11": "sessions of bidders",
    "q13": "join with a side input",
    "q14": "filter and calculate",
    "q16": "distinct counts of channels",
    "q17": "statistics of auctions",
    "q18": "last bid of a bidder",
    "q19": "ten best bids",
    "q20": "bids with their auction",
}
SYSTEMS = {
    "plain": ("plain Python", "#7a7a7a"),
    "penstock": ("Penstock", "#0072b2"),
    "bytewax": ("Bytewax", "#009e73"),
    "spark": ("Structured Streaming", "#cc79a7"),
    "pyflink-thread": ("PyFlink, thread mode", "#d55e00"),
    "pyflink-process": ("PyFlink, process mode", "#e69f00"),
}


class Slope(NamedTuple):
    """Microseconds an event, by processor and by the clock."""

    processor: float
    clock: float


Pair = dict[str, Slope]


def pairs_of(path: Path) -> dict[str, dict[str, list[Pair]]]:
    """Return the whole pairs by query and system, each with the slopes of Penstock and of the system."""
    runs: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for line in path.read_text().splitlines():
        run = json.loads(line)
        runs[run["query"], run["pair"]][run["system"]].append(run)
    found: dict[str, dict[str, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    for (query, pair), systems in runs.items():
        slopes = {name: _slope(*two) for name, two in systems.items() if len(two) == 2}
        other = pair.split("-", 2)[2]
        if len(slopes) == 2 and other in slopes:
            found[query][other].append(slopes)
    return found


def _slope(small: dict[str, Any], large: dict[str, Any]) -> Slope:
    events = large["events"] - small["events"]
    return Slope(*((large[what] - small[what]) / events * 1e6 for what in ("processor", "seconds")))


def _ratios(pairs: list[Pair], other: str, what: str, *, upside_down: bool = False) -> list[float]:
    ratios = [getattr(pair[other], what) / getattr(pair["penstock"], what) for pair in pairs]
    return sorted(1 / ratio if upside_down else ratio for ratio in ratios)


def _spread(values: list[float]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{median(values):.1f} ({values[0]:.1f} to {values[-1]:.1f})"


def _middle(pairs: list[Pair], system: str) -> float | None:
    return median(pair[system].processor for pair in pairs) if pairs else None


def table(found: dict[str, dict[str, list[Pair]]]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| Query | | Penstock | beside PyFlink, threads | by the clock | beside its processes | of the floor | bar |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for query, name in NAMES.items():
        of = found.get(query)
        if of is None:
            continue
        ours = _middle([pair for pairs in of.values() for pair in pairs], "penstock")
        thread, process, floor = (
            _ratios(of["pyflink-thread"], "pyflink-thread", "processor"),
            _ratios(of["pyflink-process"], "pyflink-process", "processor"),
            _ratios(of["plain"], "plain", "processor", upside_down=True),
        )
        met = (thread and median(thread) >= TIMES_PYFLINK) or (floor and median(floor) <= TIMES_FLOOR)
        clock = _spread(_ratios(of["pyflink-thread"], "pyflink-thread", "clock"))
        cells = [
            f"{ours:.1f}",
            _spread(thread),
            clock,
            _spread(process),
            _spread(floor),
            "met" if met else "**not met**" if thread and floor else "open",
        ]
        lines.append(f"| {query.upper()} | {name} | {' | '.join(cells)} |")
    others = [("bytewax", TIMES_BYTEWAX), ("spark", 0)]
    for other, bar in others:
        rows = [query for query in NAMES if found.get(query, {}).get(other)]
        if rows:
            title = SYSTEMS[other][0]
            lines += ["", f"| Query | beside {title}, processor | by the clock | bar |", "| --- | --- | --- | --- |"]
        for query in rows:
            pairs = found[query][other]
            ratios = _ratios(pairs, other, "processor")
            verdict = "" if not bar else f"{bar}: " + ("met" if median(ratios) >= bar else "not met")
            lines.append(
                f"| {query.upper()} | {_spread(ratios)} | {_spread(_ratios(pairs, other, 'clock'))} | {verdict} |"
            )
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------------------ the chart

WIDTH, LEFT, RIGHT, TOP, ROW = 860, 270, 30, 92, 24
STYLE = """
    .chart { background: #fff } .chart text { font: 13px system-ui, sans-serif; fill: #555 }
    .chart .title { font-size: 17px; font-weight: 600; fill: #222 } .chart .grid { stroke: #e4e4e4 }
    @media (prefers-color-scheme: dark) {
      .chart { background: #16181d } .chart text { fill: #aaa } .chart .title { fill: #eee }
      .chart .grid { stroke: #2b2e35 }
    }
  """


def chart(found: dict[str, dict[str, list[Pair]]]) -> str:
    """Return a drawing: a row for each query, a dot for each system, on a logarithmic scale."""
    dots = {query: _dots(found[query]) for query in NAMES if query in found}
    values = [value for of in dots.values() for value in of.values()]
    low, high = math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1
    height = TOP + ROW * len(dots) + 20

    def x(value: float) -> float:
        return round(LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT), 1)

    parts = ['<text class="title" x="16" y="26">Nexmark: processor time of an event, µs (less is better)</text>']
    shown = [name for name in SYSTEMS if any(name in of for of in dots.values())]
    for place, name in enumerate(shown):
        at = 22 + place % 4 * 200, 48 + place // 4 * 18
        parts.append(f'<circle cx="{at[0]}" cy="{at[1]}" r="5" fill="{SYSTEMS[name][1]}"/>')
        parts.append(f'<text x="{at[0] + 12}" y="{at[1] + 4}">{SYSTEMS[name][0]}</text>')
    for value in (step * 10**power for power in range(math.floor(low), math.ceil(high) + 1) for step in (1, 2, 5)):
        if low <= math.log10(value) <= high:
            parts.append(f'<line class="grid" x1="{x(value)}" x2="{x(value)}" y1="{TOP}" y2="{height - 16}"/>')
            parts.append(f'<text x="{x(value)}" y="{TOP - 6}" text-anchor="middle">{value:g}</text>')
    for row, (query, of) in enumerate(dots.items()):
        y = TOP + ROW * row + ROW // 2
        parts.append(f'<text x="16" y="{y + 4}">{query.upper()} {NAMES[query]}</text>')
        parts.append(f'<line class="grid" x1="{x(min(of.values()))}" x2="{x(max(of.values()))}" y1="{y}" y2="{y}"/>')
        parts += [
            f'<circle cx="{x(value)}" cy="{y}" r="5" fill="{SYSTEMS[name][1]}"/>'
            for name, value in sorted(of.items(), key=lambda one: one[0] == "penstock")
        ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {height}" role="img">'
    return "\n  ".join([head, f"<style>{STYLE}</style>", *parts]) + "\n</svg>\n"


def _dots(of: dict[str, list[Pair]]) -> dict[str, float]:
    found = {name: _middle(of.get(name, []), name) for name in SYSTEMS if name != "penstock"}
    found["penstock"] = _middle([pair for pairs in of.values() for pair in pairs], "penstock")
    return {name: max(value, 0.1) for name, value in found.items() if value is not None}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chart", type=Path, help="the drawing to write")
    arguments = parser.parse_args()
    found = pairs_of(RUNS)
    if arguments.chart:
        arguments.chart.write_text(chart(found))
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
