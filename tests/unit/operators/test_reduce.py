"""The rolling reduce: a result behind each record, apart from what the function folds into."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.common.types import Row
from penstock.datastream.functions import ReduceFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import UnsupportedOperationError
from penstock.testing.harness import OperatorHarness, StreamRecord


def reducing(function: Any) -> OperatorHarness:
    return OperatorHarness.for_reduce(function, lambda record: record[0])


def fold_in_place(a: Any, b: Any) -> Any:
    a[1].extend(b[1])
    return a


def test_each_record_gives_the_result_so_far_with_its_own_timestamp() -> None:
    harness = reducing(lambda a, b: (a[0], a[1] + b[1]))
    for place, record in enumerate([("a", 1), ("b", 10), ("a", 2)]):
        harness.process_element(record, place)
    assert harness.output() == [StreamRecord(("a", 1), 0), StreamRecord(("b", 10), 1), StreamRecord(("a", 3), 2)]


@pytest.mark.parametrize("as_record", [list, tuple, lambda pair: Row(*pair)])
def test_results_do_not_change_when_the_function_folds_in_place(as_record: Any) -> None:
    harness = reducing(fold_in_place)
    harness.process_elements([as_record(("a", [1])), as_record(("a", [2])), as_record(("a", [3]))])
    assert [list(value)[1] for value in harness.values()] == [[1], [1, 2], [1, 2, 3]]


def test_one_mutable_record_among_plain_ones_is_enough() -> None:
    def fold(a: Any, b: Any) -> Any:
        if a[1] is None or b[1] is None:
            return b if a[1] is None else a
        return fold_in_place(a, b)

    harness = reducing(fold)
    harness.process_elements([("a", None), ("a", [1]), ("a", [2]), ("a", None)])
    assert harness.values() == [("a", None), ("a", [1]), ("a", [1, 2]), ("a", [1, 2])]


def test_what_happens_to_a_result_downstream_does_not_reach_the_state() -> None:
    harness = reducing(fold_in_place)
    harness.process_element(("a", [1]))
    harness.values()[0][1].append("spoiled")
    harness.process_element(("a", [2]))
    assert harness.values()[1] == ("a", [1, 2])


def test_equal_keys_of_different_types_are_one_key() -> None:
    harness = OperatorHarness.for_reduce(lambda a, b: (b[0], a[1] + b[1]), lambda record: record[0])
    harness.process_elements([(1, 1), (True, 1), (1.0, 1)])
    assert [total for _, total in harness.values()] == [1, 2, 3]


def test_the_result_survives_a_restore() -> None:
    before = reducing(fold_in_place)
    before.process_elements([("a", [1]), ("b", [5])])
    after = reducing(fold_in_place)
    after.restore(before.snapshot())
    after.process_elements([("a", [2]), ("b", [6])])
    assert after.values() == [("a", [1, 2]), ("b", [5, 6])]


class Numbered(ReduceFunction[Any]):
    """Puts beside the total how many times the function was called for the key, which is a state of its own."""

    name = "calls"

    def open(self, runtime_context: Any) -> None:
        self.calls = runtime_context.get_state(ValueStateDescriptor(self.name))

    def reduce(self, value1: Any, value2: Any) -> Any:
        self.calls.update((self.calls.value() or 0) + 1)
        return value1[0], value1[1] + value2[1], self.calls.value()


class Clashing(Numbered):
    name = "reduce"


@pytest.mark.parametrize("batch_mode", [False, True])
def test_the_function_may_have_state_of_the_key_whose_records_it_reduces(batch_mode: bool) -> None:
    records = [("a", 1), ("b", 10), ("a", 2), ("b", 20), ("a", 3)]
    piece = lambda stream: stream.key_by(lambda record: record[0]).reduce(Numbered())  # noqa: E731
    with OperatorHarness.for_stream(piece, batch_mode=batch_mode) as harness:
        harness.process_elements(records)
        harness.end_input()
        last = {("a", 6, 2), ("b", 30, 1)}
        assert set(harness.values()) == last | (set() if batch_mode else {("a", 1), ("b", 10), ("a", 3, 1)})


def test_state_of_the_function_survives_a_restore_and_may_not_have_the_name_of_the_results() -> None:
    before = reducing(Numbered())
    before.process_elements([("a", 1), ("a", 2)])
    after = reducing(Numbered())
    after.restore(before.snapshot())
    after.process_elements([("a", 3)])
    assert after.values() == [("a", 6, 2)]
    with pytest.raises(UnsupportedOperationError, match="state named 'reduce'"):
        reducing(Clashing()).process_element(("a", 1))


def test_a_snapshot_in_between_changes_nothing() -> None:
    harness = reducing(fold_in_place)
    for number in range(4):
        harness.process_element(("a", [number]))
        harness.snapshot()
    assert harness.values()[-1] == ("a", [0, 1, 2, 3])
