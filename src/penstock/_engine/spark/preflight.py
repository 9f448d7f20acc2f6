"""Looks at a cluster before a job begins: each executor tries what the job needs of its host.

What is missing there would otherwise show late, or as lost data: a folder that is not shared, for example, in which
tasks stage what the driver then does not find. Sessions on this machine are not looked at. Decision 58 has the reasons.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import re
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock import __version__
from penstock._engine.graph.named_modules import modules_of
from penstock._engine.protocol.clocks import now_ms
from penstock._engine.spark.epoch import ANSWERS, collect, other_penstock
from penstock._engine.spark.executors import failing_hosts, listed, wait_for
from penstock._engine.spark.probe import CLOUD_VARIABLES, SHARED, Answer, Question
from penstock._engine.spark.session import slot_count
from penstock._engine.spark.shared_places import marked, places_of
from penstock._engine.spark.shipping import in_workers_of
from penstock._engine.spark.words import words_of_spark
from penstock._engine.storage.opening import checkpoint_directory, options_for_tasks, storage_options
from penstock.common import option_table
from penstock.common.task_options import EXECUTORS, EXECUTORS_TIMEOUT
from penstock.errors import EpochInfrastructureError, UnsuitableClusterError, UnsuitableHostError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator

    import pyarrow as pa
    from pyspark import SparkContext

    from penstock._engine.graph.job_graph import JobGraph
    from penstock._engine.spark.session import SparkHandle
    from penstock.common.configuration import Configuration

_log = logging.getLogger(__name__)

#: The largest difference of two clocks that does no harm to what people compare.
_CLOCK_MS: Final = 60_000
#: How often the executors are asked until each has answered: a busy one may miss its turn.
_ROUNDS: Final = 5
#: The time between two looks whether there is an executor at all, and what tells the Spark jobs that wait for one.
_WATCH_S: Final = 1.0
_TAG: Final = "penstock-looking"
#: So many hosts are named in the log.
_NAMED: Final = 5
_VERSIONS: Final = re.compile(r"different version: ([\d.]+) than that in driver: ([\d.]+)")
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]+)"')
#: What a Python said that ended before it could run a task.
_PYTHON_TOLD: Final = re.compile(r"Error from python worker:\n(.+?)\nPYTHONPATH was:", re.DOTALL)
_BEFORE: Final = "set PYSPARK_PYTHON in the driver's environment before the session is made"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from one executor.

    Attributes:
        host: Its host.
        process: What tells it from other executors.
        python: The interpreter.
        penstock: The version of Penstock there; None without one.
        said: Why Penstock cannot be used there.
        clock_ms: The time of day there.
        answer: The rest; None where Penstock is another one.
    """

    host: str
    process: tuple[str, str, int]
    python: str
    penstock: str | None
    said: str
    clock_ms: int
    answer: Answer | None


def check_cluster(
    spark: SparkHandle, graph: JobGraph | None, configuration: Configuration, python_path: tuple[str, ...] = ()
) -> list[Reply]:
    """Look at all executors of a session, and return what they replied.

    Args:
        spark: The session, on a cluster.
        graph: The job; None to look without one.
        configuration: The job's configuration.
        python_path: Entries of sys.path for the tasks.

    Raises:
        UnsuitableClusterError: A host lacks what the job needs, or no executor has come.
    """
    master = spark.session.sparkContext.master or ""
    kept = checkpoint_directory(configuration, recovers=True)
    if graph is not None and kept is None and _is_spread(master):
        key = option_table.CHECKPOINT_DIRECTORY.key
        problem = f"{key} is not set: set it to a place that all hosts share, such as s3://bucket/checkpoints"
        raise UnsuitableClusterError(master, (problem,))
    wait_for_executors(spark, configuration)
    # With dynamic allocation executors come for the look; one that has come just now has no host yet.
    hosts = sorted({executor.host for executor in listed(spark.session.sparkContext)} - {""})
    named = ", ".join(hosts if len(hosts) <= _NAMED else [*hosts[:_NAMED], "…"])
    known = f"{len(hosts)} host{'s'[: len(hosts) != 1]} before the job begins: {named}" if hosts else "the hosts first"
    _log.info("Looking at %s.", known)
    with _giving_up(spark.session.sparkContext, configuration):
        replies, problems = _looked(spark, _question(graph, configuration, python_path))
    if problems:
        raise UnsuitableClusterError(master, tuple(problems))
    return replies


class NewHosts:
    """Looks at the hosts that nobody has looked at when the job began, once tasks of the job have run there.

    Args:
        spark: The session, on a cluster.
        graph: The job.
        configuration: Its configuration.
        python_path: Entries of sys.path for the tasks.
        looked_at: What hosts replied when the job began.
    """

    def __init__(
        self,
        spark: SparkHandle,
        graph: JobGraph,
        configuration: Configuration,
        python_path: tuple[str, ...],
        looked_at: Iterable[Reply],
    ) -> None:
        self._spark, self._graph, self._configuration, self._python_path = spark, graph, configuration, python_path
        self._suitable = {reply.host for reply in looked_at}

    def check(self, hosts: Collection[str]) -> None:
        """Look at those of some hosts that are new.

        Args:
            hosts: Where the tasks of an epoch have run, whose results do not count yet.

        Raises:
            UnsuitableHostError: One lacks what the job needs.
            EpochInfrastructureError: One is gone, so that nobody can look at it.
        """
        new = set(hosts) - self._suitable
        if not new:
            return
        context = self._spark.session.sparkContext
        try:
            replies, problems = _looked(self._spark, _question(self._graph, self._configuration, self._python_path))
        except UnsuitableClusterError as error:
            reason = f"{', '.join(sorted(new))} could not be looked at: {'; '.join(error.problems)}"
            raise EpochInfrastructureError(reason) from None
        if problems:
            raise UnsuitableHostError(context.master or "", tuple(problems))
        left = new - {reply.host for reply in replies}
        if left and len(replies) >= len(listed(context)):
            reason = f"tasks ran on {', '.join(sorted(left))}, which was gone before it could be looked at"
            raise EpochInfrastructureError(reason)
        _log.info("Looked at %s, on which tasks of the job ran for the first time.", ", ".join(sorted(new)))
        self._suitable |= new  # one that is busy is left out with a warning, as at the beginning of the job


def _question(graph: JobGraph | None, configuration: Configuration, python_path: tuple[str, ...]) -> Question:
    return Question(
        token=f".penstock-probe-{secrets.token_hex(8)}",
        places=tuple(places_of(graph, configuration)),
        storage_options=options_for_tasks(storage_options(configuration)),
        variables=tuple(name for name in os.environ if name.startswith(CLOUD_VARIABLES)),
        modules=() if graph is None else modules_of(graph),
        python_path=python_path,
    )


def _looked(spark: SparkHandle, question: Question) -> tuple[list[Reply], list[str]]:
    """Look at all executors, and return what they replied and what is wrong."""
    master = spark.session.sparkContext.master or ""
    with marked(question, master) as asked:
        begun = now_ms()
        replies = _asked(spark, asked, master)
        problems = _judged(replies, (begun, now_ms())) + _unseen(asked, replies)
    return replies, list(dict.fromkeys(problems))


def _is_spread(master: str) -> bool:
    """Return whether a cluster may have several hosts; Spark's own one for tests is on this machine."""
    return not master.startswith("local")


# ------------------------------------------------------------------------------------------------------------ executors


def wait_for_executors(spark: SparkHandle, configuration: Configuration) -> None:
    """Wait until as many executors have registered as the configuration says; with fewer a job begins after a time.

    Raises:
        UnsuitableClusterError: None has come. With dynamic allocation they come for the first tasks.
    """
    context = spark.session.sparkContext
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    wanted = configuration.get(EXECUTORS)
    count = wait_for("executors", lambda: len(listed(context)), wanted, configuration)
    if not count:
        raise UnsuitableClusterError(context.master or "", (_none_has_come(context, configuration),))
    if count < wanted:
        _log.warning(
            "The job begins with %d of %d executors (%s); others are used as they come.",
            *(count, wanted, EXECUTORS.key),
        )


@contextlib.contextmanager
def _giving_up(context: SparkContext, configuration: Configuration) -> Generator[None]:
    """Cancel the Spark jobs of the block once no executor has been there for the longest wait.

    Spark itself waits for ever: for those that dynamic allocation asks for, and after the last one was lost.

    Raises:
        UnsuitableClusterError: They were cancelled.
    """
    patience_s = configuration.get(EXECUTORS_TIMEOUT).to_millis() / 1000
    is_over, is_given_up = threading.Event(), threading.Event()

    def watch() -> None:
        last = time.monotonic()
        while not is_over.wait(_WATCH_S):
            with contextlib.suppress(Exception):  # py4j raises what the JVM does
                if listed(context):
                    last = time.monotonic()
                elif time.monotonic() - last >= patience_s:
                    is_given_up.set()
                    context.cancelJobsWithTag(_TAG)

    context.addJobTag(_TAG)
    threading.Thread(target=watch, name="penstock-looking", daemon=True).start()
    try:
        yield
    except UnsuitableClusterError:
        if not is_given_up.is_set():
            raise
        raise UnsuitableClusterError(context.master or "", (_none_has_come(context, configuration),)) from None
    finally:
        is_over.set()
        context.removeJobTag(_TAG)


def _none_has_come(context: SparkContext, configuration: Configuration) -> str:
    """Return what is wrong where there is no executor."""
    return (
        f"no executor has come within {EXECUTORS_TIMEOUT.key} = {configuration.get(EXECUTORS_TIMEOUT)}: the cluster "
        "may have no free cores or memory for spark.executor.cores and spark.executor.memory, or its hosts cannot "
        f"reach the driver (spark.driver.host){_pods_say_more(context)}"
    )


def _pods_say_more(context: SparkContext) -> str:
    """Return where Kubernetes says why no executor runs; nothing on other clusters."""
    if not (context.master or "").startswith("k8s:"):
        return ""
    pods = f"kubectl describe pods -l spark-app-selector={context.applicationId}"
    return f"; while the job waits, `{pods}` says why pods do not run, and the log of Spark why there are none"


def _asked(spark: SparkHandle, question: Question, master: str) -> list[Reply]:
    """Return the reply of each executor."""
    context = spark.session.sparkContext
    look, known = _look(pickle.dumps(question), __version__), dict[tuple[str, str, int], Reply]()
    for _ in range(_ROUNDS):
        # Spark gives tasks to executors in turn, so a task for each core reaches all that are idle.
        tasks = max(1, slot_count(context))
        try:
            with in_workers_of(spark, question.python_path):  # those of the job, which so are started
                frame = spark.session.range(tasks, numPartitions=tasks).mapInArrow(look, ANSWERS)
            rows = [pickle.loads(payload) for _, payload in collect(frame)]
        except Exception as error:  # noqa: BLE001 - py4j and PySpark raise many types
            raise UnsuitableClusterError(
                master, (_words(str(error), context.pythonExec, failing_hosts(context)),)
            ) from None
        for host, process, python, penstock, said, clock_ms, answered in rows:
            answer = None if answered is None else pickle.loads(answered)
            known.setdefault(process, Reply(host, process, python, penstock, said, clock_ms, answer))
        if len(known) >= len(listed(context)):
            break
    else:
        _log.warning("Of %d executors %d were looked at; the others are busy.", len(listed(context)), len(known))
    return list(known.values())


def _look(question: bytes, version: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that travels as it is written here, so that it also runs where Penstock is another one."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import base64
        import os
        import pickle
        import socket
        import sys
        import time
        from pathlib import Path

        import pyarrow as pa

        for _ in batches:  # else Spark does not keep the worker
            pass
        daemon = Path(f"/proc/{os.getppid()}/stat")
        executor = int(daemon.read_text().rpartition(")")[2].split()[1]) if daemon.exists() else os.getppid()
        clock = time.time_ns() // 1_000_000
        found, said, answered = None, "", None
        try:
            import penstock

            found = str(penstock.__version__)
            if found == version:
                from penstock._engine.spark.probe import answer

                answered = pickle.dumps(answer(pickle.loads(question)))
        except Exception as error:  # noqa: BLE001 - what is installed there may raise anything
            said = f"{type(error).__name__}: {error}"
        host = socket.gethostname()
        reply = (host, (host, str(Path.cwd()), executor), sys.executable, found, said, clock, answered)
        text = f"0 {base64.b64encode(pickle.dumps(reply)).decode()}"
        yield pa.RecordBatch.from_pydict({"text": [text]})

    return look


def _words(said: str, python: str, hosts: list[str]) -> str:
    """Return what is wrong where no Python task runs at all."""
    executors = f"executors on host {', '.join(hosts)}" if hosts else "executors"
    if (versions := _VERSIONS.search(said)) is not None:
        return f"{executors} run Python {versions[1]} ({python!r}), and the driver {versions[2]}; {_BEFORE}"
    if (program := _NO_PROGRAM.search(said)) is not None:
        return f"{executors} cannot run {program[1]!r}, the Python that the driver names for them; {_BEFORE}"
    if (told := _PYTHON_TOLD.search(said)) is not None:
        reason = " ".join(told[1].split())
        return f"{executors} cannot use {python!r}, the Python that the driver names for them: {reason}; {_BEFORE}"
    lines = [line.strip() for line in words_of_spark(said).splitlines() if line.strip()]
    return f"{executors} ran no Python task with {python!r}: {lines[-1] if lines else 'Spark does not say why'}"


# ------------------------------------------------------------------------------------------------------------ judgement


def _judged(replies: list[Reply], asked_ms: tuple[int, int]) -> list[str]:
    """Return what is wrong on the hosts, each problem once with all hosts that have it."""
    hosts: dict[str, dict[str, None]] = {}
    for reply in replies:
        for problem in _problems(reply, asked_ms):
            hosts.setdefault(problem, {})[reply.host] = None
    return [f"host {', '.join(names)} {problem}" for problem, names in hosts.items()]


def _problems(reply: Reply, asked_ms: tuple[int, int]) -> Iterator[str]:
    place = f"for {reply.python}"
    if reply.penstock is None:
        yield f"has no Penstock {place} ({reply.said}); install version {__version__} there, or {_BEFORE}"
    elif reply.penstock != __version__:
        yield other_penstock(reply.penstock, reply.python, __version__)
    elif reply.answer is None:
        yield f"cannot use Penstock {place}: {reply.said}; install it there with all that it depends on"
    else:
        yield from reply.answer.problems
    ahead = max(reply.clock_ms - asked_ms[1], asked_ms[0] - reply.clock_ms)
    if ahead > _CLOCK_MS:
        yield f"has a clock that differs by {ahead // 1000} s from the driver's; synchronize both (NTP)"


def _unseen(question: Question, replies: list[Reply]) -> list[str]:
    """Return where the driver does not find what a host has written."""
    written = {(*one, reply.host) for reply in replies if reply.answer is not None for one in reply.answer.written}
    return [
        f"the driver does not find what host {host} has written to {path} of {user}; {SHARED}"
        for user, path, name, host in sorted(written)
        if not (Path(path) / name).exists()
    ]
