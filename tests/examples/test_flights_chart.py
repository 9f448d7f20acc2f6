"""The demo's chart is well-formed and shows what it was given."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from penstock._demo.chart import line_chart, page, spread

LINES = {"above": [0.0, 10.0, 20.0], "below": [-3.0, None, 4.0], "flat": [5.0, 5.0, 5.0]}


def points(name: str) -> list[tuple[float, float]]:
    drawing = ElementTree.fromstring(line_chart("Title", ["1", "2", "3"], LINES))
    line = drawing.findall("{*}polyline")[list(LINES).index(name)]
    return [(float(x), float(y)) for x, y in (point.split(",") for point in line.attrib["points"].split())]


def test_equal_steps_of_a_value_are_equal_steps_on_the_drawing() -> None:
    (x1, y1), (x2, y2), (x3, y3) = points("above")
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert y1 - y2 == pytest.approx(y2 - y3, abs=0.2)
    assert y1 > y2, "greater values stand higher"


def test_place_without_value_is_left_out_of_its_line() -> None:
    assert [x for x, _ in points("below")] == [points("above")[0][0], points("above")[2][0]]


def test_names_that_would_overlap_are_moved_apart() -> None:
    assert spread({"a": 10, "b": 12, "c": 100}, apart=16) == {"a": 10, "b": 26, "c": 100}


def test_text_is_escaped() -> None:
    drawing = line_chart("a < b", ["1", "2"], {"x & y": [1.0, 2.0], "z": [1.0, 2.0], "w": [0.0, 1.0]})
    assert ElementTree.fromstring(drawing).find("{*}text[@class='title']").text == "a < b"
    assert "<title>1 &lt; 2</title>" in page("1 < 2", "", drawing)
