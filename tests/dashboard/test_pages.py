"""What the pages show of jobs made by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Error, expect
from tests.dashboard.by_hand import CONVERT, REFRESH_MS, serving, wide_job
from tests.unit.rest.fakes import JOB, OTHER, START, FakeControl, at, ended, failed, job

from penstock._engine.gateway.job_view import SubtaskView
from penstock._engine.gateway.recovery_view import RecoveryView
from penstock._engine.protocol.metadata import GivenUp
from penstock.common.job_status import JobStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser


@pytest.fixture
def control() -> FakeControl:
    return FakeControl(wide_job())


@pytest.fixture
def address(tmp_path: Path, control: FakeControl) -> Iterator[str]:
    over = replace(ended(JobStatus.FAILED), job_id=OTHER, started=at(1000))
    with serving(tmp_path, control, FakeControl(over)) as address:
        yield address


def cards(page: Page) -> Locator:
    return page.get_by_role("article")


def card(page: Page, name: str) -> Locator:
    return cards(page).filter(has=page.get_by_role("link", name=name, exact=True))


def rows(page: Page, table: str) -> list[str]:
    """The rows of a table, cells with bars between."""
    body = page.get_by_role("region", name=table).locator("tbody tr")
    body.first.wait_for()
    return [" | ".join(cell.strip() for cell in row.locator("th, td").all_inner_texts()) for row in body.all()]


def test_list_has_running_jobs_before_ended_ones_and_leads_to_each(page: Page, address: str) -> None:
    page.goto(address)
    running, over = rows(page, "Jobs")
    assert re.fullmatch(r"prices \| running \| .* \| 200 \| 13 run, 1 finished \| 4", running)
    assert re.fullmatch(r"count words \| failed \| .* \| 4.0 s \| 200 \| 4 subtasks \| 4", over)
    page.get_by_role("link", name="count words").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("count words")
    expect(page).to_have_title("count words · Penstock")


def test_graph_marks_the_busiest_vertex_and_no_other(page: Page, address: str) -> None:
    page.goto(f"{address}#/job/{JOB}")
    expect(cards(page)).to_have_count(7)
    expect(cards(page).get_by_text("busiest")).to_have_count(1)
    expect(card(page, "convert to euros").get_by_text("busiest")).to_be_visible()
    expect(page.get_by_text("Most of the time goes into convert to euros")).to_contain_text("works 87 % of the time")
    expect(card(page, "convert to euros").get_by_role("meter", name="Busy")).to_have_attribute("aria-valuenow", "87")


def test_job_that_failed_in_its_first_epoch_is_not_said_to_have_read_nothing(page: Page, tmp_path: Path) -> None:
    view = ended(JobStatus.FAILED)
    idle = tuple(tuple(SubtaskView() for _ in subtasks) for subtasks in view.subtasks)
    with serving(tmp_path, FakeControl(replace(view, subtasks=idle))) as address:
        page.goto(f"{address}#/job/{JOB}")
        expect(page.get_by_text("The job ended before its first epoch was over.")).to_be_visible()


def test_card_has_counts_rates_watermark_and_finished_subtasks(page: Page, address: str) -> None:
    page.goto(f"{address}#/job/{JOB}")
    text = card(page, "parse -> with timestamps").inner_text()
    assert re.search(r"Busy\s+22 %\s*waits 48 %", text)
    assert re.search(r"In\s+2,469,134\s*16,800/s", text)
    assert re.search(r"Out\s+2,400,000\s*16,600/s", text)
    assert re.search(r"Watermark\s+2026-11-21 02:53:05", text)
    expect(card(page, "Source: rates -> only known currencies")).to_contain_text("✓ 1 of 2 finished")
    expect(page.locator(".canvas path.edge")).to_have_count(6)


def test_late_records_that_were_dropped_are_told_with_their_operators(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path, FakeControl(job(late_records={"write": 1234}))) as address:
        page.goto(f"{address}#/job/{JOB}")
        expect(page.get_by_text("1,234")).to_be_visible()
        expect(page.get_by_title("Sum: 1,234")).to_be_visible()


def test_what_a_batch_job_has_recovered_is_told_with_its_operators(page: Page, tmp_path: Path) -> None:
    known = RecoveryView(3, recovered={0: 2}, ran_again={1: 1})
    with serving(tmp_path, FakeControl(replace(job(), stage=frozenset({1}), recovery=known))) as address:
        page.goto(f"{address}#/job/{JOB}")
        expect(page.get_by_title("Source: <numbers>: 2")).to_contain_text("2")
        expect(page.get_by_title("Sum -> Sink: out: 1")).to_contain_text("1")
        expect(page.get_by_text("created")).to_be_visible()


def test_committables_that_were_given_up_are_told_with_their_sink_and_reason(page: Page, tmp_path: Path) -> None:
    given_up = (GivenUp("out", "Sink: out", 3, 7, 1234, "TimeoutError('expired')"),)
    with serving(tmp_path, FakeControl(job(given_up=given_up))) as address:
        page.goto(f"{address}#/job/{JOB}")
        expect(page.get_by_text("1,234")).to_be_visible()
        told = "Sink: out (uid out), #3 to #7: 1,234 in no output, TimeoutError('expired')"
        expect(page.get_by_title(told)).to_be_visible()


def test_names_of_a_program_are_shown_as_text(page: Page, address: str) -> None:
    page.goto(f"{address}#/job/{JOB}")
    expect(card(page, "<b>odd</b> & strange -> Sink: set aside")).to_be_visible()
    assert page.locator("main b").count() == 0


def test_operators_of_a_vertex_stay_short_rows_in_a_narrow_window(page: Page, address: str) -> None:
    page.set_viewport_size({"width": 420, "height": 800})
    page.goto(f"{address}#/job/{JOB}")
    page.get_by_role("link", name="parse -> with timestamps").click()
    uid = "c2e34a6bc49d4cc4a7c805f7c0ebe725"
    row = page.get_by_role("region", name="Operators of this vertex").locator("tbody tr").first
    row.evaluate("(row, uid) => { row.cells[0].textContent = uid; row.cells[1].firstChild.textContent = uid; }", uid)
    box = row.bounding_box()
    assert box is not None
    assert box["height"] < 100


def test_vertex_opens_with_its_operators_lines_and_subtasks(page: Page, address: str) -> None:
    page.goto(f"{address}#/job/{JOB}")
    page.get_by_role("link", name="parse -> with timestamps").click()
    assert rows(page, "Operators of this vertex") == [
        "parse | parse-0 | prices.py:20",
        "with timestamps | parse-1 | prices.py:21",
    ]
    first, second = rows(page, "Subtasks of this vertex")
    assert first == "0 | running | 22 % | 48 % | 1,234,567 | 1,200,000 | 50.0 MB | 48.0 MB | 2026-11-21 02:53:05"
    assert second.startswith("1 | running | 12 % | 48 %")
    page.get_by_role("link", name="Close").click()
    expect(page.get_by_role("region", name="Subtasks of this vertex")).to_have_count(0)


def test_checkpoints_have_sizes_durations_paths_and_pending_commits(page: Page, address: str) -> None:
    page.goto(f"{address}#/job/{OTHER}/checkpoints")
    history = [
        re.sub(r"1970-[^|]*", "… ", row).replace("\N{EN DASH}", "none") for row in rows(page, "History of checkpoints")
    ]
    assert history == [
        "#5 | checkpoint | in progress | … | none | 0 B | 0 B | 0 of 4 | ",
        f"#4 | checkpoint | completed | … | 350 ms | 40 B | 400 B | 4 | file:/cp/{JOB}/chk-4",
        "#4 | checkpoint | failed | … | 350 ms | 0 B | 0 B | 0 of 4 | lost",
        f"#3 | savepoint | completed | … | 350 ms | 40 B | 400 B | 4 | file:/sp/savepoint-{JOB[:6]}-1",
        "#3 | checkpoint | completed | … | 350 ms | 40 B | 400 B | 4 | removed: newer ones took its place",
    ]
    assert rows(page, "Pending commits") == ["out | 2"]
    expect(page.get_by_text("A checkpoint every 1.0 s")).to_contain_text("kept after the job's end")


def test_epoch_that_failed_again_and_again_has_a_row_for_each_attempt(page: Page, tmp_path: Path) -> None:
    attempts = tuple(replace(failed(2), triggered=at(ms), failure=f"lost at {ms}") for ms in (300, 200, 100))
    view = job()
    control = FakeControl(replace(view, checkpoints=replace(view.checkpoints, history=attempts)))
    page.clock.install()
    with serving(tmp_path, control) as address:
        page.goto(f"{address}#/job/{JOB}/checkpoints")
        shown = rows(page, "History of checkpoints")
        assert [row.rsplit(" | ")[-1] for row in shown] == ["lost at 300", "lost at 200", "lost at 100"]
        control.view = replace(control.view, progress=replace(control.view.progress, records=345_678))
        page.clock.fast_forward(REFRESH_MS)
        expect(page.get_by_text("345,678", exact=True)).to_be_visible()
        assert rows(page, "History of checkpoints") == shown


def test_path_of_the_last_savepoint_is_copied_by_its_button(page: Page, address: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}#/job/{OTHER}/checkpoints")
    page.get_by_role("button", name="Copy the path of: Last savepoint").click()
    assert page.evaluate("navigator.clipboard.readText()") == f"file:/sp/savepoint-{JOB[:6]}-1"


def test_job_without_checkpoints_says_how_to_have_some(page: Page, tmp_path: Path) -> None:
    view = job()
    without = replace(view.checkpoints, settings=replace(view.checkpoints.settings, enabled=False))
    with serving(tmp_path, FakeControl(replace(view, checkpoints=without))) as address:
        page.goto(f"{address}#/job/{JOB}/checkpoints")
        expect(page.get_by_text("This job keeps no checkpoints")).to_contain_text("execution.checkpointing.dir")


def test_failure_tells_error_operator_and_line_before_its_traceback(page: Page, address: str) -> None:
    page.goto(f"{address}#/job/{OTHER}/exceptions")
    text = cards(page).inner_text()
    parts = ("ZeroDivisionError: division by zero", "Sum, subtask 1", "job.py:12", "(7, 0)")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert places[-1] < text.index("Traceback: user line")


def test_what_was_folded_in_stays_so_when_the_page_is_refreshed(page: Page, address: str) -> None:
    page.clock.install()
    page.goto(f"{address}#/job/{OTHER}/exceptions")
    page.get_by_text("Traceback", exact=True).click()
    expect(page.get_by_text("Traceback: user line")).to_be_hidden()
    before = page.locator("#freshness").inner_text()
    page.clock.fast_forward(REFRESH_MS)
    expect(page.locator("#freshness")).not_to_have_text(before)
    expect(page.get_by_text("Traceback: user line")).to_be_hidden()


def test_configuration_is_filtered_by_keys_and_values(page: Page, address: str) -> None:
    page.goto(f"{address}#/job/{JOB}/configuration")
    assert rows(page, "Keys and values") == [
        "parallelism.default | 2 | the program | 1",
        "penstock.rest.token | ****** | the program | ",
    ]
    page.get_by_role("searchbox", name="Filter").fill("PARALLELISM")
    assert rows(page, "Keys and values") == ["parallelism.default | 2 | the program | 1"]
    page.get_by_role("checkbox", name="Defaults, too").check()
    assert "pipeline.max-parallelism | -1 | default | -1" in rows(page, "Keys and values")
    page.get_by_role("searchbox", name="Filter").fill("nothing of the kind")
    expect(page.get_by_text("No key or value has that in it.")).to_be_visible()


def test_cluster_without_executors_is_told_while_it_has_none(page: Page, tmp_path: Path) -> None:
    since: list[int | None] = [START + 5_000]
    with serving(tmp_path, FakeControl(wide_job()), no_executors_since=lambda: since[0]) as address:
        page.clock.install()
        page.goto(f"{address}#/job/{JOB}")
        notice = page.get_by_text("No executors since")
        expect(notice).to_contain_text("tasks wait for the cluster")
        since[0] = None
        page.clock.fast_forward(REFRESH_MS)
        expect(notice).to_be_hidden()


def test_figures_follow_the_job_without_a_reload(page: Page, address: str, control: FakeControl) -> None:
    page.clock.install()
    page.goto(f"{address}#/job/{JOB}")
    expect(page.get_by_text("200", exact=True)).to_be_visible()
    control.view = replace(control.view, progress=replace(control.view.progress, records=345_678))
    page.clock.fast_forward(REFRESH_MS)
    expect(page.get_by_text("345,678", exact=True)).to_be_visible()


def test_cards_can_be_reached_and_opened_by_keyboard(page: Page, address: str) -> None:
    page.goto(f"{address}#/job/{JOB}")
    page.get_by_role("link", name="Source: trades").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2, name="Source: trades")).to_be_visible()
    assert page.evaluate("document.activeElement.textContent") == "Source: trades"


def test_unknown_job_is_told_with_a_way_back(page: Page, address: str) -> None:
    page.goto(f"{address}#/job/{'f' * 32}")
    expect(page.get_by_role("status").first).to_contain_text(f"Job {'f' * 32} not found")
    page.get_by_role("link", name="All jobs").click()
    expect(page.get_by_role("region", name="Jobs")).to_be_visible()


def test_page_keeps_what_it_knows_when_the_driver_is_gone(page: Page, tmp_path: Path) -> None:
    page.clock.install()
    with serving(tmp_path, FakeControl(wide_job())) as address:
        page.goto(f"{address}#/job/{JOB}")
        expect(cards(page)).to_have_count(7)
    page.clock.fast_forward(REFRESH_MS)
    expect(page.get_by_role("status").first).to_contain_text("The driver does not answer")
    expect(page.locator(".title .badge")).to_have_text("lost")
    expect(page.get_by_text("penstock list --all")).to_be_visible()
    expect(page.get_by_text("If it is gone, resume it with")).to_contain_text(f"penstock run -s /cp/{JOB}/chk-412")
    expect(page.locator("main").get_by_text("running", exact=True)).to_have_count(0)
    page.get_by_role("link", name="Checkpoints").click()
    expect(page.get_by_role("region", name="History of checkpoints")).to_be_visible()


def test_page_of_the_api_is_one_click_away(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name="API").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("REST API")
    expect(page.get_by_text("/jobs/overview", exact=True).first).to_be_visible()


def test_page_of_the_api_says_that_its_document_cannot_be_read(page: Page, address: str) -> None:
    page.route("**/openapi.json", lambda route: route.abort())
    page.goto(address)
    page.get_by_role("link", name="API").click()
    expect(page.locator("#about")).to_contain_text("cannot be read")


def test_pages_ask_nobody_but_their_own_server(page: Page, address: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}#/job/{JOB}/graph/{CONVERT}")
    expect(page.get_by_role("region", name="Subtasks of this vertex")).to_be_visible()
    assert asked
    assert all(url.startswith(address) for url in asked)


def test_policy_keeps_html_out_of_text_and_scripts_out_of_the_page(page: Page, address: str, errors: list[str]) -> None:
    page.goto(address)
    with pytest.raises(Error, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<p>x</p>'")
    assert "requires 'TrustedHTML'" in errors.pop()
    with pytest.raises(Error, match="TrustedScript"):
        page.evaluate("document.body.setAttribute('onclick', 'document.title = 1')")
    assert "requires 'TrustedScript'" in errors.pop()
