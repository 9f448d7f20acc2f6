"""A process of others: it forks, its standard error is full or closed, and it has handlers and names of its own."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest
from rich.console import Console
from rich.file_proxy import FileProxy
from rich.progress import Progress
from tests.compat.flink_cli.live_job import Cluster, numbers
from tests.unit.rest.fakes import JOB, OTHER, Api, FakeControl, job

from penstock._engine.driver.client.signals import Interruption, ending_on_signals
from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.operators.accumulators import AccumulatorRegistry
from penstock._engine.processes.log_limit import limit_log
from penstock._engine.processes.registry import JobRegistry, RegistryEntry
from penstock._engine.rest.archive import archive
from penstock._errors.text import clean_name, printable
from penstock.common import Configuration
from penstock.common.accumulators import IntCounter
from penstock.common.process import report
from penstock.datastream import MapFunction, OutputTag, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import ConfigurationError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.sampled(2)

SERVING = """
    import os, sys, time
    from penstock._engine.rest.server import RestServer
    from penstock._engine.rest.settings import RestSettings
    from penstock._engine.processes.registry import JobRegistry, RegistryEntry
    from penstock.common import Configuration
    from penstock.common.process import at_exit
    from pathlib import Path

    place = Path(sys.argv[1])
    configuration = Configuration().set_string("penstock.rest.registry-dir", str(place))
    configuration.set_string("rest.bind-port", "0").set_string("rest.port", "0")
    server = RestServer(RestSettings.read(configuration), dispose=print)
    server.start(1)
    server._registry.add(RegistryEntry.of_this_process("0" * 32, "job", server.address, 1, run_id="run"))
    at_exit((place / "ended").write_text, "x")
    if os.fork() == 0:
        server._registry.clear()
        sys.exit()  # runs what is to be done at exit, as a child of a user's may
    os.wait()
    assert [entry.name for entry in JobRegistry(place).entries()] == ["job"], "the entry is gone"
    assert not (place / "ended").exists(), "the child has done it"
    assert not server._closing and server._thread.is_alive()
    print("served on", flush=True)
"""


def run_python(program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=False, **options)


def test_a_forked_child_that_exits_ends_nothing_of_its_parent(tmp_path: Path) -> None:
    done = run_python(SERVING, str(tmp_path), stderr=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (0, "served on\n"), done.stderr
    assert (tmp_path / "ended").exists()  # the parent did it at its own exit
    assert list(tmp_path.glob("*.json")) == []


def test_a_signal_to_a_forked_child_ends_the_child_alone() -> None:
    program = """
        import os, signal
        from penstock._engine.driver.client.signals import Interruption

        class Job:
            stopping = savepoint_directory = None
            def cancel(self):
                print("cancelled", flush=True)

        interruption = Interruption("job", Job())
        signal.signal(signal.SIGTERM, interruption.on_signal)
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            print("the child lives", flush=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run_python(program).stdout == f"{-signal.SIGTERM}\n"


def test_a_process_that_is_forked_while_a_decoder_is_made_makes_decoders() -> None:
    program = """
        import os, signal, threading
        import msgspec
        from penstock._engine.protocol import decoders

        made, going_on = threading.Event(), threading.Event()
        class Decoder:
            def __init__(self, kind):
                made.set()
                going_on.wait(0.2)
        now, msgspec.msgpack.Decoder = msgspec.msgpack.Decoder, Decoder
        making = threading.Thread(target=decoders.msgpack_decoder, args=(int,))
        making.start()
        made.wait()
        msgspec.msgpack.Decoder = now
        child = os.fork()
        if child == 0:
            signal.alarm(5)
            print(decoders.msgpack_decoder(str).decode(bytes([0xA1, 0x61])), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        making.join()
        print(decoders.msgpack_decoder(bool).decode(bytes([0xC3])))
    """
    assert run_python(program).stdout == "a\nTrue\n"


def test_handlers_that_the_program_has_set_stay_its_own() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        mine = signal.getsignal(signal.SIGTERM)
        with ending_on_signals(Interruption("job", Any)):  # type: ignore[arg-type]
            assert signal.getsignal(signal.SIGTERM) is mine
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


# ------------------------------------------------------------------------------------------------------ standard error


OPEN: list[int] = []


@pytest.fixture(autouse=True)
def ends_are_closed() -> Iterator[None]:
    yield
    while OPEN:
        os.close(OPEN.pop())


def noted(descriptor: int) -> int:
    """Have a descriptor closed behind the test."""
    OPEN.append(descriptor)
    return descriptor


def full() -> int:
    return noted(os.open("/dev/full", os.O_WRONLY))


def never_read() -> int:
    """A pipe that is full, and whose reader is there and does not read."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    OPEN.append(reader)
    return noted(writer)


def without_reader() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return noted(writer)


ENDS: list[Callable[[], int]] = [full, never_read, without_reader]

CRASHING = """
    import os, pathlib, signal, sys
    runs = pathlib.Path(sys.argv[1])
    runs.write_text(f"{runs.read_text() if runs.exists() else ''}x")
    if len(runs.read_text()) < 3:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", [full, None])
def test_a_supervisor_starts_its_program_again_whatever_its_standard_error_is(
    end: Callable[[], int] | None, tmp_path: Path
) -> None:
    script, runs = tmp_path / "job.py", tmp_path / "runs"
    script.write_text(textwrap.dedent(CRASHING))
    options = ["--supervise", "--restart-delay", "0 s", "--max-restarts", "5"]
    command = [sys.executable, "-m", "penstock", "run", *options, str(script), str(runs)]
    if end is None:  # closed
        command = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    stderr = subprocess.DEVNULL if end is None else end()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    code = subprocess.run(command, stderr=stderr, env=environment, timeout=60, check=False).returncode
    assert (code, runs.read_text()) == (0, "xxx")


@pytest.mark.parametrize("end", ENDS)
def test_what_reports_neither_raises_nor_waits_nor_changes_the_exit_code(end: Callable[[], int]) -> None:
    program = "from penstock.common.process import report\nfor _ in range(2): report('a line')\nprint('went on')"
    began = time.monotonic()
    done = run_python(program, stderr=end())
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("end", "said"), [(full, "penstock: standard output cannot be written to: "), (without_reader, "")]
)
@pytest.mark.parametrize("words", [["list", "--json"], ["config"]])
def test_a_standard_output_that_takes_nothing_ends_a_command_plainly(
    end: Callable[[], int], said: str, words: list[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "penstock", *words]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    options: dict[str, Any] = {"stderr": subprocess.PIPE, "env": environment, "text": True, "timeout": 60}
    done = subprocess.run(command, stdout=end(), check=False, **options)
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == bool(said), done.stderr


def test_a_report_is_printable(capfd: pytest.CaptureFixture[str]) -> None:
    report("a\x1b[2J\ud800b")
    assert capfd.readouterr().err == "a\\x1b[2J\\ud800b\n"


def test_a_report_takes_the_line_of_a_progress_bar(tmp_path: Path) -> None:
    with (tmp_path / "terminal").open("w+", encoding="utf-8") as terminal:
        console = Console(file=terminal, force_terminal=True)
        with Progress(console=console) as progress, redirect_stderr(FileProxy(console, terminal)):
            progress.add_task("the bar")
            report("a line")
    assert b"\r\x1b[2Ka line\n" in (tmp_path / "terminal").read_bytes()


def test_a_log_that_grew_too_large_is_the_one_before(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a" * 90)
        assert not limit_log(writer.fileno(), log, 100)
        writer.write(b"b" * 60)
        assert limit_log(writer.fileno(), log, 100)
        writer.write(b"next")
    assert log.read_bytes() == b"next"
    assert (tmp_path / "job.log.1").read_bytes() == b"a" * 40 + b"b" * 60
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.log", "job.log.1"]


def test_a_log_that_others_rotate_is_left_to_them(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a" * 200)
        log.rename(tmp_path / "moved")
        log.write_bytes(b"of another")
        assert not limit_log(writer.fileno(), log, 100)
    assert (log.read_bytes(), (tmp_path / "moved").stat().st_size) == (b"of another", 200)


# --------------------------------------------------------------------------------------------------------------- names

NAMES = ["lone \ud800", "two\nlines\r\t", "x" * 3_000_000, "\x1b[2J", "right to left \u202e", "\x00"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_cleaned_at_the_door(name: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(lambda value: value).name(name).print()
    graph = build_job_graph(env._stream_graph(name))
    for shown in (graph.name, *(operator.name for operator in graph.operators.values())):
        assert shown.isprintable()
        assert len(shown) <= 500
        assert msgspec.json.encode(shown)


def with_uid(uid: str) -> None:
    StreamExecutionEnvironment.get_execution_environment().from_collection([1]).map(lambda value: value).uid(uid)


#: What is found by its name: another in its place would be a second one.
FINDS: dict[str, Callable[[str], Any]] = {
    "uid": with_uid,
    "value state": ValueStateDescriptor,
    "map state": MapStateDescriptor,
    "side output": OutputTag,
    "accumulator": lambda name: AccumulatorRegistry().add(name, IntCounter()),
    "counter": lambda name: AccumulatorRegistry().get_or_add(name, IntCounter),
}


@pytest.mark.parametrize("find", FINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_finds_something_and_cannot_be_shown_is_refused(name: str, find: str) -> None:
    with pytest.raises(UnsupportedOperationError, match="500 characters") as caught:
        FINDS[find](name)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_a_bad_name_breaks_no_answer_about_other_jobs() -> None:
    # What no door has cleaned: the text of an error, a path, or an entry of an older version.
    for name in NAMES:
        api = Api(FakeControl(job(name=name)), FakeControl(job(job_id=OTHER, configuration={name: name})))
        assert {shown["jid"] for shown in api.get("/jobs/overview")["jobs"]} == {JOB, OTHER}
        assert api.get(f"/jobs/{JOB}")["state"] == "RUNNING"
        assert json.loads(archive(job(name=name)))


class Naming(MapFunction[Any, Any]):
    """Names metrics as it pleases, and then fails with such a text where it is to."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def open(self, runtime_context: RuntimeContext) -> None:
        for name in NAMES:
            group = runtime_context.get_metrics_group().add_group(name).add_group("variable", name)
            group.counter(name).inc()
            group.gauge(name, lambda: 1)

    def map(self, value: Any) -> Any:
        if self._fails:
            raise ValueError("".join(name[:10] for name in NAMES))
        return value


def test_what_a_program_names_and_says_is_shown_with_all_other_jobs(tmp_path: Path) -> None:
    def build(*, fails: bool) -> Callable[[StreamExecutionEnvironment], None]:
        def of(env: StreamExecutionEnvironment) -> None:
            numbers(env, None, 200).map(Naming(fails=fails)).name(NAMES[0]).filter(lambda _: False).print()

        return of

    cluster = Cluster(tmp_path, **{"restart-strategy.type": "none"})
    try:
        jobs = [cluster.job(build(fails=fails)) for fails in (True, False)]
        address = cluster.server.address
        answer = httpx.get(f"{address}/jobs/overview")
        states = {shown["jid"]: shown["state"] for shown in answer.json()["jobs"]}
        assert states == dict(zip((made.job_id for made in jobs), ("FAILED", "RUNNING"), strict=True))
        for made in jobs:
            below = f"{address}/jobs/{made.job_id}"
            vertices = httpx.get(below).json()["vertices"]
            paths = ["/exceptions", "/accumulators", "/config", "/plan", "/metrics", "/checkpoints"]
            paths += [
                f"/vertices/{vertex['id']}{of}" for vertex in vertices for of in ("/metrics", "/subtasks/metrics")
            ]
            for path in paths:
                answer = httpx.get(f"{below}{path}")
                assert answer.is_success, (path, answer.text)
                assert len(answer.content) < 100_000
        assert httpx.get(f"{address}/metrics").is_success
    finally:
        cluster.close()


def test_a_setting_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="halves of characters") as caught:
        Configuration().set_string("pipeline.name", NAMES[0])
    assert str(caught.value).isprintable()


def test_an_ordinary_name_is_as_it_was() -> None:
    for name in ("Bestellungen täglich", "注文", "orders → totals", "a" * 500):
        assert (clean_name(name), printable(name)) == (name, name)


def test_entries_of_the_registry_are_no_pickles_and_no_devices(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "pickle.json").write_bytes(pickle.dumps(1))
    (tmp_path / "pid.json").write_bytes(
        msgspec.json.encode(RegistryEntry("0" * 32, "job", "http://a", 2**62, os.uname().nodename, 1))
    )
    assert JobRegistry(tmp_path).entries() == []
