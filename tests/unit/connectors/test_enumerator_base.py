from __future__ import annotations

from penstock._connectors.number_sequence import NumberSequenceEnumerator, NumberSequenceSplit, split_range
from penstock.testing.connector_contexts import TestEnumeratorContext


def ids(splits: list[NumberSequenceSplit]) -> list[str]:
    return [split.split_id() for split in splits]


def started(splits: list[NumberSequenceSplit], readers: int) -> tuple[NumberSequenceEnumerator, TestEnumeratorContext]:
    context = TestEnumeratorContext(readers)
    enumerator = NumberSequenceEnumerator(context, splits)
    enumerator.start()
    for subtask in range(readers):
        context.register(subtask)
        enumerator.add_reader(subtask)
    return enumerator, context


def test_readers_get_a_split_when_they_register_and_the_rest_on_request() -> None:
    enumerator, context = started(split_range(1, 30, 3), 2)
    assert {subtask: ids(splits) for subtask, splits in context.assigned.items()} == {0: ["1"], 1: ["2"]}
    assert context.no_more_splits == set()
    assert ids(enumerator.snapshot_state(1)) == ["3"]
    enumerator.handle_split_request(1, None)
    assert ids(context.assigned[1]) == ["2", "3"]


def test_all_readers_are_told_as_soon_as_the_last_split_is_gone() -> None:
    _, context = started(split_range(1, 30, 2), 3)
    assert context.no_more_splits == {0, 1, 2}


def test_splits_given_back_go_to_the_next_reader_that_asks_in_their_order() -> None:
    context = TestEnumeratorContext(1)
    enumerator = NumberSequenceEnumerator(context, [])
    enumerator.add_splits_back(split_range(1, 4, 2), 0)
    context.register(0)
    enumerator.add_reader(0)
    enumerator.handle_split_request(0, None)
    assert ids(context.assigned[0]) == ["1", "2"]
    assert context.no_more_splits == {0}


def test_split_range_covers_the_range_without_overlap() -> None:
    for parts in range(1, 9):
        splits = split_range(-2, 4, parts)
        assert [number for split in splits for number in range(split.next, split.end + 1)] == list(range(-2, 5))
        assert len(splits) == min(parts, 7)
