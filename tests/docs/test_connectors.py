"""Sources and sinks of the documents: functions move orders from API to API, and the maildir keeps the contract."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.driving import Driven, Epochs
from tests.kit.program import Program
from tests.kit.without_spark import Cluster

from penstock.common.job_status import JobStatus
from penstock.testing import SinkContract, SinkUnderTest

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "own-sink.md"


def block_with(text: str, document: Path = DOCUMENT) -> str:
    blocks = re.findall(r"^```python\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = (block for block in blocks if text in block)
    return block


class Orders:
    """An API with orders to read, which counts those that are put."""

    def __init__(self, most: int) -> None:
        self.most, self.put = most, Counter[int]()

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve; the address is that of the orders."""
        orders = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                after = int(self.path.partition("after=")[2])
                self.answer([{"id": number} for number in range(after + 1, min(after + 11, orders.most + 1))])

            def do_PUT(self) -> None:
                order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path == f"/orders/{order['id']}"
                orders.put[order["id"]] += 1
                self.answer(None)

            def answer(self, value: object) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(value).encode())

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/orders"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def test_functions_move_orders_from_an_api_to_an_api_through_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(tmp_path / "cluster").patch(monkeypatch)
    sink = block_with("Sink.from_function(put)")
    source = block_with("FunctionSource(orders_after", DOCUMENT.with_name("own-source.md"))
    program = (sink + source).replace(".print()", '.sink_to(to_api).uid("to api")')
    program = program.replace("env.execute(", "client = env.execute_async(")
    monkeypatch.setenv("PENSTOCK_EXECUTION__CHECKPOINTING__DIR", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("PENSTOCK_EXECUTION__STATE_RECOVERY__PATH", "latest")
    orders = Orders(most=0)
    with orders.served() as address:
        for most in (25, 40):
            main = ModuleType("__main__")
            monkeypatch.setitem(sys.modules, "__main__", main)
            exec(compile(program.replace("http://localhost:8000/orders", address), "page", "exec"), vars(main))
            orders.most = most  # while the job runs, which may have looked before
            while len(orders.put) < most:
                vars(main)["client"].trigger_savepoint(str(tmp_path)).result()
            vars(main)["client"].stop_with_savepoint(False, str(tmp_path)).result()
    assert orders.put == Counter(range(1, 41))  # each once, because nothing has failed


@pytest.fixture
def maildir(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The names that the block of the document defines, as a main program's."""
    block = block_with("class MaildirSink")
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(compile(block, str(DOCUMENT), "exec"), vars(main))
    return main


def subjects(folder: Path) -> list[int]:
    return sorted(int(path.read_text().split()[1]) for path in (folder / "new").iterdir())


def test_the_maildir_passes_the_contract(tmp_path: Path, maildir: Any) -> None:
    numbers = count()

    def make() -> SinkUnderTest:
        folder = tmp_path / str(next(numbers))
        return SinkUnderTest(
            maildir.MaildirSink(folder), lambda: subjects(folder), lambda: shutil.rmtree(folder / "tmp")
        )

    SinkContract(make, list(range(30))).check_all()


def test_a_job_delivers_each_message_once_and_lists_it(tmp_path: Path, maildir: Any) -> None:
    program = Program(tmp_path, 2, checkpoints=str(tmp_path / "checkpoints"), interval="1 s")
    sink = maildir.LoggedMaildirSink(tmp_path / "mail", str(tmp_path / "log"))
    program.source(list(range(100))).rebalance().sink_to(sink).uid("mail")
    driven = Driven(program.env, tmp_path / "state", Epochs(20))
    driven.run()
    assert driven.driver.status is JobStatus.FINISHED, driven.driver.result.exception()
    assert subjects(tmp_path / "mail") == list(range(100))
    lines = [line.split()[1] for part in (tmp_path / "log").rglob("part-*") for line in part.read_text().splitlines()]
    assert sorted(lines) == sorted(path.name for path in (tmp_path / "mail" / "new").iterdir())
