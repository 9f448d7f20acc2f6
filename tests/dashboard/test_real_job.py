"""A real program on Spark, watched and drained in the browser alone.

This also makes the pictures of docs/dashboard.md:

    PENSTOCK_TEST_PICTURES=docs/images/dashboard python3 dev.py test tests/dashboard --basetemp=/tmp/data
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.spark]

PROGRAM = Path(__file__).with_name("prices.py")
#: Until a job that has just been started has figures, in milliseconds.
START_MS = 60_000


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the program is, and what it writes; people get to see its name in the pictures."""
    return tmp_path_factory.mktemp("prices", numbered=False)


@pytest.fixture
def address(place: Path) -> Iterator[str]:
    """The address that the program tells on its standard error."""
    command = [sys.executable, "-u", str(shutil.copy(PROGRAM, place)), str(place)]
    environment = {**os.environ, "PENSTOCK_REST__TOKEN": "none"}  # standard error is no terminal, so there is no link
    with (
        (place / "output").open("w") as output,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.PIPE, text=True, env=environment
        ) as program,
    ):
        assert program.stderr
        told = [next(program.stderr)]
        while (found := re.search(r"http://\S+", told[-1])) is None:
            told.append(next(program.stderr))
        yield found.group()
        _, rest = program.communicate()
    assert program.returncode == 0, "".join(told) + rest


@pytest.mark.behaviour(176)
def test_newcomer_sees_where_time_goes_drains_the_job_and_reads_why_the_next_one_failed(
    page: Page, address: str, picture: Callable[[str], None], place: Path
) -> None:
    page.goto(address)
    page.get_by_role("link", name="mean prices").click(timeout=START_MS)
    busiest = page.get_by_role("article").filter(has_text="busiest")
    expect(busiest.get_by_role("link")).to_have_text("currency conversion", timeout=START_MS)
    expect(busiest).to_contain_text("/s")
    expect(page.get_by_text("Most of the time goes into")).to_contain_text("currency conversion")
    picture("graph")

    page.get_by_role("button", name="Drain", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("All input ends now")
    picture("drain")
    page.get_by_role("dialog").get_by_role("button", name="Drain the job").click()
    expect(page.get_by_text("The job has drained")).to_be_visible(timeout=START_MS)
    shown = page.locator(".result code").inner_text()
    assert (Path(shown.removeprefix("file:")) / "_metadata").is_file()
    expect(page.locator(".title .badge")).to_have_text("finished")
    picture("drained")
    assert any(path.is_file() for path in (place / "means").rglob("part-*"))

    page.get_by_role("link", name="Checkpoints").click()
    expect(page.get_by_role("region", name="History of checkpoints")).to_contain_text(shown)
    picture("checkpoints")

    page.get_by_role("link", name="Jobs").click()
    failed = page.get_by_role("row").filter(has_text="market shares").filter(has_text="failed")
    failed.wait_for(timeout=START_MS)
    expect(page.get_by_role("row").filter(has_text="mean prices")).to_contain_text("finished")
    picture("jobs")
    failed.get_by_role("link").click()
    page.get_by_role("link", name="Exceptions").click()
    failure = page.get_by_role("article").first
    expect(failure).to_contain_text("ZeroDivisionError")
    expect(failure).to_contain_text("share of the total")
    assert_shows_operator_and_line_first(failure.inner_text())
    picture("exceptions")

    (job_id,) = re.findall("[0-9a-f]{32}", page.url)
    job = f"{address}/v1/jobs/{job_id}"
    (entry,) = httpx.get(f"{job}/exceptions").json()["exceptionHistory"]["entries"]
    assert_shows_operator_and_line_first(entry["stacktrace"])
    cause = httpx.get(f"{job}/execution-result").json()["job-execution-result"]["failure-cause"]
    assert_shows_operator_and_line_first(cause["stack-trace"])
    assert_shows_operator_and_line_first((place / "output").read_text())


def assert_shows_operator_and_line_first(text: str) -> None:
    """Compare what is told of the failure with the program: what failed, where, and only then the traceback."""
    line = next(at for at, code in enumerate(PROGRAM.read_text().splitlines(), 1) if "trade.price - 106" in code)
    operator, place = text.index("share of the total"), text.index(f"prices.py:{line}")
    assert text.index("ZeroDivisionError") < operator < place
    assert "Traceback" not in text[:place]
