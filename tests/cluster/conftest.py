"""One cluster and one driver for the whole run: each takes seconds to start."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cluster.standalone import Standalone
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from tests.cluster.hosts import Cluster


@dataclass
class Outcome:
    """How a program ended."""

    result: Any = None
    #: The class of its error, "" without one, and the error's text.
    error: str = ""
    text: str = ""
    seconds: float = 0.0


@dataclass
class Driver:
    """The process of a driver."""

    process: subprocess.Popen[str]
    place: Path
    _count: int = field(default=0)

    def run(
        self, program: str, *arguments: object, path: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run a program, given as text, on the cluster and return how it ended."""
        folder = self.place / f"program-{self._count}"
        self._count += 1
        folder.mkdir()
        (folder / "program.py").write_text(program)
        return self.run_script(folder / "program.py", *arguments, path=path, variables=variables)

    def run_script(
        self, program: Path, *arguments: object, path: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> Outcome:
        """Run a program on the cluster and return how it ended."""
        request = {
            "program": str(program),
            "arguments": [str(argument) for argument in arguments],
            "variables": dict(variables or {}),
            "path": [] if path is None else [str(path)],
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the driver has ended; its log is above"
        return Outcome(**json.loads(answer))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Standalone]:
    with Standalone() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def driver(cluster: Standalone) -> Iterator[Driver]:
    with driving(cluster) as driver:
        yield driver


@contextlib.contextmanager
def driving(cluster: Cluster) -> Generator[Driver]:
    """Have a driver with a session on a cluster; its temporary directory is of its own host."""
    place = Path(tempfile.mkdtemp(prefix="programs-", dir=cluster.own))
    variables = {
        **cluster.environment(),
        "PYSPARK_PYTHON": sys.executable,
        "PENSTOCK_REST__ENABLED": "false",
    }
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("driver.py"), cluster.url],
        cwd=place,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Driver(process, place)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture(scope="session")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server
