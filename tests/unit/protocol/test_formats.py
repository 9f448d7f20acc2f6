"""One format of each file on disk: another one is refused by name, and a later one brings a step with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.kit.cells import cells

from penstock._engine.protocol import job_events
from penstock._engine.protocol import metadata_document as metadata
from penstock._engine.protocol.job_events import LogBaseEvent, SegmentHeader
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind
from penstock._engine.protocol.signing import SigningKeys
from penstock._engine.protocol.state_handle import StateMode, StatePart
from penstock._engine.state import operator_state
from penstock._engine.state.files import state_file
from penstock._engine.state.files.chunk_columns import Chunk, ChunkOperation
from penstock._engine.state.files.state_file import StateFileWriter
from penstock._engine.state.operator_state import OperatorStateBackend, describe
from penstock.errors import SignatureError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = "/checkpoints/job/chk-7/a-file"


class Kind(NamedTuple):
    """One kind of file."""

    module: Any
    name: str
    #: A file of it that is written now, and what is read from one.
    write: Callable[[], bytes]
    read: Callable[[bytes], object]
    #: Puts another number into a file.
    numbered: Callable[[bytes, int], bytes]


def binary(data: bytes, number: int) -> bytes:
    return data[:7] + bytes((number,)) + data[8:]


def document(data: bytes, number: int) -> bytes:
    return data.replace(b'"format": 1', b'"format": %d' % number, 1)


def entry() -> bytes:
    written = ChainEntry(ChainEntryKind.TAKEOVER, "job", "orders", 7, "run", "run-1", 10**12, "0.1.0")
    return metadata.encode_chain_entry(written)


def keyed_state() -> bytes:
    writer = StateFileWriter()
    writer.add(Chunk(ChunkOperation.PUT, "count", "value", False, (), (0, 127), ["a"], [1]))
    return writer.finish()


def rows(data: bytes) -> list[tuple[list[Any], list[Any] | None]]:
    return [(chunk.keys, chunk.values) for chunk in state_file.read_state_file(data, PATH, range(128), 128)]


def lists() -> bytes:
    state, files = OperatorStateBackend(), list[bytes]()
    state.list_state("waiting", StateMode.LIST).add_all([1, 2])

    def write(data: bytes, parts: Any) -> Any:
        files.append(data)
        return describe(data, parts, 7, 1, PATH)

    state.save(write)
    return files[0]


def items(data: bytes) -> list[Any]:
    state = OperatorStateBackend()
    parts = (StatePart("waiting", StateMode.LIST, 0, 2),)
    state.restore((describe(data, parts, 7, 1, PATH),), lambda _: data)
    return state.list_state("waiting", StateMode.LIST).get()


def segment() -> bytes:
    return job_events.encode_segment(SegmentHeader("run", 1), [job_events.encode_event(LogBaseEvent("a test"))])


KINDS = {
    "metadata": Kind(metadata, "DOCUMENT", entry, lambda data: metadata.decode_chain_entry(data, PATH), document),
    "keyed state": Kind(state_file, "KEYED_STATE", keyed_state, rows, binary),
    "operator state": Kind(operator_state, "OPERATOR_STATE", lists, items, binary),
    "events": Kind(job_events, "JOB_EVENTS", segment, lambda data: job_events.decode_segment(data, PATH), binary),
}


@cells("kind", KINDS)
def test_what_is_written_is_format_1_and_any_other_is_refused_with_file_and_both_numbers(kind: Kind) -> None:
    module, name, write, read, numbered = kind
    assert getattr(module, name).number == 1
    assert not getattr(module, name).steps
    assert read(numbered(write(), 1))
    for number in (0, 2, 99):
        with pytest.raises(UnsupportedFormatError, match=rf"a-file.*of format {number}.*knows format 1.*a newer one"):
            read(numbered(write(), number))


@cells("kind", KINDS)
def test_a_later_format_reads_the_one_before_by_its_step(kind: Kind) -> None:
    module, name, write, read, numbered = kind
    written, expected, steps = write(), read(write()), list[int]()

    def from_0(content: bytes) -> bytes:
        steps.append(0)
        return content.removesuffix(b"0")

    def from_1(content: bytes) -> bytes:
        steps.append(1)
        return content.removesuffix(b"1")

    with pytest.MonkeyPatch.context() as patch:
        later = replace(getattr(module, name), number=2, steps={0: from_0, 1: from_1})
        patch.setattr(module, name, later)
        assert read(write()) == expected
        assert steps == []
        if name != "DOCUMENT":  # its content has a digest, which stands before it
            assert read(numbered(written, 0) + b"10") == expected
            assert steps == [0, 1]
        steps.clear()
        assert read(numbered(written, 1)) == expected
        assert set(steps) == {1}
        with pytest.raises(UnsupportedFormatError, match=r"of format 3.*knows format 2"):
            read(numbered(written, 3))


def test_a_signature_covers_the_format_so_that_nothing_is_read_as_another_one() -> None:
    keys = SigningKeys((b"a key of the user",))
    written = metadata.encode_chain_entry(metadata.decode_chain_entry(entry(), PATH), keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "DOCUMENT", replace(metadata.DOCUMENT, number=2, steps={0: bytes, 1: bytes}))
        assert metadata.decode_chain_entry(written, PATH, keys)
        with pytest.raises(SignatureError, match="another key has signed it, or it was altered"):
            metadata.decode_chain_entry(document(written, 0), PATH, keys)
