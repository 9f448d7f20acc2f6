"""What the pages show of jobs whose processes are gone."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect
from tests.dashboard.test_pages import rows
from tests.unit.rest.past import past_of_all_kinds

from penstock._engine.rest.history import History
from penstock._engine.rest.history_server import serve_history
from penstock._engine.rest.settings import RestSettings
from penstock.common.configuration import Configuration

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@contextmanager
def history_of(archives: Path) -> Generator[str]:
    """Serve a directory of archives; gives the link that the command prints."""
    keys = {"rest.port": "0", "penstock.rest.registry-dir": str(archives / "registry")}
    settings, links, servers = RestSettings.read(Configuration.from_dict(keys)), list[str](), list[Any]()
    started = threading.Event()

    def note(server: Any) -> None:
        servers.append(server)
        server.install_signal_handlers = lambda: None
        started.set()

    serving = threading.Thread(target=serve_history, args=(History(str(archives), {}), settings, links.append, note))
    serving.start()
    started.wait()
    try:
        yield links[0]
    finally:
        servers[0].should_exit = True
        serving.join()


def test_history_shows_how_each_job_has_ended_and_how_a_lost_one_is_resumed(
    page: Page, tmp_path: Path, picture: Callable[[str], None]
) -> None:
    archives, made = past_of_all_kinds(tmp_path)
    with history_of(archives) as link:
        page.goto(link)
        expect(page.get_by_role("heading", level=1)).to_have_text("History of jobs")
        shown = {name.strip(): state.strip() for name, state, *_ in (row.split("|") for row in rows(page, "Jobs"))}
        assert shown == {run.name: "lost" if run.is_lost else run.state.lower() for run in made}
        picture("history")
        page.get_by_role("link", name="killed", exact=True).click()
        expect(page.locator(".title .badge")).to_have_text("lost")
        expect(page.get_by_text("penstock run -s")).to_contain_text("/killed/")
        expect(page.get_by_role("article")).to_have_count(2)
        expect(page.get_by_text("This is what the last checkpoint tells")).to_be_visible()
        expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
        expect(page.locator("main").get_by_text("running", exact=True)).to_have_count(0)
        picture("lost")
        for tab in ("Checkpoints", "Exceptions", "Configuration"):
            page.get_by_role("link", name=tab).click()
            expect(page.get_by_role("link", name=tab)).to_have_attribute("aria-current", "page")
        page.get_by_role("link", name="Jobs").click()
        page.get_by_role("link", name="failed", exact=True).click()
        page.get_by_role("link", name="Exceptions").click()
        expect(page.locator(".failure").first).to_contain_text("ValueError: for good")
