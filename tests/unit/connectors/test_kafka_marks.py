"""What a marker of the Kafka sink's committer says of a checkpoint."""

from __future__ import annotations

from penstock._connectors.kafka.committer import _is_done

MARK = 7, "blocks a and b"


def test_what_is_left_of_a_committed_checkpoint_is_committed_when_the_rest_was_given_up() -> None:
    assert _is_done(MARK, 7, "block b", may_be=True)


def test_a_first_try_is_done_only_if_the_same_blocks_are_marked() -> None:
    assert _is_done(MARK, 7, "blocks a and b", may_be=False)
    assert not _is_done(MARK, 7, "block b", may_be=False)
    assert not _is_done(MARK, 6, "blocks a and b", may_be=False)


def test_a_later_try_is_done_from_its_checkpoint_on() -> None:
    assert _is_done(MARK, 6, "others", may_be=True)
    assert not _is_done(MARK, 8, "blocks a and b", may_be=True)
