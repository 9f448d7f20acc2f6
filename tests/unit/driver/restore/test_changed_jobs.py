"""Jobs that start from a savepoint with other sizes, functions and classes than they had."""

from __future__ import annotations

import re
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.stories import Sheet, Story
from tests.unit.driver.restore.test_finished_operators import Counts

from penstock._engine.coordinator import instructions as do
from penstock._engine.protocol.control import StopMode
from penstock.common import Types
from penstock.common.job_status import JobStatus
from penstock.datastream import CheckpointedFunction, KeyedProcessFunction, MapFunction
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.errors import MaxParallelismError, ParallelismLimitError, StateDescriptorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from penstock.common import TypeInformation

NUMBERS = [number % 7 for number in range(30)]


def counting(parallelism: int, max_parallelism: int | None = None) -> Callable[[Sheet], None]:
    def write(sheet: Sheet) -> None:
        counts = sheet.source("numbers", NUMBERS).key_by(lambda n: n).process(Counts()).uid("counts")
        counts.set_parallelism(parallelism)
        if max_parallelism is not None:
            counts.set_max_parallelism(max_parallelism)
        sheet.collect(counts)

    return write


EXPECTED = sorted((number, times + 1) for number in range(7) for times in range(NUMBERS.count(number)))


# ----------------------------------------------------------------------------------------------------- max parallelism


@pytest.mark.parametrize(("before", "after"), [(1, 90), (90, 1)])
def test_max_parallelism_is_taken_over_from_the_state_where_it_was_not_set(
    tmp_path: Path, before: int, after: int
) -> None:
    story = Story(tmp_path)
    stopped = story.run(counting(before), asks={4: StopMode.SUSPEND})
    again = story.run(counting(after), recover=stopped.savepoint)
    assert sorted(story.output()) == EXPECTED
    [adopted] = [step.graph for step in again.steps if isinstance(step, do.AdoptGraph)]
    assert adopted.vertices[1].max_parallelism == (128 if before == 1 else 256)


def test_max_parallelism_that_was_set_stays_where_it_is_not_set_any_more(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(counting(2, 10), asks={4: StopMode.SUSPEND})
    middle = story.run(counting(10), asks={4: StopMode.SUSPEND}, recover=stopped.savepoint)
    refused = story.run(counting(11), recover=middle.savepoint)
    assert isinstance(refused.error, ParallelismLimitError)
    assert re.search(r"has parallelism 11\b.* max parallelism 10\b", str(refused.error)), str(refused.error)
    story.run(counting(3), recover=middle.savepoint)
    assert sorted(story.output()) == EXPECTED


def test_other_max_parallelism_is_refused_before_anything_runs(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(counting(2, 64), asks={4: StopMode.SUSPEND})
    refused = story.run(counting(2, 32), recover=stopped.savepoint, restart="exponential-delay")
    assert refused.status is JobStatus.FAILED
    assert isinstance(refused.error, MaxParallelismError)
    assert re.search(r"'counts'.* has max parallelism 32\b.* 64\b", str(refused.error)), str(refused.error)
    assert not refused.runner.plans
    assert not [step for step in refused.steps if isinstance(step, do.PutChainEntry)], "the chain is as it was"


# --------------------------------------------------------------------------------------------------- what is in state


class Moved(KeyedProcessFunction):
    """Keeps an object of a class that the test changes."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("place"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        import users_module

        place = self.state.value()
        if place is None:
            place = users_module.Place(value)
        yield value, place.name, getattr(place, "country", "no such field")
        self.state.update(place)


def moving(sheet: Sheet) -> None:
    sheet.collect(sheet.source("numbers", [1] * 12).key_by(lambda n: n).process(Moved()).uid("moved"))


PLAIN = "class Place:\n    def __init__(self, name): self.name = name\n"
DEFAULTED = "class Place:\n    country = 'none yet'\n    def __init__(self, name): self.name = name\n"
DATACLASS = "from dataclasses import dataclass\n@dataclass\nclass Place:\n    name: int\n"


@pytest.fixture
def module() -> Iterator[Callable[[str], None]]:
    """Give a user's module a new text, as a deployment does."""
    name = "users_module"

    def become(text: str) -> None:
        sys.modules[name] = fresh = types.ModuleType(name)
        exec(text, fresh.__dict__)

    yield become
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [(PLAIN, DEFAULTED), (DATACLASS, DATACLASS + "    country: str = 'none yet'\n")],
    ids=["class", "dataclass"],
)
def test_class_that_gained_a_field_with_a_default_is_restored(
    tmp_path: Path, module: Callable[[str], None], before: str, after: str
) -> None:
    story = Story(tmp_path)
    module(before)
    stopped = story.run(moving, asks={2: StopMode.SUSPEND})
    module(after)
    again = story.run(moving, recover=stopped.savepoint)
    assert again.status is JobStatus.FINISHED
    assert {country for _, _, country in stopped.outputs["out"]} == {"no such field"}
    assert {(name, country) for _, name, country in again.outputs["out"]} == {(1, "none yet")}


def test_class_that_is_gone_fails_with_the_operator_and_the_class(
    tmp_path: Path, module: Callable[[str], None]
) -> None:
    story = Story(tmp_path)
    module(PLAIN)
    stopped = story.run(moving, asks={2: StopMode.SUSPEND})
    module("class Other:\n    pass\n")
    refused = story.run(moving, recover=stopped.savepoint, restart="exponential-delay")
    assert refused.driver.progress.restarts == 0, "a restart would change nothing"
    assert refused.status is JobStatus.FAILED
    assert "Place" in str(refused.error)
    assert "users_module" in str(refused.error)
    assert "'moved'" in str(refused.error)


class Typed(KeyedProcessFunction):
    def __init__(self, type_info: TypeInformation | None) -> None:
        self.type_info = type_info

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("count", self.type_info))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.state.value() or 0) + 1
        self.state.update(count)
        yield value, count


def typed(type_info: TypeInformation | None) -> Callable[[Sheet], None]:
    def write(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", NUMBERS).key_by(lambda n: n).process(Typed(type_info)).uid("typed"))

    return write


@pytest.mark.parametrize(("before", "after"), [(Types.INT(), Types.LONG()), (Types.INT(), None), (None, Types.LONG())])
def test_state_with_a_type_that_says_the_same_or_nothing_is_restored(
    tmp_path: Path, before: TypeInformation | None, after: TypeInformation | None
) -> None:
    story = Story(tmp_path)
    stopped = story.run(typed(before), asks={4: StopMode.SUSPEND})
    story.run(typed(after), recover=stopped.savepoint)
    assert sorted(story.output()) == EXPECTED


def test_state_with_another_type_is_refused_with_the_state_both_types_and_the_operator(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(typed(Types.INT()), asks={2: StopMode.SUSPEND})
    refused = story.run(typed(Types.STRING()), recover=stopped.savepoint, restart="exponential-delay")
    assert refused.driver.progress.restarts == 0, "a restart would change nothing"
    assert isinstance(refused.error.__cause__, StateDescriptorError)
    for word in ("'count'", "as value[str] state", "as value[int] state", "'typed'", "SavepointWriter"):
        assert word in str(refused.error), str(refused.error)


class Lists(MapFunction, CheckpointedFunction):
    def __init__(self, union: bool) -> None:
        self.union = union

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        get = store.get_union_list_state if self.union else store.get_list_state
        self.state = get(ListStateDescriptor("items"))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: Any) -> Any:
        self.state.add(value)
        return value


def listing(*, union: bool) -> Callable[[Sheet], None]:
    def write(sheet: Sheet) -> None:
        sheet.collect(sheet.source("numbers", NUMBERS).map(Lists(union)).uid("lists"))

    return write


def test_state_of_another_kind_is_refused_with_the_state_both_kinds_and_the_operator(tmp_path: Path) -> None:
    story = Story(tmp_path)
    stopped = story.run(listing(union=False), asks={2: StopMode.SUSPEND})
    refused = story.run(listing(union=True), recover=stopped.savepoint, restart="exponential-delay")
    assert refused.error is not None
    assert isinstance(refused.error.__cause__, StateDescriptorError)
    for word in ("'items'", "as union list state", "as list state", "'lists'"):
        assert word in str(refused.error), str(refused.error)
