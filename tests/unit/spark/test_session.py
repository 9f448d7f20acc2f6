from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PythonException

from penstock._engine.spark import jvm, session
from penstock._engine.spark.words import worker_error
from penstock.errors import (
    InternalError,
    LocalDirectoryError,
    SparkLaunchError,
    UnsuitableClusterError,
    UnsupportedOperationError,
    WorkerPythonError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(("gib", "heap_mb"), [(2, 1024), (8, 2048), (64, 4096)])
def test_heap_is_a_quarter_of_the_memory_within_bounds(gib: int, heap_mb: int) -> None:
    assert session.driver_memory_mb(gib << 30) == heap_mb


def test_launch_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    before = dict(os.environ)
    with jvm.launch_environment({"SPARK_HOME": "/spark"}):
        assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
        assert os.environ["SPARK_HOME"] == "/spark"
    assert dict(os.environ) == before


def test_tasks_can_import_the_library_however_the_program_found_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    with jvm.launch_environment({}):
        first, *others = os.environ["PYTHONPATH"].split(os.pathsep)
    assert first == "/mine"
    assert any(os.path.isfile(os.path.join(place, "penstock", "errors.py")) for place in others)  # noqa: PTH113, PTH118


def test_launch_script_finds_its_tools_whatever_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/mine")
    with jvm.launch_environment({}):
        assert os.environ["PATH"].split(os.pathsep) == ["/mine", "/usr/bin", "/bin"]


def test_usual_program_session_is_suitable() -> None:
    assert session.unsuitable({"spark.authenticate": "true"}, "spark://host:7077", "python3") == []
    assert session.unsuitable({"spark.authenticate": "true"}, "local[2,4]", sys.executable) == []


def test_each_fault_of_a_program_session_is_one_line() -> None:
    conf = {"spark.python.worker.reuse": "false"}
    problems = session.unsuitable(conf, "local[2]", "/usr/bin/python3")
    assert [problem.split(" (")[0] for problem in problems] == [
        "starts a Python process for each task",
        "does not try tasks again",
        f"runs its tasks with /usr/bin/python3, not {sys.executable}: both need Penstock and its dependencies.",
        "lets anyone who reaches its ports read blocks, in which functions and records are: "
        "spark.authenticate=true closes them.",
    ]


def test_python_of_a_program_session_is_looked_up_and_its_error_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python3"
    other.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (problem,) = session.unsuitable({"spark.authenticate": "true"}, "local[2,4]", "python3")
    assert problem.startswith("runs its tasks with python3, not")
    for said in ("ModuleNotFoundError: No module named 'penstock'", "[PYTHON_VERSION_MISMATCH] Python in worker"):
        error = worker_error(PythonException(said), "python3")
        assert isinstance(error, WorkerPythonError)
        assert "PYSPARK_PYTHON to that one, or to its like" in str(error)
        assert sys.executable in str(error)
    assert isinstance(worker_error(PythonException("a bug"), "python3"), InternalError)


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_connect_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setattr(session, "_own", None)
    monkeypatch.setenv(variable, "sc://host")
    with pytest.raises(UnsupportedOperationError, match="SPARK_REMOTE"):
        session.get_session()


def test_failed_launch_names_the_line_that_says_most_and_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    submit = home / "bin" / "spark-submit"
    submit.write_text("#!/bin/sh\necho starting\necho 'Error: Could not find or load main class'\necho bye\nexit 1\n")
    submit.chmod(0o755)
    monkeypatch.setattr(jvm, "_check_machine", lambda: home)
    with pytest.raises(SparkLaunchError, match=r"start: Error: Could not find or load main class\. All of its output"):
        jvm.Jvm({}, "WARN", tmp_path, archived=False)
    (user_directory,) = tmp_path.glob("penstock-*")
    assert [path.name for path in user_directory.iterdir()] == ["logs"]


def test_local_dirs_of_the_environment_are_where_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").touch()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'full'},/other")
    with pytest.raises(LocalDirectoryError, match=str(tmp_path / "full")):
        jvm.Jvm({}, "WARN", None, archived=False)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis one",
            "does not answer",
        ),
        (
            "An error occurred while calling o1.x.\n: java.lang.Error: Could not parse Master URL\n\tat",
            "parse",
        ),
        (
            "An error occurred while calling None.x.\n: java.lang.Error: No scheduler\n\tat x\nCaused by: "
            "java.lang.Exception\n\tat y\nCaused by: java.lang.Exception: pods is forbidden. Received status: "
            "Status(code=403).\n\tat z\n\t... 1 more\n",
            r"could not join it: java.lang.Exception: pods is forbidden\. Correct",
        ),
    ],
)
def test_cluster_that_cannot_be_joined_is_told_with_its_master_and_no_stack(
    monkeypatch: pytest.MonkeyPatch, said: str, words: str
) -> None:
    class Builder:
        def master(self, _: str) -> Builder:
            return self

        def appName(self, _: str) -> Builder:
            return self

        def config(self, *_: str) -> None:
            pass

        def getOrCreate(self) -> None:
            raise RuntimeError(said)

    for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(session, "find_java", lambda _: SimpleNamespace(home="/java"))
    monkeypatch.setattr(session.SparkSession, "builder", Builder())
    with pytest.raises(UnsuitableClusterError, match=words) as caught:
        session.join_cluster("spark://away:7077")
    assert caught.value.master == "spark://away:7077"
    assert "\tat" not in str(caught.value)


def test_joined_session_is_stopped_when_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    class Joined:
        sparkContext = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)))
        stops = 0

        def stop(self) -> None:
            self.stops += 1
            raise ConnectionError

    class Builder:
        def __getattr__(self, _: str) -> Callable[..., Builder]:
            return lambda *_: self

        def getOrCreate(self) -> Joined:
            return joined

    joined = Joined()
    at_end: list[Callable[[], None]] = []
    for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(session, "find_java", lambda _: SimpleNamespace(home="/java"))
    monkeypatch.setattr(session, "at_exit", at_end.append)
    monkeypatch.setattr(session.SparkSession, "builder", Builder())
    assert session.join_cluster("spark://here:7077") is joined
    (leave,) = at_end
    assert joined.stops == 0
    leave()  # an error here would be the last words of a job that ended well
    assert joined.stops == 1


class DroppedContext:
    """A context whose application its cluster has dropped."""

    master, stops = "spark://old:7077", 0

    def __init__(self) -> None:
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))

    def stop(self) -> None:
        self.stops += 1
        session.SparkContext._active_spark_context = None


def test_next_job_joins_the_cluster_anew_where_the_application_was_dropped_and_never_runs_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joined: list[tuple[str, str]] = []
    monkeypatch.setattr(session, "_own", None)
    monkeypatch.setattr(session, "join_cluster", lambda master, python, name: joined.append((master, name)))
    monkeypatch.setattr(session, "_new_session_of_program", lambda: "handle")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_MASTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(session.SparkContext, "_active_spark_context", dropped := DroppedContext())
    with pytest.raises(UnsuitableClusterError, match="make another one") as caught:
        session.get_session()
    assert (caught.value.master, dropped.stops, joined) == ("spark://old:7077", 1, [])
    monkeypatch.setenv("SPARK_MASTER", "spark://new:7077")
    monkeypatch.setattr(session.SparkContext, "_active_spark_context", DroppedContext())
    assert session.get_session(name="prices") == "handle"
    assert joined == [("spark://new:7077", "prices")]
