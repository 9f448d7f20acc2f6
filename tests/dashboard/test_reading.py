"""Whether the pages can be read: figures as people write them, and enough contrast in the light and in the dark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from tests.dashboard.by_hand import CONVERT, serving, wide_job
from tests.unit.rest.fakes import FAILURE, JOB, FakeControl, job

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

FIGURES: dict[str, dict[Any, str]] = {
    "duration": {-1: "none", 0: "0 ms", 999: "999 ms", 1500: "1.5 s", 61_000: "1 min 1 s", 3_600_000: "1 h"},
    "bytes": {-1: "none", 0: "0 B", 999: "999 B", 1000: "1.0 kB", 123_456: "123 kB", 50_000_000: "50.0 MB"},
    "rate": {0: "0/s", 0.4: "0/s", 16_800: "16,800/s", 2_340_000: "2.34M/s"},
    "watermark": {
        -(2**63): "none yet",
        2**63 - 1: "end of input",
        5000: "5,000",
        1_795_229_585_000: "2026-11-21 02:53:05",
    },
}

#: Texts whose contrast with the ground behind them is below what WCAG asks for (level AA).
FAINT_TEXTS = """() => {
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const parse = (color) => { const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const over = ([r, g, b, a], below) => [r, g, b].map((c, at) => c * a + below[at] * (1 - a));
  const ground = (element) => element === null ? [255, 255, 255]
    : over(parse(getComputedStyle(element).backgroundColor), ground(element.parentElement));
  return [...document.querySelectorAll("body *")]
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .filter((one) => one.checkVisibility() && !one.closest(".unseen, svg, noscript"))
    .filter((one) => {
      const behind = ground(one);
      const pair = [light(behind), light(over(parse(getComputedStyle(one).color), behind))].sort((a, b) => b - a);
      return (pair[0] + 0.05) / (pair[1] + 0.05) < 4.5;
    })
    .map((one) => one.textContent);
}"""


@pytest.mark.parametrize("kind", FIGURES)
def test_figures_are_written_as_people_read_them(page: Page, tmp_path: Path, kind: str) -> None:
    with serving(tmp_path) as address:
        page.goto(address)
        script = (
            "async ([kind, values]) => { const f = await import('./assets/format.js'); return values.map(f[kind]) }"
        )
        shown = page.evaluate(script, [kind, [float(value) for value in FIGURES[kind]]])
    assert [text.replace("\N{EN DASH}", "none") for text in shown] == list(FIGURES[kind].values())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(page: Page, tmp_path: Path, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    wide = wide_job()
    view = replace(wide, failures=(FAILURE,), checkpoints=job().checkpoints)
    with serving(tmp_path, FakeControl(view)) as address:
        page.goto(f"{address}#/job/{JOB}/graph/{CONVERT}")
        for tab in ("Graph", "Metrics", "Checkpoints", "Exceptions", "Log", "Configuration"):
            page.get_by_role("link", name=tab).click()
            expect(page.get_by_role("region", name=tab, exact=True)).to_be_visible()
            assert page.evaluate(FAINT_TEXTS) == [], tab
        page.get_by_role("button", name="Cancel", exact=True).click()
        assert page.evaluate(FAINT_TEXTS) == []


def test_narrow_page_has_one_line_at_its_top_and_a_graph_that_pans_and_cuts_nothing(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path, FakeControl(replace(wide_job(), failures=(FAILURE,)))) as address:
        page.goto(f"{address}#/job/{JOB}")
        top = page.locator(".top").bounding_box()
        page.set_viewport_size({"width": 400, "height": 800})
        narrow = page.locator(".top").bounding_box()
        assert top is not None
        assert narrow is not None
        assert narrow["height"] == top["height"]
        graph = page.get_by_role("region", name="Graph of the job")
        for card in page.get_by_role("article").all():
            card.scroll_into_view_if_needed()
            box, around = card.bounding_box(), graph.bounding_box()
            assert box is not None
            assert around is not None
            assert around["x"] <= box["x"]
            assert box["x"] + box["width"] <= around["x"] + around["width"]
        for tab in ("Graph", "Metrics", "Checkpoints", "Exceptions", "Log", "Configuration"):
            page.get_by_role("link", name=tab).click()
            expect(page.get_by_role("region", name=tab, exact=True)).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= 400, tab
            tallest = "Math.max(0, ...[...document.querySelectorAll('tr')].map((row) => row.offsetHeight))"
            assert page.evaluate(tallest) < 120, tab


def test_everything_that_can_be_pressed_has_a_name(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path, FakeControl(wide_job())) as address:
        page.goto(f"{address}#/job/{JOB}/checkpoints")
        expect(page.get_by_role("region", name="History of checkpoints")).to_be_visible()
        for role in ("button", "link"):
            for one in page.get_by_role(role).all():
                assert one.inner_text().strip() or one.get_attribute("aria-label")
