"""What a job finds out about its cluster before it begins, on executors that are functions of this process."""

from __future__ import annotations

import base64
import importlib
import os
import pickle
import sys
import threading
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.graph.chaining import build_job_graph
from penstock._engine.spark.preflight import NewHosts, check_cluster
from penstock.common import Configuration, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.errors import EpochInfrastructureError, UnsuitableClusterError, UnsuitableHostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from penstock._engine.graph.job_graph import JobGraph

MASTER = "spark://master:7077"


class Executor:
    """Runs tasks in this process, on a host of its own name.

    Args:
        host: The name.
        hidden: Folders and files that this host does not have.
        changed: Changes what a task returns, by position.
    """

    def __init__(self, host: str, *hidden: Path, changed: dict[int, Any] | None = None) -> None:
        self.host, self._hidden = host, hidden
        self._changed = {0: host, 1: (host, "/work", 1), **(changed or {})}

    def run(self, task: Callable[[Any], Iterator[pa.RecordBatch]]) -> list[str]:
        for path in self._hidden:
            path.rename(path.with_name(f"{path.name}.hidden"))
        try:
            return [self._told(str(text)) for batch in task(iter(())) for text in batch.column(0)]
        finally:
            for path in self._hidden:
                path.with_name(f"{path.name}.hidden").rename(path)

    def _told(self, text: str) -> str:
        """Return a reply as this host gives it."""
        reply = pickle.loads(base64.b64decode(text.partition(" ")[2]))
        own = tuple(self._changed.get(place, part) for place, part in enumerate(reply))
        return f"0 {base64.b64encode(pickle.dumps(own)).decode()}"


class FakeContext:
    """A SparkContext on a cluster, and its session; a frame is the tasks that it runs."""

    pythonExec = "python3"
    applicationId = "app-1"

    def __init__(self, *executors: Executor, master: str = MASTER, says: str = "", **conf: str) -> None:
        self.master, self._executors, self._says = master, executors, says
        self._conf = {key.replace("_", "."): value for key, value in conf.items()}
        self.environment: dict[str, str] = {}
        self.tags: list[str] = []
        rows = [_listed(number, one.host, bool(says)) for number, one in enumerate(executors)]
        listed = SimpleNamespace(size=lambda: len(rows), apply=rows.__getitem__)
        store = SimpleNamespace(executorList=lambda _: listed)
        profiles = SimpleNamespace(defaultResourceProfile=lambda: None)
        counted = {"maxNumConcurrentTasks": lambda _: len(executors), "resourceProfileManager": lambda: profiles}
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store, **counted))

    def getConf(self) -> dict[str, str]:
        return self._conf

    def addJobTag(self, tag: str) -> None:
        self.tags.append(tag)

    def removeJobTag(self, tag: str) -> None:
        self.tags.remove(tag)

    def range(self, tasks: int, *, numPartitions: int) -> FakeContext:
        assert tasks == numPartitions == max(1, len(self._executors))
        return self

    def mapInArrow(self, task: Callable[[Any], Iterator[pa.RecordBatch]], _: object) -> Any:
        if self._says:
            raise RuntimeError(self._says)
        rows = [text for executor in self._executors for text in executor.run(task)]
        listed = SimpleNamespace(size=lambda: len(rows), subList=partial(_part, rows))
        return SimpleNamespace(_jdf=SimpleNamespace(collectAsList=lambda: listed))


def _part(rows: list[str], first: int, end: int) -> Any:
    """Return a part of a list of Java's, which shows rows of one text each."""
    return SimpleNamespace(toString=lambda: f"[[{'], ['.join(rows[first:end])}]]")


def _listed(number: int, host: str, failed: int) -> Any:
    figures = {"totalCores": 1, "activeTasks": 0, "failedTasks": failed, "maxMemory": 0, "memoryUsed": 0}
    said = {"id": str(number), "hostPort": f"{host}:1", **figures}
    return SimpleNamespace(**{name: (lambda value=value: value) for name, value in said.items()})


def look(context: FakeContext, graph: JobGraph | None = None, *path: str, **keys: str) -> Any:
    configuration = Configuration.from_dict({key.replace("__", "."): value for key, value in keys.items()})
    spark: Any = SimpleNamespace(session=SimpleNamespace(sparkContext=context, range=context.range))
    return check_cluster(spark, graph, configuration, path)


def problems(context: FakeContext, graph: JobGraph | None = None, **keys: str) -> tuple[str, ...]:
    with pytest.raises(UnsuitableClusterError) as caught:
        look(context, graph, **keys)
    assert caught.value.master == context.master
    return caught.value.problems


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)


def copying(source: Path, out: Path) -> JobGraph:
    env = StreamExecutionEnvironment.get_execution_environment()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(source)).build()
    lines = env.from_source(files, WatermarkStrategy.no_watermarks(), "lines")
    lines.sink_to(FileSink.for_row_format(str(out), Encoder.simple_string_encoder()).build()).uid("copies")
    return build_job_graph(env._stream_graph("copy"))


def test_hosts_that_share_all_places_are_all_right_and_nothing_is_left_there(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\n")
    before = sorted(tmp_path.rglob("*"))
    graph = copying(tmp_path / "in", tmp_path / "new" / "out")
    replies = look(
        FakeContext(Executor("a"), Executor("b")), graph, execution__checkpointing__dir=str(tmp_path / "checkpoints")
    )
    assert [reply.host for reply in replies] == ["a", "b"]
    assert sorted(path for path in tmp_path.rglob("*") if "penstock-" not in str(path.relative_to(tmp_path))) == before


def test_all_places_that_one_host_lacks_are_named_at_once(tmp_path: Path) -> None:
    checkpoints, out, source = tmp_path / "checkpoints", tmp_path / "out", tmp_path / "in.txt"
    checkpoints.mkdir()
    out.mkdir()
    source.write_text("one\n")
    executors = Executor("good"), Executor("bad", checkpoints, out, source), Executor("ugly", out)
    found = problems(FakeContext(*executors), copying(source, out), execution__checkpointing__dir=str(checkpoints))
    assert [problem.partition(" of ")[0] for problem in found] == [
        f"host bad does not have {checkpoints}",
        f"host bad does not have {source}",
        f"host bad, ugly does not have {out}",
    ]
    assert all("all hosts share" in problem for problem in found)
    assert "of execution.checkpointing.dir as the driver has it" in found[0]
    assert "of source 'lines', which" in found[1]
    assert "(uid 'copies') as" in found[2]
    assert list(out.iterdir()) == list(checkpoints.iterdir()) == []


def test_source_with_another_file_of_the_same_name_is_refused_and_an_equal_copy_is_not(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("one\n")

    class Elsewhere(Executor):
        def run(self, task: Any) -> Any:
            whole = source.read_text()
            source.write_text("on")
            try:
                return super().run(task)
            finally:
                source.write_text(whole)

    keys = {"execution__checkpointing__dir": str(tmp_path / "checkpoints")}
    (problem,) = problems(FakeContext(Elsewhere("a"), Executor("b")), copying(source, tmp_path / "out"), **keys)
    assert problem.startswith(f"host a has another file as {source} of source")


def test_driver_that_does_not_find_what_a_host_has_written_refuses(tmp_path: Path) -> None:
    class Apart(Executor):
        """Sees what the driver writes; what it writes goes elsewhere."""

        def run(self, task: Any) -> Any:
            before = set(tmp_path.rglob("*"))
            rows = super().run(task)
            for new in set(tmp_path.rglob("*")) - before:
                if new.is_file():
                    new.unlink()
            return rows

    (problem,) = problems(FakeContext(Apart("a"), Executor("b")), execution__checkpointing__dir=str(tmp_path / "c"))
    assert problem.startswith(f"the driver does not find what host a has written to {tmp_path / 'c'}")


def test_driver_that_cannot_write_to_a_sinks_folder_refuses(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    graph = copying(tmp_path, tmp_path / "out" / "below")
    (problem,) = problems(FakeContext(Executor("a")), graph, execution__checkpointing__dir=str(tmp_path / "c"))
    assert problem.startswith(f"the driver cannot write to {tmp_path / 'out' / 'below'} of sink")
    assert not (tmp_path / "c").exists()


def test_job_without_checkpoint_directory_is_refused_but_on_sparks_own_cluster_for_tests(tmp_path: Path) -> None:
    graph = copying(tmp_path, tmp_path / "out")
    (problem,) = problems(FakeContext(Executor("a")), graph)
    assert problem.startswith("execution.checkpointing.dir is not set: set it to a place that all hosts share")
    look(FakeContext(Executor("a"), master="local-cluster[1,1,1024]"), graph)


def test_other_versions_missing_packages_and_clocks_are_told_by_host() -> None:
    executors = (
        Executor("none", changed={3: None, 4: "ModuleNotFoundError: No module named 'penstock'", 6: None}),
        Executor("old", changed={2: "/opt/python", 3: "0.0.1", 6: None}),
        Executor("half", changed={4: "ImportError: no lmdb", 6: None}),
        Executor("late", changed={5: 1}),
        Executor("good"),
    )
    found = problems(FakeContext(*executors))
    assert [problem.split()[1] for problem in found] == ["none", "old", "half", "late"]
    for problem, word in zip(found, ("PYSPARK_PYTHON", "0.0.1 for /opt/python", "no lmdb", "NTP"), strict=True):
        assert word in problem


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.12, …",
            "executors on host a run Python 3.9 ('python3'), and the driver 3.12; set PYSPARK_PYTHON",
        ),
        (
            'java.io.IOException: Cannot run program "python3.12": error=2',
            "executors on host a cannot run 'python3.12'",
        ),
        (
            "Lost task 0.3 in stage 0.0 (TID 3): org.apache.spark.SparkException: \n"
            "Error from python worker:\n  libpython3.11.so:\n  no such file\nPYTHONPATH was:\n  a\n"
            "org.apache.spark.SparkException: EOFException occurred while reading the port number\n\tat",
            "executors on host a cannot use 'python3', the Python that the driver names for them: "
            "libpython3.11.so: no such file; set PYSPARK_PYTHON",
        ),
        ("Job aborted\n\nOut of luck\n", "executors on host a ran no Python task with 'python3': Out of luck"),
        (
            "An error occurred while calling o8.collectAsList.\n: org.apache.spark.SparkException: Job cancelled\n\tat "
            "org.apache.spark.A.b(A.scala:55)\nCaused by: java.io.IOException: x\n\t... 37 more\n",
            "executors on host a ran no Python task with 'python3': org.apache.spark.SparkException: Job cancelled",
        ),
    ],
)
def test_python_that_does_not_run_at_all_is_put_into_words(says: str, words: str) -> None:
    (problem,) = problems(FakeContext(Executor("a"), says=says))
    assert problem.startswith(words)


def test_modules_that_functions_name_are_looked_for_where_tasks_import_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "rates_of_today.py").write_text("def rate(value):\n    return value\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "elsewhere"), *sys.path])
    rates: Any = importlib.import_module("rates_of_today")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(rates.rate).print()
    graph = build_job_graph(env._stream_graph("job"))
    keys = {"execution__checkpointing__dir": str(tmp_path / "c")}
    monkeypatch.delitem(sys.modules, "rates_of_today")
    monkeypatch.setattr(sys, "path", sys.path[1:])
    (problem,) = problems(FakeContext(Executor("a")), graph, **keys)
    assert problem.startswith("host a has no module rates_of_today, which functions of the job need; install it there")
    before = list(sys.path)
    look(FakeContext(Executor("a")), graph, str(tmp_path / "elsewhere"), **keys)
    assert sys.path == before


def test_executors_are_waited_for_and_none_is_refused_with_the_key(caplog: pytest.LogCaptureFixture) -> None:
    keys = {"penstock__spark__executors-timeout": "1 ms", "penstock__spark__executors": "3"}
    (problem,) = problems(FakeContext(), None, **keys)
    assert problem.startswith("no executor has come within penstock.spark.executors-timeout = 1 ms")
    assert "kubectl" not in problem
    on_kubernetes = FakeContext(master="k8s://https://host")
    (problem,) = problems(on_kubernetes, None, execution__checkpointing__dir="s3://b/c", **keys)
    assert "`kubectl describe pods -l spark-app-selector=app-1` says why pods do not run" in problem
    look(FakeContext(Executor("a")), None, **keys)
    assert "The job begins with 1 of 3 executors" in caplog.text


def test_executors_that_never_come_for_the_look_are_not_waited_for_without_end() -> None:
    class Waiting(FakeContext):
        """Runs no task before it is cancelled."""

        def __init__(self) -> None:
            super().__init__(spark_dynamicAllocation_enabled="true")
            self.cancelled = threading.Event()

        def mapInArrow(self, task: Any, _: object) -> Any:
            assert self.cancelled.wait(10)
            raise RuntimeError("Job 0 cancelled part of cancelled job tags")

        def cancelJobsWithTag(self, tag: str) -> None:
            assert tag in self.tags
            self.cancelled.set()

    context = Waiting()
    (problem,) = problems(context, None, **{"penstock__spark__executors-timeout": "1 ms"})
    assert problem.startswith("no executor has come within penstock.spark.executors-timeout = 1 ms")
    assert context.tags == []


def test_log_says_which_hosts_are_looked_at_and_what_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    keys = {"penstock__spark__executors-timeout": "1 ms", "penstock__spark__executors": "3"}
    look(FakeContext(Executor("a"), Executor("b")), None, **keys)
    assert "Waiting for executors: 2 of 3 are there (penstock.spark.executors-timeout = 1 ms)." in caplog.text
    assert "Looking at 2 hosts before the job begins: a, b." in caplog.text
    look(FakeContext(*[Executor(f"h{number}") for number in range(7)]))
    assert "Looking at 7 hosts before the job begins: h0, h1, h2, h3, h4, …." in caplog.text
    look(FakeContext(Executor("")))  # as Spark lists an executor that has come just now
    assert "Looking at the hosts first." in caplog.text


def test_executor_that_is_busy_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Busy(Executor):
        def run(self, task: Any) -> Any:
            del task
            return []

    assert len(look(FakeContext(Executor("a"), Busy("b")))) == 1
    assert "Of 2 executors 1 were looked at" in caplog.text


def test_local_state_without_a_place_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    (problem,) = problems(FakeContext(Executor("a")))
    assert problem.startswith("host a has no place for state")


def new_hosts(context: FakeContext, *looked_at: str, **keys: str) -> NewHosts:
    configuration = Configuration.from_dict({key.replace("__", "."): value for key, value in keys.items()})
    spark: Any = SimpleNamespace(session=SimpleNamespace(sparkContext=context, range=context.range))
    graph: Any = None
    return NewHosts(spark, graph, configuration, (), [SimpleNamespace(host=host) for host in looked_at])


def test_host_that_joins_a_running_job_is_looked_at_once_and_known_ones_never() -> None:
    class Seen(Executor):
        looks = 0

        def run(self, task: Any) -> Any:
            self.looks += 1
            return super().run(task)

    late = Seen("late")
    hosts = new_hosts(FakeContext(Executor("first"), late), "first")
    hosts.check({"first"})
    assert late.looks == 0
    for _ in range(2):
        hosts.check({"first", "late"})
    assert late.looks == 1


def test_epoch_on_a_late_host_that_does_not_share_a_place_does_not_count(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    late = Executor("late", checkpoints)
    hosts = new_hosts(FakeContext(Executor("first"), late), "first", execution__checkpointing__dir=str(checkpoints))
    for _ in range(2):  # the next attempt at the epoch is not let through either
        with pytest.raises(UnsuitableHostError, match="host late does not have"):
            hosts.check({"first", "late"})
    late._hidden = ()  # somebody has mounted it
    hosts.check({"first", "late"})


def test_epoch_on_a_late_host_that_is_gone_again_is_lost() -> None:
    with pytest.raises(EpochInfrastructureError, match="tasks ran on late, which was gone"):
        new_hosts(FakeContext(Executor("first")), "first").check({"first", "late"})
    with pytest.raises(EpochInfrastructureError, match="late could not be looked at"):
        new_hosts(FakeContext(Executor("first"), says="out of luck"), "first").check({"late"})


def test_late_host_that_is_too_busy_to_answer_is_let_through_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Busy(Executor):
        def run(self, task: Any) -> Any:
            del task
            return []

    new_hosts(FakeContext(Executor("first"), Busy("late")), "first").check({"first", "late"})
    assert "Of 2 executors 1 were looked at" in caplog.text
