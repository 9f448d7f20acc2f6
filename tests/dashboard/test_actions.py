"""The buttons of a running job: what they say, what they ask for, and what they show of the outcome."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from playwright.sync_api import expect
from tests.dashboard.by_hand import REFRESH_MS, serving, wide_job
from tests.unit.rest.fakes import JOB, FakeControl, at, ended

from penstock._engine.protocol.control import StopMode
from penstock.common.job_status import JobStatus
from penstock.errors import SavepointError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

SAVEPOINT = "/sp/savepoint-b484b4-0123456789ab"
PATIENCE_S: Final = 30


@pytest.fixture
def control() -> FakeControl:
    view = wide_job()
    return FakeControl(replace(view, configuration={"execution.checkpointing.savepoint-dir": "/sp"}))


@pytest.fixture
def opened(page: Page, tmp_path: Path, control: FakeControl) -> Iterator[Page]:
    """The page of the job."""
    with serving(tmp_path, control) as address:
        page.goto(f"{address}#/job/{JOB}")
        yield page


def confirm(page: Page, button: str, answer: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name=answer).click()


def first_of(arriving: list[Any]) -> Any:
    """Return what a request of the page leaves; the page says what it does before its request is here."""
    deadline = time.monotonic() + PATIENCE_S
    while not arriving:
        assert time.monotonic() < deadline, "the page has not asked"
        time.sleep(0.01)
    return arriving[0]


def answer(control: FakeControl) -> Future[Any]:
    """Return the answer that the page waits for."""
    return first_of(control.answers)


@pytest.mark.parametrize(
    ("button", "happens", "after"),
    [
        ("Savepoint", "The job runs on", "start this job, or a changed version of it"),
        ("Stop", "stay in a savepoint, and the job ends as FINISHED", "it continues exactly where it stopped"),
        ("Drain", "timers fire, windows close", "This is for good"),
        ("Cancel", "ends as CANCELED, without a savepoint", "Its checkpoint #4 is kept"),
    ],
)
def test_button_says_what_will_happen_and_does_nothing_unless_confirmed(
    opened: Page, control: FakeControl, button: str, happens: str, after: str
) -> None:
    opened.get_by_role("button", name=button, exact=True).click()
    dialog = opened.get_by_role("dialog")
    expect(dialog).to_contain_text(happens)
    expect(dialog).to_contain_text(after)
    expect(dialog.get_by_role("button", name="Leave it as it is")).to_be_focused()
    opened.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert control.asked == []


def test_drain_shows_the_path_of_its_savepoint_and_the_end_of_the_job(opened: Page, control: FakeControl) -> None:
    confirm(opened, "Drain", "Drain the job")
    expect(opened.get_by_text("Draining …")).to_be_visible()
    savepoint = answer(control)
    assert control.asked == [("savepoint", "/sp", StopMode.DRAIN)]
    control.view = ended(JobStatus.FINISHED)
    savepoint.set_result(SAVEPOINT)
    expect(opened.get_by_text("The job has drained")).to_be_visible()
    expect(opened.get_by_text(f"file:{SAVEPOINT}", exact=True)).to_be_visible()
    expect(opened.locator(".title .badge")).to_have_text("finished")
    expect(opened.get_by_role("button", name="Drain", exact=True)).to_have_count(0)


def test_outcome_of_a_stop_survives_the_driver_and_a_reload_meanwhile(
    page: Page, tmp_path: Path, control: FakeControl
) -> None:
    page.clock.install()
    with serving(tmp_path, control) as address:
        page.goto(f"{address}#/job/{JOB}")
        confirm(page, "Stop", "Stop the job")
        expect(page.get_by_text("Stopping …")).to_be_visible()
        savepoint = answer(control)
        assert control.asked == [("savepoint", "/sp", StopMode.SUSPEND)]
        page.reload()
        expect(page.get_by_text("Stopping …")).to_be_visible()
        savepoint.set_result(SAVEPOINT)
        expect(page.get_by_text("The job has stopped")).to_be_visible()
    page.clock.fast_forward(REFRESH_MS)
    expect(page.get_by_role("status").first).to_contain_text("The driver does not answer")
    expect(page.get_by_text(f"file:{SAVEPOINT}", exact=True)).to_be_visible()
    expect(page.locator(".title .badge")).to_have_text("finished")


def test_job_that_was_started_again_is_not_taken_for_the_one_that_was_stopped(
    opened: Page, control: FakeControl
) -> None:
    confirm(opened, "Stop", "Stop the job")
    expect(opened.get_by_text("Stopping …")).to_be_visible()
    answer(control).set_result(SAVEPOINT)
    expect(opened.locator(".title .badge")).to_have_text("finished")
    control.view = replace(control.view, started=at(60_000))
    opened.reload()
    expect(opened.locator(".title .badge")).to_have_text("running")
    expect(opened.get_by_text(f"file:{SAVEPOINT}", exact=True)).to_have_count(0)
    expect(opened.get_by_role("button", name="Stop", exact=True)).to_be_enabled()


def test_savepoint_goes_where_the_field_says_and_the_job_goes_on(opened: Page, control: FakeControl) -> None:
    opened.get_by_role("button", name="Savepoint", exact=True).click()
    field = opened.get_by_role("textbox", name="Directory of the savepoint")
    expect(field).to_have_value("/sp")
    field.fill("/elsewhere")
    opened.get_by_role("button", name="Make a savepoint").click()
    expect(opened.get_by_text("Making a savepoint …")).to_be_visible()
    savepoint = answer(control)
    assert control.asked == [("savepoint", "/elsewhere", StopMode.NO)]
    savepoint.set_result(SAVEPOINT)
    expect(opened.get_by_text(f"file:{SAVEPOINT}", exact=True)).to_be_visible()
    expect(opened.locator(".title .badge")).to_have_text("running")
    opened.get_by_role("button", name="Dismiss").click()
    expect(opened.get_by_text(f"file:{SAVEPOINT}", exact=True)).to_have_count(0)


def test_stop_that_fails_says_why_and_leaves_the_job_running(opened: Page, control: FakeControl) -> None:
    confirm(opened, "Stop", "Stop the job")
    expect(opened.get_by_text("Stopping …")).to_be_visible()
    answer(control).set_exception(SavepointError("/sp", "the disk is full"))
    expect(opened.get_by_text("The job was not stopped.")).to_be_visible()
    expect(opened.get_by_text("the disk is full")).to_be_visible()
    expect(opened.get_by_role("button", name="Stop", exact=True)).to_be_enabled()
    expect(opened.locator(".title .badge")).to_have_text("running")


def test_cancel_asks_for_no_directory(opened: Page, control: FakeControl) -> None:
    opened.get_by_role("button", name="Cancel", exact=True).click()
    expect(opened.get_by_role("dialog").get_by_role("textbox")).to_have_count(0)
    opened.get_by_role("button", name="Cancel the job").click()
    expect(opened.get_by_text("The job was asked to cancel.")).to_be_visible()
    assert first_of(control.asked) == ("cancel",)
    assert len(control.asked) == 1


def test_no_savepoint_can_be_asked_for_without_a_directory(page: Page, tmp_path: Path) -> None:
    control = FakeControl(wide_job(), savepoint_directory=None)
    with serving(tmp_path, control) as address:
        page.goto(f"{address}#/job/{JOB}")
        confirm(page, "Stop", "Stop the job")
        expect(page.get_by_role("dialog")).to_be_visible()
        assert control.asked == []


def test_token_is_asked_for_once_and_again_when_it_is_wrong(page: Page, tmp_path: Path, control: FakeControl) -> None:
    with serving(tmp_path, control, token="open-sesame-0123456") as address:
        page.goto(f"{address}#/job/{JOB}")
        dialog = page.get_by_role("dialog", name="This server wants a token")
        dialog.get_by_label("Token", exact=True).fill("open-barley-0123456")
        dialog.get_by_role("button", name="Use this token").click()
        expect(dialog).to_contain_text("That was not the right one.")
        dialog.get_by_label("Token", exact=True).fill("open-sesame-0123456")
        dialog.get_by_role("button", name="Use this token").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("prices")
        page.reload()
        expect(page.get_by_role("heading", level=1)).to_have_text("prices")
        expect(dialog).to_be_hidden()


def test_link_lets_the_page_in_once_and_leaves_no_trace_in_the_address(
    page: Page, tmp_path: Path, control: FakeControl
) -> None:
    token = "open-sesame-0123456"
    with serving(tmp_path, control, token=token) as address:
        bearer = {"Authorization": f"Bearer {token}"}
        link = f"{address}#code={httpx.post(f'{address}penstock/code', headers=bearer).json()['code']}"
        page.goto(link)
        expect(page.get_by_role("link", name="prices")).to_be_visible()
        assert page.url == f"{address}#/"
        page.reload()
        expect(page.get_by_role("link", name="prices")).to_be_visible()
        assert page.context.cookies() == []
        other = page.context.new_page()  # of the same browser, and yet it has to have a link of its own
        other.goto(link)
        expect(other.get_by_role("dialog", name="This server wants a token")).to_be_visible()
        other.close()


def test_page_about_the_api_works_under_the_policy(page: Page, tmp_path: Path) -> None:
    with serving(tmp_path) as address:
        page.goto(f"{address}api")
        page.get_by_text("/jobs/overview", exact=True).click()
        expect(page.get_by_text("200:").locator("visible=true").first).to_be_visible()
