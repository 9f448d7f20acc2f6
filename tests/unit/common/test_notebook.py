"""What notebooks show: tables and pictures in which all text is escaped, and one output that renews itself."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import environment, job_graph

from penstock._builders.results import CloseableIterator
from penstock._engine.driver.monitor.notebook_progress import NotebookProgress
from penstock._engine.gateway.progress import JobProgress
from penstock.common import notebook
from penstock.common.job_execution_result import GivenUpCommittables, JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.savepoint import Savepoint, SavepointWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVIL = "<script>alert('1')</script>\x1b[2J"
HARMLESS = "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;\\x1b[2J"


class Shell:
    """The shell of a kernel, as far as it is asked."""

    def __init__(self) -> None:
        self.kernel = object()
        self.events = self
        self.callbacks: dict[str, list[Callable[[Any], None]]] = {"post_run_cell": []}
        self.displays: list[str] = []
        self.updates: list[str] = []

    def register(self, event: str, callback: Callable[[Any], None]) -> None:
        self.callbacks[event].append(callback)

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Shell:
        assert raw
        assert display_id
        self.displays.append(bundle["text/html"])
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.updates.append(bundle["text/html"])

    def end_cell(self, error: BaseException | None) -> None:
        for callback in self.callbacks["post_run_cell"]:
            callback(SimpleNamespace(error_in_exec=error))


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    one = Shell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: one))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=one.display))  # type: ignore[arg-type]
    return one


def test_only_the_kernel_of_a_notebook_is_one(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    assert notebook.is_notebook()
    del shell.kernel  # IPython's shell for terminals
    assert not notebook.is_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not notebook.is_notebook()


def test_progress_renews_one_output_and_not_more_often_than_it_can_be_seen(shell: Shell) -> None:
    now, left = 0.0, iter([4, 2, 1])
    shown = NotebookProgress(EVIL, lambda: next(left), lambda: now)
    assert shell.displays == [f"<div><b>{HARMLESS}</b> starting</div>"]
    shown.on_status(JobStatus.RUNNING)
    shown.on_progress(JobProgress(checkpoint_id=1, records=10))  # at once: the next one tells of it
    assert len(shell.updates) == 1
    now = 0.3
    shown.on_progress(JobProgress(checkpoint_id=2, records=20))
    assert '<progress max="4" value="2"></progress> running · 20 records' in shell.updates[-1]
    now = 0.4
    shown.on_progress(JobProgress(checkpoint_id=3, records=30))
    assert len(shell.updates) == 2
    shown.on_status(JobStatus.FINISHED)
    assert 'value="4"></progress> finished · 30 records' in shell.updates[-1]
    assert len(shell.displays) == 1


def test_front_end_that_has_gone_fails_no_job(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = NotebookProgress("prices")
    monkeypatch.setattr(shell, "update", None)
    shown.on_status(JobStatus.RUNNING)


class Client:
    """A job that notes its cancellation."""

    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> Client:
        self.cancelled += 1
        return self

    def get_job_execution_result(self) -> Client:
        return self

    def result(self) -> None:
        pass


def test_interrupted_cell_ends_the_jobs_whose_records_it_reads(shell: Shell) -> None:
    clients = [Client() for _ in range(2)]
    CloseableIterator(iter([1]), clients[0])  # type: ignore[arg-type]  # which nothing else knows any more
    assert list(CloseableIterator(iter([1]), clients[1])) == [1]  # type: ignore[arg-type]
    for error in (None, ValueError("another")):
        shell.end_cell(error)
    assert [client.cancelled for client in clients] == [0, 0]
    shell.end_cell(KeyboardInterrupt())
    shell.end_cell(KeyboardInterrupt())
    assert [client.cancelled for client in clients] == [1, 0]
    assert len(shell.callbacks["post_run_cell"]) == 1


# ------------------------------------------------------------------------------------------------------ what is shown


def test_graph_is_a_picture_of_what_runs_next() -> None:
    env = environment(2)
    assert env._repr_html_().startswith("<p>Job &#x27;Flink Streaming Job&#x27; ")  # and why there is none
    numbers = env.from_collection([1]).name(EVIL).key_by(abs).sum()
    numbers.print()
    numbers.filter(lambda _: True).set_parallelism(3).print()
    shown = env._repr_html_()
    assert shown.startswith("<svg")
    assert "<script>" not in shown
    assert "&lt;script&gt;alert" in shown
    assert shown.count("<rect") == shown.count("<g>") == len(job_graph(env).vertices) == 4
    assert shown.count('Z"/>') == len(job_graph(env).edges) == 3
    for text in ("hash", "rebalance", "parallelism 3", "Print to Std. Out"):
        assert f">{text}<" in shown
    assert env._repr_html_() == shown


def test_graph_that_is_too_large_says_so() -> None:
    env = environment(1)
    for _ in range(101):
        env.from_collection([1]).rebalance().map(abs)
    assert env._repr_html_() == "<p>Job &#x27;Flink Streaming Job&#x27; has 202 vertices: see explain().</p>"


def test_result_is_a_table_of_what_ran() -> None:
    given_up = (GivenUpCommittables("out", "out", 7, 7, 2, EVIL),)
    result = JobExecutionResult(
        JobID(), 61_500, {EVIL: 3}, {"sum": 2}, given_up, {"numbers": 1}, EVIL, records=12_000, epochs=7
    )
    shown = result._repr_html_()
    assert "<script>" not in shown
    assert shown.count(HARMLESS) == 3
    rows = ["runtime</td><td>61.500 s", "records read</td><td>12,000", "epochs</td><td>7", "by sum</td><td>2"]
    for row in (*rows, "(int): 3", "unread by numbers</td><td>1"):
        assert row in shown


def test_savepoint_and_its_states_are_tables_of_bounded_size(tmp_path: Path) -> None:
    totals = {f"key {number}": number for number in range(200)} | {EVIL: "x" * 100_000}
    path = (
        SavepointWriter.new()
        .set_keyed_state("totals", "total", {EVIL: "x" * 100_000, **totals})
        .set_list_state("<b>", "items", [1, 2])
        .write(str(tmp_path / "sp"))
    )
    savepoint = Savepoint.open(path)
    shown = savepoint._repr_html_()
    for cell in ("totals", "total", "value", "201", "&lt;b&gt;", "items", "list", "2"):
        assert f"<td>{cell}</td>" in shown
    assert "<b>" not in shown
    rows = savepoint.keyed_state("totals", "total")._repr_html_()
    assert "<script>" not in rows
    assert rows.count("<tr>") == 1 + notebook.MOST_ROWS
    assert "Only the first 50 rows are shown" in rows
    assert len(rows) < 20_000


class Order:
    """Of a class that a savepoint may not make unasked."""


def test_state_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = SavepointWriter.new().set_keyed_state("orders", "order", {"a": Order()}).write(str(tmp_path / "sp"))
    shown = Savepoint.open(path).keyed_state("orders", "order")._repr_html_()
    assert shown.startswith("<p>")
    assert "Order" in shown
