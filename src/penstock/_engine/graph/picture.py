"""A job graph as a picture (SVG), for notebooks: vertices in columns by level, and the edges between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.common.notebook import escaped

if TYPE_CHECKING:
    from penstock._engine.graph.job_graph import JobEdge, JobGraph, JobVertex

#: In pixels: the width of a vertex, its margin, the height of a line, and the gaps between columns and rows.
_WIDTH: Final = 190
_MARGIN: Final = 8
_LINE: Final = 16
_ACROSS: Final = 110
_DOWN: Final = 18
#: Characters of an operator's name that fit.
_LETTERS: Final = 26
#: More vertices are no picture any more.
_MOST: Final = 200
#: Operators of a vertex that are named.
_MOST_NAMED: Final = 8


def picture(graph: JobGraph) -> str:
    """Return a job graph as SVG, in the colours of the page that it stands on; a text where it is too large."""
    if len(graph.vertices) > _MOST:
        return f"<p>Job {escaped(repr(graph.name))} has {len(graph.vertices)} vertices: see explain().</p>"
    places = _places(graph)
    width = max(x for x, _ in places.values()) + _WIDTH + 2
    height = max(y + _height(vertex) for vertex, (_, y) in zip(graph.vertices, places.values(), strict=True)) + 2
    parts = [_edge(graph, edge, places) for edge in graph.edges]
    parts += [_vertex(vertex, *places[vertex.id]) for vertex in graph.vertices]
    style = "font-family:sans-serif;font-size:12px;max-width:none"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" style="{style}" '
        f'fill="currentColor"><title>{escaped(graph.name)}</title>{"".join(parts)}</svg>'
    )


def _places(graph: JobGraph) -> dict[int, tuple[int, int]]:
    """Return the left upper corner of each vertex: a column for each level, in which they stand in the job's order."""
    levels = graph.levels()
    heights: dict[int, int] = {}
    places: dict[int, tuple[int, int]] = {}
    for vertex in graph.vertices:
        level = levels[vertex.id]
        y = heights.get(level, 1)
        places[vertex.id] = 1 + level * (_WIDTH + _ACROSS), y
        heights[level] = y + _height(vertex) + _DOWN
    return places


def _lines(vertex: JobVertex) -> list[str]:
    names = [operator.name for operator in vertex.shown]
    more = len(names) - _MOST_NAMED
    names = [*names[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]
    return [name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…" for name in names]


def _height(vertex: JobVertex) -> int:
    return (len(_lines(vertex)) + 1) * _LINE + _MARGIN


def _vertex(vertex: JobVertex, x: int, y: int) -> str:
    lines = [*_lines(vertex), f"parallelism {vertex.parallelism}"]
    box = (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_height(vertex)}" rx="4" fill="none" stroke="currentColor"/>'
    )
    texts = "".join(
        f'<text x="{x + _MARGIN}" y="{y + (number + 1) * _LINE}">{escaped(line)}</text>'
        for number, line in enumerate(lines)
    )
    return f"<g><title>{escaped(vertex.name)}</title>{box}{texts}</g>"


def _edge(graph: JobGraph, edge: JobEdge, places: dict[int, tuple[int, int]]) -> str:
    source, target = places[edge.source], places[edge.target]
    x1, y1 = source[0] + _WIDTH, source[1] + _height(graph.vertices[edge.source]) // 2
    x2, y2 = target[0], target[1] + _height(graph.vertices[edge.target]) // 2
    bend = (x2 - x1) // 2
    tag = "" if edge.output_tag is None else f" {edge.output_tag}"
    label = edge.partitioner.value + tag
    line = f"M{x1},{y1} C{x1 + bend},{y1} {x2 - bend},{y2} {x2 - 6},{y2}"
    arrow = f"M{x2 - 7},{y2 - 4} L{x2},{y2} L{x2 - 7},{y2 + 4} Z"
    text = f'<text x="{x2 - 10}" y="{y2 - 5}" text-anchor="end" opacity="0.6" font-size="10">{escaped(label)}</text>'
    return f'<path d="{line}" fill="none" stroke="currentColor" opacity="0.6"/><path d="{arrow}"/>{text}'
