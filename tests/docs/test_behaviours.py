"""Every behaviour of the list has a test or waits for something that is named, and the document says so."""

from __future__ import annotations

from tests.docs.behaviours import COMMAND, DOCUMENT, behaviours, document, marked_tests


def test_each_behaviour_has_a_test_or_a_named_wait() -> None:
    listed = behaviours()
    assert listed.numbers - set(marked_tests()) - set(listed.waits_for) == set()


def test_marks_and_waits_name_behaviours_of_the_list() -> None:
    listed = behaviours()
    assert (set(marked_tests()) | set(listed.waits_for)) - listed.numbers == set()


def test_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), f"run {COMMAND}"
