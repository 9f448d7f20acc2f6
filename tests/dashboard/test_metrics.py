"""The metrics of a job over time, as the page draws them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.dashboard.by_hand import CONVERT, serving, wide_job
from tests.unit.rest.fakes import JOB, FakeControl, at

from penstock._engine.protocol.control import IOMetrics
from penstock._engine.rest.metric_history import MetricHistory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A job that has run for ten minutes, ever faster, with a metric of the user's own."""
    control, now = FakeControl(wide_job()), [0]
    figures = MetricHistory(control, lambda: at(now[0]))  # type: ignore[arg-type]
    for turn in range(100):
        now[0] = turn * 6_000
        view = control.view
        rows = tuple(
            tuple(
                replace(one, last_io=IOMetrics(5000 + 50 * turn, 4000 + (turn % 9) * 90, busy_ms=one.last_io.busy_ms))
                for one in vertex
            )
            for vertex in view.subtasks
        )
        own = {"convert-0": {"unknown currencies": float(turn // 7)}}
        rows = tuple(tuple(replace(one, metrics=own) for one in vertex) for vertex in rows)
        control.view = replace(view, subtasks=rows)
        figures.on_progress(view.progress)
    with serving(tmp_path, control, figures=figures) as address:
        yield address


def charts(page: Page) -> list[str]:
    return [chart.get_attribute("aria-label") or "" for chart in page.locator(".chart svg").all()]


def test_metrics_of_a_vertex_are_drawn_over_time_and_more_are_picked(
    page: Page, address: str, picture: Callable[[str], None]
) -> None:
    page.goto(f"{address}#/job/{JOB}/metrics")
    expect(page.get_by_role("img", name="numRecordsPerSecond")).to_be_visible()
    page.get_by_role("navigation", name="Metrics of").get_by_role("link", name="convert to euros").click()
    line = page.get_by_role("img", name="numRecordsInPerSecond")
    expect(line).to_have_attribute("aria-label", "numRecordsInPerSecond: 19,900/s, from 10,000/s to 19,900/s")
    assert (line.locator("path").get_attribute("d") or "").count("L") == 99
    assert any(re.match("busyTimeMsPerSecond: 82 %", told) for told in charts(page))
    page.get_by_text("Choose metrics").click()
    page.get_by_role("checkbox", name="convert_to_euros.unknown currencies").check()
    expect(page.get_by_role("img", name="convert_to_euros.unknown currencies")).to_be_visible()
    page.get_by_role("checkbox", name="stateSize").uncheck()
    expect(page.get_by_role("img", name="stateSize")).to_have_count(0)
    page.get_by_text("Choose metrics").click()
    picture("metrics")


def test_job_without_an_epoch_says_when_metrics_come(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path, FakeControl(wide_job())) as address:
        page.goto(f"{address}#/job/{JOB}/metrics/{CONVERT}")
        expect(page.get_by_text("There are no metrics yet")).to_be_visible()
