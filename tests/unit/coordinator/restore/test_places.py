"""Which operators without a uid are not known to be the same, place by place."""

from __future__ import annotations

from penstock._engine.coordinator.restore.places import differences, renamed
from penstock._engine.protocol.metadata import OperatorPlace, PlaceInput


def place(kind: str, *senders: str, does: str = "something", own: bool = False, name: str = "") -> OperatorPlace:
    return OperatorPlace(kind, own, tuple(map(PlaceInput, senders)), name, does)


SOURCE = {"source": place("source", does="read", own=True)}


def moved(before: dict[str, OperatorPlace], after: dict[str, OperatorPlace]) -> set[str]:
    return set(differences(SOURCE | before, SOURCE | after))


def test_an_unchanged_program_and_one_with_changed_functions_and_names_are_the_same() -> None:
    before = {"a": place("reduce", "source", does="max"), "b": place("reduce", "a", does="sum")}
    assert moved(before, before) == set()
    assert moved(before, {**before, "a": place("reduce", "source", does="min", name="least")}) == set()


def test_an_operator_that_now_does_what_another_did_is_not_the_same_though_nothing_else_tells() -> None:
    before = {"a": place("reduce", "source", does="max"), "b": place("reduce", "a", does="sum")}
    assert moved(before, {"a": place("reduce", "source", does="sum")}) == {"a"}


def test_an_operator_whose_doing_another_has_now_is_not_the_same() -> None:
    after = {"a": place("reduce", "source", does="max"), "b": place("reduce", "a", does="sum")}
    assert moved({"a": place("reduce", "source", does="sum")}, after) == {"a"}
    own = {"a": place("reduce", "source", does="max"), "total": place("reduce", "a", does="sum", own=True)}
    assert moved({"a": place("reduce", "source", does="sum")}, own) == {"a"}


def test_names_tell_where_functions_do_not() -> None:
    before = {"a": place("map", "source", does="1", name="one"), "b": place("map", "source", does="2", name="two")}
    after = {"a": place("map", "source", does="3", name="two"), "b": place("map", "source", does="4", name="one")}
    assert moved(before, after) == {"a", "b"}


def test_who_stands_beside_an_operator_counts_whichever_side() -> None:
    one = {"a": place("reduce", "source", does="sum")}
    two = {**one, "b": place("reduce", "source", does="max")}
    assert moved(one, two) == {"a"}
    assert moved(two, one) == {"a"}
    others = {"b": place("map", "source"), "c": place("reduce", "source", own=True), "d": place("reduce", "b")}
    assert moved(one, one | others) == set()


def test_what_has_moved_before_an_operator_counts_up_to_the_next_uid() -> None:
    def program(first: str, second: str, *, own: bool) -> dict[str, OperatorPlace]:
        return {
            "m1": place("map", "source", does=first, own=own),
            "m2": place("map", "source", does=second, own=own),
            "a": place("reduce", "m1", does="sum"),
            "b": place("reduce", "m2", does="sum"),
        }

    found = differences(SOURCE | program("f", "g", own=False), SOURCE | program("g", "f", own=False))
    assert set(found) == {"m1", "m2", "a", "b"}
    assert found["a"] == "before it, operators of kind map have changed places"
    assert moved(program("f", "g", own=True), program("g", "f", own=True)) == set()


def test_the_kinds_before_an_operator_count_up_to_the_sources() -> None:
    def program(*kinds: str) -> dict[str, OperatorPlace]:
        numbers = range(len(kinds))
        way = {f"{n}": place(kinds[n], "source" if n == 0 else f"{n - 1}") for n in numbers}
        return {**way, "m": place("map", f"{len(kinds) - 1}", own=True), "a": place("reduce", "m", does="sum")}

    found = differences(SOURCE | program("map"), SOURCE | program("map", "filter"))
    assert found == {"a": "before it, there were source, map, map, and there are source, map, filter, map"}
    assert moved(program("map"), program("filter")) == {"0", "a"}


def test_an_operator_that_has_lost_its_own_uid_is_not_the_same() -> None:
    assert moved({"a": place("reduce", "source", own=True)}, {"a": place("reduce", "source")}) == {"a"}


def test_an_operator_that_got_a_uid_is_found_as_the_input_of_others() -> None:
    places = {"a": place("reduce", "source", does="max"), "b": place("reduce", "a", does="sum")}
    named = renamed(places, "a", "largest")
    assert named == {
        "largest": place("reduce", "source", does="max", own=True),
        "b": place("reduce", "largest", does="sum"),
    }
