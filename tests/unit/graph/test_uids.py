"""Uids name state in checkpoints: the user's own, else one that changes only with what the operator reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.graph.graphs import environment, job_graph, operator, uids

from penstock.common import Configuration, Encoder, Time, Types
from penstock.datastream import CheckpointedFunction, MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import ConfigurationError, DuplicateUidError

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = Path(__file__).parents[3] / "src"

DAYS = TumblingEventTimeWindows.of(Time.days(1))


class Listed(MapFunction, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        pass

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        return value


def sample(parallelism: int = 2) -> StreamExecutionEnvironment:
    env = environment(parallelism)
    counted = env.from_collection(["a"]).map(str.upper).name("upper").key_by(str).reduce(max).name("largest")
    counted.print().name("out")
    return env


def test_generated_uids_never_change_from_release_to_release() -> None:
    assert uids(job_graph(sample())) == {
        "Source: Collection": "b375ae1ebbedeb7ee884442798c216d1",
        "upper": "ce0fa805d29903e429686374d9a8e87c",
        "largest": "6fc3209b6303ae83a071d8a2f676843e",
        "out": "8ebd9886d59a02820935444c59aa292e",
    }


def test_generated_uids_are_the_same_in_every_process() -> None:
    program = "from tests.unit.graph import test_uids as t; print(*t.uids(t.job_graph(t.sample())).values())"
    root = str(SOURCES.parent)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": f"{SOURCES}{os.pathsep}{root}", "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {" ".join(uids(job_graph(sample())).values()) + "\n"}


def test_parallelism_and_chaining_do_not_change_uids() -> None:
    assert uids(job_graph(sample(1))) == uids(job_graph(sample(7)))
    assert uids(job_graph(sample(1))) == uids(job_graph(sample(1).disable_operator_chaining()))


def test_names_and_declared_types_do_not_change_uids() -> None:
    def build(*, typed: bool) -> dict[str, str]:
        env = environment()
        output_type = Types.TUPLE([Types.STRING()]) if typed else None
        env.from_collection(["a"]).map(lambda word: (word,), output_type=output_type).filter(bool).name("end")
        return uids(job_graph(env))

    assert build(typed=True)["end"] == build(typed=False)["end"]


def test_another_branch_or_source_changes_no_other_uid() -> None:
    before = uids(job_graph(sample()))
    env = sample()
    env.from_collection([1]).filter(bool).name("unrelated").print().name("unrelated out")
    after = uids(job_graph(env))
    assert {name: uid for name, uid in after.items() if name in before and name != "Source: Collection"} == {
        name: uid for name, uid in before.items() if name != "Source: Collection"
    }


def test_an_operator_put_in_between_changes_the_uids_behind_it_only() -> None:
    env = environment()
    upper = env.from_collection(["a"]).map(str.upper).name("upper")
    upper.filter(bool).key_by(str).reduce(max).name("largest")
    before, after = uids(job_graph(sample())), uids(job_graph(env))
    assert after["upper"] == before["upper"]
    assert after["largest"] != before["largest"]


def test_a_uid_of_the_users_keeps_what_stands_behind_it() -> None:
    def build(extra: bool) -> str:
        env = environment()
        stream = env.from_collection(["a"])
        if extra:
            stream = stream.filter(bool)
        stream.map(str.upper).uid("upper").filter(bool).name("end")
        return uids(job_graph(env))["end"]

    assert build(extra=False) == build(extra=True)


def test_equal_siblings_have_different_uids_in_order_of_making() -> None:
    env = environment()
    stream = env.from_collection(["a"])
    stream.map(str.upper).name("first")
    stream.map(str.lower).name("second")
    found = uids(job_graph(env))
    assert found["first"] != found["second"]


def test_a_side_output_and_the_main_output_lead_to_different_uids() -> None:
    from tests.unit.graph.test_chaining import Split

    from penstock.datastream import OutputTag

    env = environment()
    main = env.from_collection([1]).process(Split())
    main.get_side_output(OutputTag("late")).map(abs).name("side")
    main.map(abs).name("main")
    alone, side_alone = environment(), environment()
    alone.from_collection([1]).process(Split()).map(abs).name("main")
    side_alone.from_collection([1]).process(Split()).get_side_output(OutputTag("late")).map(abs).name("side")
    assert uids(job_graph(env))["main"] == uids(job_graph(alone))["main"]
    assert uids(job_graph(env))["side"] == uids(job_graph(side_alone))["side"] != uids(job_graph(alone))["main"]


def test_a_second_run_of_the_same_environment_gives_the_same_uids() -> None:
    env = sample()
    before = uids(job_graph(env))
    env.close()
    counted = env.from_collection(["a"]).map(str.upper).name("upper").key_by(str).reduce(max).name("largest")
    counted.print().name("out")
    assert uids(job_graph(env)) == before


def test_own_uid_is_taken_as_it_is() -> None:
    env = environment()
    env.from_collection([1]).map(abs).uid("my map").name("m")
    node = operator(job_graph(env), "m")
    assert (node.uid, node.explicit_uid) == ("my map", True)


def test_two_equal_uids_are_refused_with_both_lines() -> None:
    env = environment()
    env.from_collection([1]).map(abs).name("one").uid("same")
    env.from_collection([1]).map(abs).name("two").uid("same")
    with pytest.raises(DuplicateUidError, match=r"'same': 'one' at test_uids.py:\d+ and 'two' at test_uids.py:\d+"):
        job_graph(env)


def test_without_generated_uids_an_operator_with_state_needs_one() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration().set_string("pipeline.auto-generate-uids", "false")
    )
    typed = env.from_collection([1]).uid("source").map(lambda n: (n,), output_type=Types.TUPLE([Types.INT()]))
    typed.filter(bool).print()
    assert all(node.uid for node in job_graph(env).operators.values())
    typed.key_by(lambda row: row[0]).reduce(max)
    with pytest.raises(ConfigurationError, match=r"pipeline.auto-generate-uids .* 'Reduce' at test_uids.py:\d+ keeps"):
        job_graph(env)


def test_a_uid_that_was_generated_can_be_given_to_an_operator_that_has_moved() -> None:
    env = environment()
    env.from_collection(["a"]).map(str.upper).name("upper")
    generated = uids(job_graph(env))["upper"]
    changed = environment()
    stream = changed.from_collection(["a"])
    stream.map(str.lower).name("lower")
    stream.map(str.upper).name("upper").uid(generated)
    found = uids(job_graph(changed))
    assert found["upper"] == generated != found["lower"]


@pytest.mark.parametrize(
    ("write", "stateful"),
    [
        (lambda stream: stream.map(str), False),
        (lambda stream: stream.map(Listed()), True),
        (lambda stream: stream.key_by(str).map(str), False),
        (lambda stream: stream.key_by(str).map(Listed()), True),
        (lambda stream: stream.key_by(str).sum(), True),
        (lambda stream: stream.key_by(str).window(DAYS).reduce(max), True),
        (lambda stream: stream.print(), False),
        (lambda stream: stream.sink_to(FileSink.for_row_format("out", Encoder.simple_string_encoder()).build()), True),
    ],
)
def test_an_operator_is_known_to_keep_state_before_it_runs(write: Callable[[Any], Any], stateful: bool) -> None:
    env = environment()
    write(env.from_collection(["a"]))
    *_, last = job_graph(env).operators.values()
    assert last.stateful == stateful
