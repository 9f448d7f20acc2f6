"""The example notebook in a real kernel: pictures, tables, progress in place, and interruptions that end jobs alone."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.programs import SOURCES, java_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "readings.ipynb"
PATIENCE_S = 120


@dataclass
class Cell:
    """What a cell has put out."""

    status: str = ""
    error: str = ""
    #: HTML of its value and of what it displays, and how often the latter was renewed.
    html: list[str] = field(default_factory=list[str])
    renewed: list[str] = field(default_factory=list[str])
    printed: str = ""


class Kernel:
    """A kernel, and the cells that it runs."""

    def __init__(self, place: Path) -> None:
        from jupyter_client.manager import start_new_kernel

        environment = java_environment(place) | {
            "PYTHONPATH": os.pathsep.join((str(SOURCES), str(SOURCES.parent))),
            "IPYTHONDIR": str(place / "ipython"),
            "PENSTOCK_REST__TOKEN": "none",
        }
        started: Any = start_new_kernel(cwd=str(place), env=environment)
        self.manager, self.client = started

    def run(self, code: str, *, interrupt: Callable[[Cell], bool] = lambda _: False) -> Cell:
        """Run a cell; interrupt it once, as soon as what it has put out is enough."""
        cell, is_interrupted = Cell(), False

        def put_out(message: dict[str, Any]) -> None:
            nonlocal is_interrupted
            content = message["content"]
            match message["msg_type"]:
                case "display_data" | "execute_result":
                    cell.html.append(content["data"].get("text/html", ""))
                case "update_display_data":
                    cell.renewed.append(content["data"]["text/html"])
                case "stream":
                    cell.printed += content["text"]
                case _:
                    pass
            if not is_interrupted and interrupt(cell):
                is_interrupted = True
                self.manager.interrupt_kernel()

        try:
            reply = self.client.execute_interactive(code, timeout=PATIENCE_S, output_hook=put_out)["content"]
        except TimeoutError:
            ended = f"{PATIENCE_S} s, {'with' if is_interrupted else 'without'} an interruption"
            pytest.fail(f"A cell did not end within {ended}: {cell}")
        cell.status, cell.error = reply["status"], reply.get("ename", "")
        return cell

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    one = Kernel(tmp_path_factory.mktemp("notebook"))
    try:
        yield one
    finally:
        one.stop()


def test_notebook_shows_graph_progress_result_and_state_and_outlives_interruptions(kernel: Kernel) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    graph, executed, endless, stopped, state = [
        kernel.run("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"
    ]
    for each in (graph, executed, endless, stopped, state):
        assert each.status == "ok", each
    assert "<svg" in graph.html[-1]
    assert "Source: readings" in graph.html[-1]
    begun, result = executed.html
    assert "starting" in begun
    assert "finished · 200 records" in executed.renewed[-1]
    assert "<td>200</td>" in result
    assert "highest readings" in executed.printed + result
    assert "('sensor 2'" in executed.printed
    assert "readings without end" in endless.html[-1]
    assert "RUNNING" in endless.html[-1]
    assert "<td>highest</td>" in stopped.html[-1]
    assert "sensor 1" in state.html[-1]

    def runs(cell: Cell) -> bool:
        return any("running · " in html for html in cell.renewed)

    endless_stream = 'readings(10**9).map(lambda reading: reading).uid("copy")'
    interrupted = kernel.run(f'{endless_stream}.filter(lambda _: False).print()\nenv.execute("one")', interrupt=runs)
    assert (interrupted.status, interrupted.error) == ("error", "KeyboardInterrupt")
    assert "canceled" in interrupted.renewed[-1]
    assert "Cancelling job 'one'" in interrupted.printed

    def has_some(cell: Cell) -> bool:
        return "got sensor" in cell.printed

    between = f"""
import time
for reading in {endless_stream}.execute_and_collect("two"):
    print("got", reading[0])
    while True:
        time.sleep(0.1)  # a signal that the system hands to another thread wakes no sleep
"""
    interrupted = kernel.run(between, interrupt=has_some)
    assert (interrupted.status, interrupted.error) == ("error", "KeyboardInterrupt")
    # Nothing runs any more, and the session is as good as before.
    after = kernel.run(
        "from penstock._engine.launch import _servers\n"
        "print('running:', [job.view.name for job in _servers[0].jobs.all() if not job.view.is_over])\n"
        'sorted(readings(6).map(lambda reading: reading[1]).execute_and_collect("three"))'
    )
    assert after.status == "ok", after
    assert "running: []" in after.printed
