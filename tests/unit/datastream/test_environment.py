"""The environment: settings and their sources, and streams out of collections and sources."""

from __future__ import annotations

import pickle
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import chains, job_graph

from penstock.common import Configuration, Row, TypeInformation, Types, WatermarkStrategy
from penstock.datastream import CheckpointingMode, RuntimeExecutionMode, SlotSharingGroup, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.errors import ConfigurationError, UnpicklableFunctionError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def records_of(env: StreamExecutionEnvironment) -> list[Any]:
    """What the collection source of the only vertex holds."""
    source = pickle.loads(job_graph(env).vertices[0].operators[0].payload)["source"]
    return pickle.loads(source._records)


# ----------------------------------------------------------------------------------------------------------- settings


def test_the_program_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text("parallelism: {default: 2}\npipeline.max-parallelism: 20\n", encoding="utf-8")
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_PARALLELISM__DEFAULT", "3")
    get = StreamExecutionEnvironment.get_execution_environment
    assert (get().get_parallelism(), get().get_max_parallelism()) == (3, 20)
    assert get(Configuration().set_integer("parallelism.default", 4)).get_parallelism() == 4


def test_a_wrong_value_is_named_with_where_it_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PARALLELISM__DEFAULT", "many")
    with pytest.raises(ConfigurationError, match=r"parallelism.default cannot be 'many' .*PENSTOCK_PARALLELISM"):
        StreamExecutionEnvironment.get_execution_environment()


def test_the_programs_configuration_is_not_changed() -> None:
    configuration = Configuration()
    StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(3)
    assert configuration.to_dict() == {}


def test_configure_keeps_unknown_keys_and_checks_known_ones(env: StreamExecutionEnvironment) -> None:
    env.configure(Configuration().set_string("my.own", "x").set_string("parallelism.default", "6"))
    assert env.get_parallelism() == 6
    assert env._configuration.get_string("my.own", "") == "x"
    with pytest.raises(ConfigurationError, match=r"parallelism.default cannot be '0'"):
        env.configure(Configuration().set_string("parallelism.default", "0"))


def test_configs_are_live_views(env: StreamExecutionEnvironment) -> None:
    env.get_config().set_parallelism(5)
    env.get_checkpoint_config().set_checkpoint_interval(1000)
    assert (env.get_parallelism(), env.get_checkpoint_interval()) == (5, 1000)


@pytest.mark.parametrize(
    ("setting", "getting", "value"),
    [
        ("set_parallelism", "get_parallelism", 3),
        ("set_max_parallelism", "get_max_parallelism", 300),
        ("set_default_savepoint_directory", "get_default_savepoint_directory", "/data/savepoints"),
        ("enable_changelog_state_backend", "is_changelog_state_backend_enabled", True),
        ("set_buffer_timeout", "get_buffer_timeout", 17),
    ],
)
def test_a_setter_returns_the_environment_and_the_getter_the_value(
    env: StreamExecutionEnvironment, setting: str, getting: str, value: object
) -> None:
    assert getattr(env, setting)(value) is env
    assert getattr(env, getting)() == value


def test_defaults(env: StreamExecutionEnvironment) -> None:
    assert (env.get_parallelism(), env.get_max_parallelism(), env.get_checkpoint_interval()) == (1, -1, -1)
    assert env.get_checkpointing_mode() is env.get_checkpointing_consistency_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.is_chaining_enabled()
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert not env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()
    assert env.get_default_savepoint_directory() is None
    assert env.is_changelog_state_backend_enabled() is None


def test_flinks_older_key_of_the_buffer_timeout_is_read_too(env: StreamExecutionEnvironment) -> None:
    env.configure(Configuration().set_string("execution.buffer-timeout", "1 min"))
    assert env.get_buffer_timeout() == 60_000


def test_enable_checkpointing(env: StreamExecutionEnvironment) -> None:
    assert env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE) is env
    assert env.get_checkpoint_interval() == 500
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    with pytest.raises(ConfigurationError, match=r"execution.checkpointing.interval .* at least 10 ms"):
        env.enable_checkpointing(9)


def test_chaining_and_mode_are_set(env: StreamExecutionEnvironment) -> None:
    env.disable_operator_chaining().set_runtime_mode(RuntimeExecutionMode.BATCH)
    assert not env.is_chaining_enabled()
    assert env._configuration.get_string("execution.runtime-mode", "") == "BATCH"


def test_slot_sharing_groups_are_accepted(env: StreamExecutionEnvironment) -> None:
    group = SlotSharingGroup.builder("heavy").build()
    assert env.register_slot_sharing_group(group) is env
    stream = env.from_collection([1]).map(abs)
    assert stream.slot_sharing_group(group) is stream
    assert stream.slot_sharing_group("light") is stream


@pytest.mark.parametrize(
    "call",
    [
        lambda env: env.add_source(object()),
        lambda env: env.create_input(object()),
    ],
)
def test_what_needs_the_jvm_says_so(
    env: StreamExecutionEnvironment, call: Callable[[StreamExecutionEnvironment], object]
) -> None:
    with pytest.raises(UnsupportedOperationError, match="needs the JVM"):
        call(env)


# ------------------------------------------------------------------------------------------------------------ sources


def test_a_collection_has_one_subtask_for_good(env: StreamExecutionEnvironment) -> None:
    stream = env.set_parallelism(4).from_collection([1]).set_parallelism(1)
    with pytest.raises(UnsupportedOperationError, match=r"set_parallelism\(2\) on 'Source: Collection' at .*:\d+ is"):
        stream.set_parallelism(2)
    stream.map(abs)
    assert [vertex.parallelism for vertex in job_graph(env).vertices] == [1, 4]


@pytest.mark.parametrize("collection", [[], [1, None], (1, 2), range(3), (n for n in "ab"), {1: 2}.items()])
def test_any_iterable_is_a_collection(env: StreamExecutionEnvironment, collection: Any) -> None:
    expected = list(collection) if not hasattr(collection, "send") else ["a", "b"]
    env.from_collection(collection).print()
    assert records_of(env) == expected


def test_the_collection_is_copied_at_the_call(env: StreamExecutionEnvironment) -> None:
    values = [[1]]
    env.from_collection(values).print()
    values[0].append(2)
    values.append([3])
    assert records_of(env) == [[1]]


def test_a_typed_collection_is_brought_into_shape(env: StreamExecutionEnvironment) -> None:
    row = Types.ROW_NAMED(["id", "score"], [Types.INT(), Types.DOUBLE()])
    stream = env.from_collection([Row(1, 2), {"id": 3, "score": 4}], type_info=row)
    stream.print()
    assert stream.get_type() == row
    assert records_of(env) == [Row(id=1, score=2.0), Row(id=3, score=4.0)]
    assert chains(job_graph(env)) == [["Source: Collection", "Print to Std. Out"]]


@pytest.mark.parametrize(
    ("record", "type_info", "message"),
    [
        (5, Types.ROW([Types.INT()]), "is declared as RowTypeInfo(Integer), and 5 is no row"),
        (
            Row(1, 2),
            Types.ROW([Types.INT()]),
            "and <Row(1, 2)> does not fit: it has 2 fields, and the type has 1",
        ),
        (
            "x",
            Types.TUPLE([Types.INT(), Types.INT()]),
            "TupleTypeInfo(Integer, Integer), and 'x' is no array",
        ),
    ],
)
@pytest.mark.behaviour(191)
def test_a_record_of_another_shape_is_refused_at_the_call(
    env: StreamExecutionEnvironment, record: object, type_info: TypeInformation, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        env.from_collection([record], type_info)


def test_a_record_that_cannot_travel_is_named(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(UnpicklableFunctionError, match=r"The collection .* because of \[1\]\['lock'\]"):
        env.from_collection([0, {"lock": threading.Lock()}])


def test_a_source_knows_its_own_type(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.no_watermarks()
    stream = env.from_source(NumberSequenceSource(1, 3), strategy, "numbers")
    stream.print()
    assert stream.get_type() == Types.LONG()
    assert stream.get_name() == "Source: numbers"
    members = pickle.loads(job_graph(env).vertices[0].operators[0].payload)
    assert sorted(members) == ["source", "watermark_strategy"]


def test_a_type_given_for_a_source_shapes_its_records(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.no_watermarks()
    env.from_source(NumberSequenceSource(1, 3), strategy, "numbers", Types.DOUBLE()).print()
    assert chains(job_graph(env)) == [
        ["Source: numbers", "Source: numbers", "Print to Std. Out"],
    ]


@pytest.mark.parametrize(
    ("source", "strategy", "message"),
    [
        (object(), WatermarkStrategy.no_watermarks(), "source must be a Source"),
        ([1], WatermarkStrategy.no_watermarks(), r"not \[1\]; from_collection\(\) reads a list, and a FunctionSource"),
        (NumberSequenceSource(1, 3), None, "watermark_strategy must be a WatermarkStrategy"),
    ],
)
def test_wrong_arguments_of_from_source(
    env: StreamExecutionEnvironment, source: Any, strategy: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        env.from_source(source, strategy, "numbers")
