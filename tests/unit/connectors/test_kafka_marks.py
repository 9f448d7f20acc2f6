"""What a marker of the Kafka sink's committer says of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock._connectors.kafka.blocks import KafkaBlock
from penstock._connectors.kafka.committer import KafkaCommitter, _is_done, _Publisher

MARK = 7, "blocks a and b"
BLOCK = KafkaBlock("job", "run", "sink", "token", b"digest", (("topic", "id"),), None, b"")


def test_what_is_left_of_a_committed_checkpoint_is_committed_when_the_rest_was_given_up() -> None:
    assert _is_done(MARK, 7, "block b", may_be=True)


def test_a_first_try_is_done_only_if_the_same_blocks_are_marked() -> None:
    assert _is_done(MARK, 7, "blocks a and b", may_be=False)
    assert not _is_done(MARK, 7, "block b", may_be=False)
    assert not _is_done(MARK, 6, "blocks a and b", may_be=False)


def test_a_later_try_is_done_from_its_checkpoint_on() -> None:
    assert _is_done(MARK, 6, "others", may_be=True)
    assert not _is_done(MARK, 8, "blocks a and b", may_be=True)


@dataclass
class Request:
    """A request whose answer is kept."""

    may_be_committed: bool
    checkpoint_id: int = 7
    answers: list[str] = field(default_factory=list[str])

    def get_committable(self) -> KafkaBlock:
        return BLOCK

    def signal_already_committed(self) -> None:
        self.answers.append("committed")


class Marked:
    """A publisher whose marker is there."""

    def begin(self) -> None: ...

    def marker(self, topic: str) -> tuple[int, str]:
        del topic
        return MARK


def test_a_block_that_is_to_be_published_anew_takes_no_committed_one_with_it() -> None:
    """All blocks of a checkpoint are in one transaction, so its marker is about each of them."""
    committer = KafkaCommitter(None, {"bootstrap.servers": "nowhere:1"}, "p", 1_000)  # type: ignore[arg-type]
    for anew_first in (True, False):
        requests: list[Any] = [Request(not anew_first), Request(anew_first)]
        committer._publish(Marked(), requests)  # type: ignore[arg-type]
        assert [request.answers for request in requests] == [["committed"]] * 2


class Broker:
    """The producer, its client and the consumer of the marker at once; it keeps the offsets of the transaction."""

    def __init__(self) -> None:
        self.client, self.marked = self, dict[str, tuple[int, str]]()

    def begin_transaction(self) -> None: ...

    def consumer_group_metadata(self) -> None: ...

    def commit_transaction(self, timeout_s: float) -> None: ...

    def check_delivered(self) -> None: ...

    def send_offsets_to_transaction(self, offsets: list[Any], group: None, timeout_s: float) -> None:
        del group, timeout_s
        self.marked |= {one.topic: (one.offset, one.metadata) for one in offsets}


def test_each_topic_of_a_checkpoint_has_its_marker_so_it_is_found_whichever_blocks_are_left() -> None:
    publisher, broker = _Publisher("name", {}, 1_000), Broker()
    publisher._producer = publisher._marker = broker  # type: ignore[assignment]
    publisher.publish([], ["a", "b"], *MARK)
    assert broker.marked == {"a": MARK, "b": MARK}
