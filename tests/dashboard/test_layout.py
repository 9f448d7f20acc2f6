"""How a graph is laid out: asked of the module itself, in the browser."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.dashboard.by_hand import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

WIDTH, HEIGHT, ACROSS, DOWN = 240, 172, 84, 26
_LAYOUT = """async ([vertices, size]) => {
  const { layout } = await import("./assets/layout.js");
  const { places, ...rest } = layout(vertices, size);
  return { ...rest, places: Object.fromEntries(places) };
}"""


@pytest.fixture
def site(page: Page, tmp_path: Path) -> Iterator[Page]:
    with serving(tmp_path) as address:
        page.goto(address)
        yield page


def lay_out(page: Page, graph: dict[str, list[str]]) -> dict[str, Any]:
    vertices = [{"id": name, "inputs": inputs} for name, inputs in graph.items()]
    size = {"width": WIDTH, "height": HEIGHT, "across": ACROSS, "down": DOWN}
    return page.evaluate(_LAYOUT, [vertices, size])


def random_graph(seed: int) -> dict[str, list[str]]:
    chance = random.Random(seed)
    names = [f"v{number}" for number in range(chance.randint(1, 14))]
    inputs = (min(at, chance.choice((0, 1, 1, 1, 2, 3))) for at in itertools.count())
    return {name: chance.sample(names[:at], next(inputs)) for at, name in enumerate(names)}


def test_no_two_vertices_overlap_and_all_are_on_the_canvas(site: Page) -> None:
    for seed in range(40):
        made = lay_out(site, random_graph(seed))
        for place in made["places"].values():
            assert 0 <= place["x"] <= made["width"] - WIDTH
            assert -0.01 <= place["y"] <= made["height"] - HEIGHT + 0.01
        for one, other in itertools.combinations(made["places"].values(), 2):
            beside = abs(one["x"] - other["x"]) >= WIDTH + ACROSS
            assert beside or abs(one["y"] - other["y"]) >= HEIGHT + DOWN - 0.01, seed


def test_every_edge_leads_to_the_right_and_passes_no_vertex(site: Page) -> None:
    for seed in range(40):
        graph = random_graph(seed)
        made = lay_out(site, graph)
        assert sorted((edge["from"], edge["to"]) for edge in made["edges"]) == sorted(
            (source, name) for name, inputs in graph.items() for source in inputs
        )
        for edge in made["edges"]:
            xs = [point["x"] for point in edge["points"]]
            assert xs == sorted(xs)
            # Between two columns edges may go anywhere; within a column they keep clear of its vertices.
            for left, right in zip(edge["points"][1:-1:2], edge["points"][2:-1:2], strict=True):
                for place in made["places"].values():
                    if place["x"] == left["x"]:
                        assert not place["y"] < right["y"] < place["y"] + HEIGHT, seed


def test_chain_is_a_straight_line(site: Page) -> None:
    made = lay_out(site, {"a": [], "b": ["a"], "c": ["b"]})
    assert [place["y"] for place in made["places"].values()] == [0, 0, 0]
    assert made["width"] == 3 * WIDTH + 2 * ACROSS


def test_edges_do_not_cross_where_they_need_not(site: Page) -> None:
    made = lay_out(site, {"a": [], "b": [], "x": ["b"], "y": ["a"]})
    places = made["places"]
    assert (places["a"]["y"] < places["b"]["y"]) == (places["y"]["y"] < places["x"]["y"])


def test_inputs_of_a_vertex_end_below_each_other(site: Page) -> None:
    made = lay_out(site, {"a": [], "b": [], "c": ["a", "b"]})
    ends = [edge["points"][-1]["y"] for edge in made["edges"]]
    assert len(set(ends)) == 2


def test_graph_without_vertices_takes_no_room(site: Page) -> None:
    assert lay_out(site, {}) == {"width": 0, "height": 0, "edges": [], "places": {}}
