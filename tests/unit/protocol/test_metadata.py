from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._engine.protocol.control import ChannelStatus
from penstock._engine.protocol.metadata import (
    ChainEntry,
    ChainEntryKind,
    Committable,
    JobSnapshot,
    OperatorMetadata,
    OperatorSubtaskState,
    OutstandingCommit,
    ParentCheckpoint,
    ReaderMessages,
    SourceCoordinatorState,
    VertexMetadata,
    VertexSubtaskState,
)
from penstock._engine.protocol.metadata_document import decode_chain_entry, encode_chain_entry
from penstock._engine.protocol.state_handle import StateHandle, StateMode, StatePart
from penstock.errors import CorruptCheckpointError

PATH = "/checkpoints/job/chk-7/_metadata"


def handle(*, inline: bytes | None = None, path: str | None = None) -> StateHandle:
    return StateHandle(7, (1 << 63) - 1, "delta", path, inline, 3, 1, 0xFFFFFFFF, (0, 63))


def lists() -> StateHandle:
    parts = (StatePart("waiting", StateMode.LIST, 1, 9, 2), StatePart("all", StateMode.UNION, 0, 3))
    return StateHandle(6, 5, "operator", "a/shared/c.operator", None, 3, 4, 0, (0, -1), parts)


def record() -> ChainEntry:
    source = OperatorMetadata(
        "Source: orders",
        0,
        1,
        128,
        (OperatorSubtaskState(state=b"\x00splits\xff", operator_state=(lists(),)),),
        SourceCoordinatorState(b"enumerator", 2, {0: (b"event",)}, (ReaderMessages(0, (b"hello",), 2),)),
    )
    window = OperatorMetadata(
        "Window",
        1,
        1,
        128,
        (OperatorSubtaskState((handle(inline=b"\x01\x02"), handle(path="a/shared/b")), None, True),),
    )
    vertices = (
        VertexMetadata("Source: orders", ("orders",), (VertexSubtaskState(watermark=-(1 << 63)),)),
        VertexMetadata(
            "Window",
            ("window",),
            (VertexSubtaskState((1 << 63) - 1, True, 1_000, outputs={5: ChannelStatus(9, True, True)}),),
        ),
    )
    commits = (OutstandingCommit("sink", 6, (Committable(1, b"\x80pickle", 3),)),)
    snapshot = JobSnapshot(vertices, {"orders": source, "window": window}, commits)
    return ChainEntry(
        ChainEntryKind.CHECKPOINT,
        "0" * 32,
        "orders",
        7,
        "run",
        "run-3",
        1_700_000_000_000,
        "0.1.0",
        ParentCheckpoint(6, "job/chk-6"),
        snapshot,
    )


def test_record_is_read_back_as_it_was() -> None:
    assert decode_chain_entry(encode_chain_entry(record()), PATH) == record()


def test_document_is_json_that_names_its_format_first() -> None:
    text = encode_chain_entry(record()).decode()
    document = json.loads(text)
    assert list(document) == ["format", "sha256", "record"]
    assert document["record"]["job_name"] == "orders"
    assert document["record"]["snapshot"]["operators"]["window"]["subtasks"][0]["finished"] is True
    assert len(text.splitlines()) > 20


@given(st.integers(0, len(encode_chain_entry(record())) - 1))
def test_document_cut_short_is_refused_by_name(length: int) -> None:
    data = encode_chain_entry(record())[:length]
    if data.rstrip().endswith(b"}\n}"):  # only white space is missing
        return
    with pytest.raises(CorruptCheckpointError, match="chk-7/_metadata"):
        decode_chain_entry(data, PATH)


@given(st.integers(0, len(encode_chain_entry(record())) - 1), st.integers(1, 255))
def test_altered_byte_is_noticed_or_changes_nothing(position: int, change: int) -> None:
    data = bytearray(encode_chain_entry(record()))
    data[position] ^= change
    try:
        read = decode_chain_entry(bytes(data), PATH)
    except CorruptCheckpointError as error:
        read, text = record(), str(error)
        assert PATH in text
    assert read == record()
