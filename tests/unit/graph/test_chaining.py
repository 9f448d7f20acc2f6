"""Which operators share a vertex, and which edges lie between vertices: Flink's rules."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from tests.unit.graph.graphs import chains, environment, job_graph, operator

from penstock._engine.graph.job_graph import PartitionerKind
from penstock._engine.operators.factories.functions import DeclaredTypeFactory, FilterFactory, MapFactory
from penstock._engine.operators.factories.sources_and_sinks import SourceFactory
from penstock.common import Configuration, Types
from penstock.datastream import DataStream, OutputTag, ProcessFunction, StreamExecutionEnvironment
from penstock.errors import ConfigurationError, ForwardParallelismError

if TYPE_CHECKING:
    from collections.abc import Callable


class Split(ProcessFunction):
    def process_element(self, value: object, ctx: ProcessFunction.Context) -> list[object]:
        return [value]


def test_forward_edges_of_equal_parallelism_chain() -> None:
    env = environment(1)
    env.from_collection([1]).map(abs).filter(bool).print()
    assert chains(job_graph(env)) == [["Source: Collection", "Map", "Filter", "Print to Std. Out"]]


def test_default_edge_between_different_parallelisms_rebalances() -> None:
    env = environment(2)
    env.from_collection([1]).map(abs)
    graph = job_graph(env)
    assert chains(graph) == [["Source: Collection"], ["Map"]]
    assert [(edge.source, edge.target, edge.partitioner) for edge in graph.edges] == [(0, 1, PartitionerKind.REBALANCE)]


@pytest.mark.parametrize(
    ("repartition", "kind"),
    [
        (DataStream.rebalance, PartitionerKind.REBALANCE),
        (DataStream.rescale, PartitionerKind.RESCALE),
        (DataStream.shuffle, PartitionerKind.SHUFFLE),
        (DataStream.broadcast, PartitionerKind.BROADCAST),
        (lambda stream: stream.key_by(abs), PartitionerKind.HASH),
        (lambda stream: stream.partition_custom(lambda key, n: key % n, abs), PartitionerKind.CUSTOM),
    ],
)
def test_any_other_partitioning_ends_a_chain(
    repartition: Callable[[DataStream], DataStream], kind: PartitionerKind
) -> None:
    env = environment(1)
    repartition(env.from_collection([1])).map(abs)
    graph = job_graph(env)
    assert chains(graph) == [["Source: Collection"], ["Map"]]
    assert [edge.partitioner for edge in graph.edges] == [kind]


def test_the_last_partitioning_counts() -> None:
    env = environment(1)
    env.from_collection([1]).shuffle().rebalance().forward().map(abs)
    assert len(job_graph(env).vertices) == 1


def test_partitioner_functions_travel_with_the_edge() -> None:
    env = environment(2)
    env.from_collection([1]).partition_custom(lambda key, n: key % n, lambda value: value * 10).map(abs)
    members = pickle.loads(job_graph(env).edges[0].payload)
    assert members["partitioner"](members["key_selector"](7), 4) == 2


def test_forward_between_different_parallelisms_names_both() -> None:
    env = environment(3)
    env.from_collection([1]).forward().map(abs).name("after")
    with pytest.raises(ForwardParallelismError, match=r"'Source: Collection' \(parallelism 1\) to 'after' \(.* 3\)"):
        job_graph(env)


def test_a_union_heads_a_chain_and_keeps_each_edge() -> None:
    env = environment(1)
    a, b = env.from_collection([1]), env.from_collection([2])
    a.union(b, a).map(abs)
    graph = job_graph(env)
    assert chains(graph) == [["Source: Collection"], ["Source: Collection"], ["Map"]]
    assert [(edge.source, edge.target, edge.input_index) for edge in graph.edges] == [(0, 2, 0), (1, 2, 0), (0, 2, 0)]
    assert [edge.id for edge in graph.edges] == [0, 1, 2]


def test_a_chain_is_a_tree_with_side_outputs_in_it() -> None:
    env = environment(1)
    main = env.from_collection([1]).process(Split())
    main.map(abs).name("main")
    main.get_side_output(OutputTag("late")).map(abs).name("side")
    [vertex] = job_graph(env).vertices
    assert [(node.name, node.parent, node.input_tag) for node in vertex.operators] == [
        ("Source: Collection", None, None),
        ("Process", 0, None),
        ("main", 1, None),
        ("side", 1, "late"),
    ]
    assert vertex.name == "Source: Collection -> Process -> (main, side)"


def test_an_edge_to_another_vertex_names_operator_and_side_output() -> None:
    env = environment(1)
    main = env.from_collection([1]).process(Split())
    main.get_side_output(OutputTag("late")).rebalance().map(abs)
    [edge] = job_graph(env).edges
    assert (edge.source, edge.source_operator, edge.output_tag, edge.target) == (0, 1, "late", 1)


def test_start_new_chain_cuts_before_the_operator() -> None:
    env = environment(1)
    env.from_collection([1]).map(abs).filter(bool).start_new_chain().map(abs)
    assert chains(job_graph(env)) == [["Source: Collection", "Map"], ["Filter", "Map"]]


def test_disable_chaining_cuts_on_both_sides() -> None:
    env = environment(1)
    env.from_collection([1]).map(abs).filter(bool).disable_chaining().map(abs)
    assert chains(job_graph(env)) == [["Source: Collection", "Map"], ["Filter"], ["Map"]]


def test_disable_operator_chaining_cuts_everywhere_but_keeps_declared_types_with_their_operator() -> None:
    env = environment(1).disable_operator_chaining()
    env.from_collection([1]).map(lambda n: (n,), output_type=Types.TUPLE([Types.INT()])).print()
    assert chains(job_graph(env)) == [["Source: Collection"], ["Map", "Map"], ["Print to Std. Out"]]


def test_declared_type_follows_a_later_change_of_parallelism() -> None:
    env = environment(2)
    env.from_collection([1]).map(lambda n: (n,), output_type=Types.TUPLE([Types.INT()])).set_parallelism(5)
    graph = job_graph(env)
    assert [vertex.parallelism for vertex in graph.vertices] == [1, 5]


def test_records_flow_through_the_declared_type() -> None:
    env = environment(1)
    row = Types.ROW_NAMED(["id"], [Types.INT()])
    env.from_collection([1]).map(lambda n: {"id": n}, output_type=row).filter(bool)
    [vertex] = job_graph(env).vertices
    assert [(node.name, node.factory, node.parent) for node in vertex.operators] == [
        ("Source: Collection", SourceFactory, None),
        ("Map", MapFactory, 0),
        ("Map", DeclaredTypeFactory, 1),
        ("Filter", FilterFactory, 2),
    ]


def test_a_type_that_every_record_has_costs_no_operator() -> None:
    env = environment(1)
    env.from_collection([1]).map(str, output_type=Types.PICKLED_BYTE_ARRAY()).print()
    assert chains(job_graph(env)) == [["Source: Collection", "Map", "Print to Std. Out"]]


def test_a_typed_side_output_gets_its_declared_shape_once() -> None:
    env = environment(1)
    tag = OutputTag("pairs", Types.TUPLE([Types.INT(), Types.INT()]))
    main = env.from_collection([1]).process(Split())
    main.get_side_output(tag).map(abs)
    main.get_side_output(tag).map(abs)
    [vertex] = job_graph(env).vertices
    assert [(node.name, node.parent, node.input_tag) for node in vertex.operators[2:]] == [
        ("Process", 1, "pairs"),
        ("Map", 2, None),
        ("Map", 2, None),
    ]


def test_default_max_parallelism_follows_each_vertex() -> None:
    env = environment(1)
    env.from_collection([1]).map(abs).set_parallelism(100)
    assert [vertex.max_parallelism for vertex in job_graph(env).vertices] == [1, 256]


def test_max_parallelism_of_the_job_holds_unless_the_operator_has_its_own() -> None:
    env = environment(1).set_max_parallelism(64)
    env.from_collection([1]).map(abs).set_parallelism(2).map(abs).set_parallelism(3).set_max_parallelism(9)
    assert [vertex.max_parallelism for vertex in job_graph(env).vertices] == [1, 64, 9]


def test_parallelism_above_the_maximum_is_refused() -> None:
    env = environment(8).set_max_parallelism(4)
    env.from_collection([1]).map(abs)
    with pytest.raises(ConfigurationError, match=r"pipeline.max-parallelism cannot be '4': operator 'Map' at .* 8"):
        job_graph(env)


@pytest.mark.parametrize(("allowed", "vertices"), [("true", 1), ("false", 2)])
def test_operators_of_different_max_parallelism_chain_where_that_is_allowed(allowed: str, vertices: int) -> None:
    key = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
    env = StreamExecutionEnvironment.get_execution_environment(Configuration().set_string(key, allowed))
    first = env.from_collection([1]).rebalance().map(abs).set_max_parallelism(10)
    first.map(abs).set_max_parallelism(20)
    assert len(job_graph(env).vertices) == 1 + vertices


def test_creation_lines_are_the_users() -> None:
    env = environment(1)
    env.from_collection([1]).map(abs).print()
    lines = [node.created_at for node in job_graph(env).vertices[0].operators]
    assert {line.rpartition(":")[0] for line in lines} == {"test_chaining.py"}
    assert lines[0] == lines[1] == lines[2]


def test_watermarks_and_collecting_keep_the_size_of_their_input() -> None:
    from penstock.common import WatermarkStrategy

    env = environment(4)
    env.from_collection([1]).assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks())
    assert [vertex.parallelism for vertex in job_graph(env).vertices] == [1]


def test_vertices_are_in_topological_order_in_a_diamond() -> None:
    env = environment(2)
    source = env.from_collection([1])
    left, right = source.rebalance().map(abs), source.map(abs)
    late = left.rebalance().map(abs).name("late")
    right.union(late).map(abs)
    graph = job_graph(env)
    assert all(edge.source < edge.target for edge in graph.edges)


def test_payload_holds_what_the_kind_names() -> None:
    env = environment(1)
    env.from_collection([("a", 1)]).key_by(lambda pair: pair[0]).reduce(lambda a, b: b).name("last")
    members = pickle.loads(operator(job_graph(env), "last").payload)
    assert sorted(members) == ["function", "key_selector"]
    assert members["key_selector"](("a", 1)) == "a"
