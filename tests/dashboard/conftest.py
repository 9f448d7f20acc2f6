"""A headless Chromium, one for each module, with a new profile; and pages in it that must not report an error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.services.tools import BROWSERS, browser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, ConsoleMessage, Page

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
#: How long a page may take to show what a test waits for; a busy machine needs some of it.
PATIENCE_MS = 20_000
#: The directory that pictures for the documentation are written to; none are made where it is not set.
PICTURES = "PENSTOCK_TEST_PICTURES"


# Not one for the whole run: as long as Playwright is there, no other test could run an event loop.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser; tests that need it are skipped where there is none."""
    path = browser()
    if path is None:
        pytest.skip(f"no browser: install Debian's package chromium, or put one of {', '.join(BROWSERS)} on the PATH")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def errors() -> list[str]:
    """What a page has reported as an error; what a test leaves in there fails it."""
    return []


@pytest.fixture
def page(chromium: Browser, errors: list[str]) -> Iterator[Page]:
    """A page with a profile of its own."""
    context = chromium.new_context(viewport={"width": 1200, "height": 640}, color_scheme="light", timezone_id="UTC")
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()

    def note(message: ConsoleMessage) -> None:
        # The browser itself reports answers that are no success, and a server that is gone.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            errors.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def picture(page: Page) -> Callable[[str], None]:
    """Takes a picture of the page for the documentation, if the environment asks for pictures."""
    directory = os.environ.get(PICTURES)

    def take(name: str) -> None:
        if directory:
            (Path(directory) / f"{name}.png").write_bytes(page.screenshot(animations="disabled", full_page=True))

    return take
