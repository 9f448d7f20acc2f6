"""The two texts of a plan: for people, and in the form of Flink's."""

from __future__ import annotations

import json
import re

from tests.kit.world import TargetSink
from tests.unit.graph.graphs import environment

from penstock.common import Types
from penstock.datastream import OutputTag, StreamExecutionEnvironment


def sample() -> StreamExecutionEnvironment:
    from tests.unit.graph.test_chaining import Split

    env = environment(2)
    main = env.from_collection([1]).uid("numbers").process(Split()).uid("split").set_description("splits numbers")
    main.key_by(abs).max().uid("largest").print().uid("out")
    main.get_side_output(OutputTag("odd")).map(abs).uid("odd map")
    return env


def test_explain_shows_levels_vertices_chains_and_edges() -> None:
    text = re.sub(r"test_explain.py:\d+", "job.py:1", sample().explain())
    assert text == (
        "Job 'Flink Streaming Job': 3 vertices, 2 edges\n"
        "Level 0\n"
        "  Vertex 0, parallelism 1 (at most 1)\n"
        "    Source: Collection (source, uid numbers, job.py:1)\n"
        "Level 1\n"
        "  Vertex 1, parallelism 2 (at most 128)\n"
        "    <- rebalance from vertex 0: Source: Collection\n"
        "    Process (process, uid split, job.py:1)\n"
        "      Map of side output 'odd' (map, uid odd map, job.py:1)\n"
        "Level 2\n"
        "  Vertex 2, parallelism 2 (at most 128)\n"
        "    <- hash from vertex 1: Process\n"
        "    Max (reduce, uid largest, job.py:1)\n"
        "      Print to Std. Out (collect, uid out, job.py:1)"
    )


def test_explain_says_which_uids_are_generated() -> None:
    env = environment(1)
    env.from_collection([1]).map(abs)
    assert "Map (map, uid ce0fa805d29903e429686374d9a8e87c, generated, test_explain.py:" in env.explain()


def test_explaining_executes_nothing_and_forgets_nothing() -> None:
    env = sample()
    assert env.explain() == env.explain()
    assert env.get_execution_plan() == env.get_execution_plan()


def test_execution_plan_has_the_members_of_flinks() -> None:
    nodes = json.loads(sample().get_execution_plan())["nodes"]
    assert [(node["id"], node["type"], node["pact"], node["parallelism"]) for node in nodes] == [
        (1, "Source: Collection", "Data Source", 1),
        (2, "Process", "Operator", 2),
        (3, "Map", "Operator", 2),
        (4, "Max", "Operator", 2),
        (5, "Print to Std. Out", "Data Sink", 2),
    ]
    assert nodes[1]["contents"] == "splits numbers"
    assert [node.get("predecessors") for node in nodes] == [
        None,
        [{"id": 1, "ship_strategy": "REBALANCE"}],
        [{"id": 2, "ship_strategy": "FORWARD"}],
        [{"id": 2, "ship_strategy": "HASH"}],
        [{"id": 4, "ship_strategy": "FORWARD"}],
    ]


def test_a_nameless_sink_is_shown_by_its_uid_and_a_declared_type_not_at_all() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    pairs = env.from_collection([1]).map(lambda n: (n, n), output_type=Types.TUPLE([Types.INT(), Types.INT()]))
    pairs.key_by(lambda pair: pair[0]).map(str).sink_to(TargetSink("explained")).uid("orders")
    pairs.sink_to(TargetSink("explained")).uid("raw").name("Raw orders")
    pairs.sink_to(TargetSink("explained"))
    text, plan = env.explain(), env.get_execution_plan()
    nodes = {node["id"]: node for node in json.loads(plan)["nodes"]}
    names = {node["type"] for node in nodes.values()}
    assert names == {"Source: Collection", "Map", "Sink: orders", "Raw orders", "Sink"}
    assert all(f"    {name} (" in text for name in names)
    assert "declared type" not in text + plan
    before = {nodes[one["predecessors"][0]["id"]]["type"] for one in nodes.values() if one["type"] == "Sink"}
    assert before == {"Map"}
    assert "<- hash from vertex 0: Map\n" in text or "<- hash from vertex 1: Map\n" in text
