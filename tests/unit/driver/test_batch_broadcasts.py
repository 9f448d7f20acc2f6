"""Broadcast streams of batch jobs: what is read first, and by how many subtasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.driver.test_batch_jobs import environment

from penstock.common import Types
from penstock.datastream.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from penstock.datastream.state import MapStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kit.without_spark import Cluster

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


class Ruled(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value, ctx.get_broadcast_state(RULES).get("rule")

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(RULES).put("rule", value)
        return ()


@pytest.mark.behaviour(157)
def test_the_broadcast_side_is_read_first(cluster: Cluster) -> None:
    env = environment()
    rules = env.from_collection(["first", "last"]).broadcast(RULES)
    joined = env.from_collection([1, 2, 3]).key_by(lambda value: value).connect(rules).process(Ruled())
    assert sorted(joined.execute_and_collect()) == [(1, "last"), (2, "last"), (3, "last")]


class RuledWithoutKey(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value, ctx.get_broadcast_state(RULES).get("rule")

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(RULES).put("rule", value)
        return ()


@pytest.mark.behaviour(157)
def test_the_broadcast_side_is_read_first_without_keys_too(cluster: Cluster) -> None:
    env = environment(1)
    rules = env.from_collection(["first", "last"]).broadcast(RULES)
    joined = env.from_collection([1, 2, 3]).rebalance().connect(rules).process(RuledWithoutKey())
    assert sorted(joined.execute_and_collect()) == [(1, "last"), (2, "last"), (3, "last")]


class HearingAll(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None: ...

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value


class Hearing(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None: ...

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield value


@pytest.mark.parametrize(("how", "subtasks"), [("broadcast", 1), ("connect", 3), ("connect keyed", 3)])
def test_every_subtask_that_the_program_asks_for_gets_a_broadcast_beside_another_stream_though_there_is_little_of_it(
    cluster: Cluster, how: str, subtasks: int
) -> None:
    env = environment(3, **{"execution.batch.adaptive.auto-parallelism.enabled": "true"})
    told, others = env.from_collection([1, 2]), env.from_collection([3])
    names = MapStateDescriptor("names", Types.INT(), Types.INT())
    if how == "broadcast":
        heard = told.broadcast().map(str)
    elif how == "connect":
        heard = others.connect(told.broadcast(names)).process(HearingAll())
    else:
        heard = others.key_by(str).connect(told.broadcast(names)).process(Hearing())
    assert sorted(map(str, heard.execute_and_collect())) == ["1"] * subtasks + ["2"] * subtasks
