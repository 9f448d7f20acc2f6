"""When the application of a job counts as forgotten by the master of its standalone cluster, and what follows."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock._engine.protocol.clocks import Moment
from penstock._engine.spark.executors import SparkExecutors
from penstock._engine.spark.forgotten import MasterWatch, is_forgotten, watch_of

APP = "app-1"
ALIVE, STANDBY, RECOVERING = "ALIVE", "STANDBY", "RECOVERING"


def state(status: str, *applications: str) -> Any:
    """What a master answers."""
    known = [SimpleNamespace(id=lambda name=name: name) for name in applications]
    return SimpleNamespace(status=lambda: SimpleNamespace(toString=lambda: status), activeApps=lambda: known)


class Context:
    """The context of an application, with what its masters answer; None for one that is away."""

    applicationId = APP

    def __init__(self, *masters: Any) -> None:
        self.master = "spark://" + ",".join(f"m{number}:7077" for number in range(len(masters)))
        self._masters = {f"spark://m{number}:7077": answer for number, answer in enumerate(masters)}
        messages: Any = SimpleNamespace(**{"DeployMessages$RequestMasterState$": SimpleNamespace(**{"MODULE$": "?"})})
        address = SimpleNamespace(fromSparkURL=lambda url: url)
        spark = SimpleNamespace(deploy=messages, rpc=SimpleNamespace(RpcAddress=address))
        tags = SimpleNamespace(Any=lambda: None)
        self._jvm = SimpleNamespace(
            org=SimpleNamespace(apache=SimpleNamespace(spark=spark)),
            scala=SimpleNamespace(reflect=SimpleNamespace(ClassTag=tags)),
        )
        backend = SimpleNamespace(rpcEnv=lambda: SimpleNamespace(setupEndpointRef=self._reach))
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(schedulerBackend=lambda: backend))

    def _reach(self, url: str, _: str) -> Any:
        answer = self._masters[url]
        if answer is None:
            raise ConnectionError(url)
        return SimpleNamespace(askSync=lambda *_: answer)


@pytest.mark.parametrize(
    ("masters", "forgotten"),
    [
        ((state(ALIVE, APP),), False),
        ((state(ALIVE, "app-2"),), True),
        ((None,), False),  # nobody knows what it will remember
        ((state(RECOVERING),), False),  # it may still read of it
        ((state(STANDBY), None), False),  # the one that is away may be at work
        ((state(STANDBY), state(ALIVE, APP)), False),
        ((None, state(ALIVE)), True),
    ],
)
def test_only_a_master_at_work_can_have_forgotten_an_application(masters: tuple[Any, ...], forgotten: bool) -> None:
    assert is_forgotten(Context(*masters)) is forgotten


def test_other_masters_than_those_of_standalone_clusters_are_not_asked() -> None:
    assert watch_of(Context(state(ALIVE))) is not None
    for master in ("yarn", "k8s://https://host", "local-cluster[2,1,512]"):
        assert watch_of(SimpleNamespace(master=master)) is None


def test_application_is_ended_once_it_is_forgotten_and_a_master_that_is_slow_is_asked_once() -> None:
    asked, go, ended = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
    answers: list[bool | Exception] = [False, ConnectionError("the JVM is busy"), True]

    def answer() -> bool:
        asked.release()
        assert go.acquire(timeout=10)
        said = answers.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    watch = MasterWatch(answer, ended.set)
    for left in (2, 1, 0):
        assert not ended.is_set()
        while not asked.acquire(timeout=0.01):  # as soon as the last answer has come
            watch.ask()
        watch.ask()
        assert not asked.acquire(timeout=0.01)
        go.release()
        if left == 0:
            assert ended.wait(10)
    assert answers == []


def test_master_is_asked_after_a_while_without_executors_and_not_before() -> None:
    there: list[Any] = [SimpleNamespace(id="spark-0", host="host-0")]
    now = [Moment(1_000_000, 0)]
    asked: list[int] = []
    executors = SparkExecutors(
        lambda: tuple(there), ask_master=lambda: asked.append(now[0].passed_ms), clock=lambda: now[0]
    )

    def look(passed_ms: int) -> None:
        now[0] = Moment(1_000_000 + passed_ms, passed_ms)
        executors.look()

    look(0)
    assert executors.none_since() is None
    del there[:]
    look(5_000)
    look(10_000)
    assert (executors.none_since(), asked) == (1_005_000, [])
    look(15_000)
    look(20_000)
    assert (executors.none_since(), asked) == (1_005_000, [15_000, 20_000])
    there.append(SimpleNamespace(id="spark-1", host="host-1"))
    look(25_000)
    assert (executors.none_since(), asked) == (None, [15_000, 20_000])
