"""The drawings of docs/concepts.md are those that docs/images/drawings.py draws, in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from docs.images.drawings import DRAWINGS, LETTER, LINE, PLACE

PAGE = (Path(__file__).parents[2] / "docs" / "concepts.md").read_text(encoding="utf-8")


def test_each_drawing_is_as_it_is_drawn_and_stands_on_the_page_with_a_text() -> None:
    shown = dict(re.findall(r"!\[(.+)\]\(images/concepts/(\w+)\.svg\)", PAGE))
    assert sorted(shown.values()) == sorted(DRAWINGS) == sorted(path.stem for path in PLACE.iterdir())
    for name, draw in DRAWINGS.items():
        assert (PLACE / f"{name}.svg").read_text(encoding="utf-8") == draw().svg(), "python -m docs.images.drawings"


def text_places(root: ElementTree.Element) -> list[tuple[str, float, float, float]]:
    """Return the texts with their left, their right and their line, by the width of a letter of most fonts."""
    places: list[tuple[str, float, float, float]] = []
    for part in root.iter("{http://www.w3.org/2000/svg}text"):
        text, kind, x = part.text or "", part.get("class", ""), float(part.get("x", 0))
        width = len(text) * LETTER
        left = x if "left" in kind else x - width if "end" in kind else x - width / 2
        places.append((text, left, left + width, float(part.get("y", 0))))
    return places


def test_no_text_of_a_drawing_lies_over_another_or_outside() -> None:
    for draw in DRAWINGS.values():
        drawing = draw()
        places = text_places(ElementTree.fromstring(drawing.svg()))
        for number, (text, left, right, line) in enumerate(places):
            assert left >= 0, text
            assert right <= drawing.width, text
            for other, its_left, its_right, its_line in places[:number]:
                assert abs(line - its_line) >= LINE - 2 or right <= its_left or its_right <= left, (text, other)


def test_each_drawing_has_a_ground_for_light_and_for_dark_and_everything_in_view() -> None:
    for draw in DRAWINGS.values():
        drawing = draw()
        root = ElementTree.fromstring(drawing.svg())
        style = root.findtext("{*}style") or ""
        light, _, dark = style.partition("@media (prefers-color-scheme: dark)")
        for kind in ("text", ".ground", ".plain", ".arrow"):
            assert f"{kind} {{" in light
            assert f"{kind} {{" in dark
        for part in root.iter():
            if part.tag.endswith("}rect"):
                right, below = (
                    float(part.get(a, 0)) + float(part.get(b, 0)) for a, b in (("x", "width"), ("y", "height"))
                )
                assert right <= drawing.width
                assert below <= drawing.height
