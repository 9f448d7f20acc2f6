from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from penstock._engine.protocol.key_groups import key_group
from penstock._engine.state.files.chunk_columns import Chunk, ChunkOperation
from penstock._engine.state.files.state_file import StateFileWriter, read_index, read_state_file
from penstock.errors import CorruptCheckpointError, StateClassError, UnpicklableStateError

ALL = (0, 127)


def put(keys: list[Any], values: list[Any], key_groups: tuple[int, int] = ALL) -> Chunk:
    return Chunk(ChunkOperation.PUT, "count", "value", False, (0, 10), key_groups, keys, values)


def read(data: bytes, path: str = "f") -> list[Chunk]:
    return list(read_state_file(data, path, range(128), 128))


def write(*chunks: Chunk) -> bytes:
    writer = StateFileWriter()
    for chunk in chunks:
        writer.add(chunk)
    return writer.finish()


def test_chunks_come_back_in_their_order() -> None:
    chunks = [
        Chunk(ChunkOperation.DROP, "windows", "list", True, (5, 9), ALL, []),
        Chunk(ChunkOperation.DELETE, "windows", "list", True, (5, 9), ALL, [1, "a"]),
        put([1, "b", b"t"], [None, {"x": [1]}, 2.5]),
        Chunk(ChunkOperation.PUT, "users", "value", True, (), ALL, [b"t1"], ["v"], [("a", 1)]),
        Chunk(ChunkOperation.PUT, "event", "timers", False, (), ALL, ["a", "b"], subs=[5, 6], namespaces=[(), (0, 10)]),
        Chunk(
            ChunkOperation.PUT,
            "carts",
            "map",
            True,
            (),
            ALL,
            [1, 1],
            ["v", None],
            [(None, "é"), None],
            subs=[b"n", 2**70],
        ),
        Chunk(ChunkOperation.PUT, "seen", "value", False, (), ALL, [1, 2], ["v", "w"], stamps=[None, 2**50]),
        Chunk(ChunkOperation.CLEAR, "carts", "map", True, (), ALL, [1], namespaces=[()]),
    ]
    assert read(write(*chunks)) == chunks


@pytest.mark.parametrize("key", [2**64, -(2**63) - 1, "\ud800", "", 2**63, -(2**63)], ids=repr)
def test_any_int_and_str_can_be_a_key(key: Any) -> None:
    (chunk,) = read(write(put([key, 1], ["a", "b"])))
    assert chunk.keys == [key, 1]


def test_index_tells_what_is_in_a_file_without_reading_values() -> None:
    (info,) = read_index(write(put([1, 2, 3], [1, 2, 3])), "f")
    assert (info.name, info.kind, info.namespace, info.entries, info.key_groups) == ("count", "value", (0, 10), 3, ALL)


def test_file_without_chunks_is_a_file() -> None:
    assert read(write()) == []


@pytest.mark.parametrize("mask", [0x01, 0x80])
def test_any_flipped_bit_is_found_and_names_the_file(mask: int) -> None:
    data = write(put(list(range(50)), list(range(50))), put([7], ["x"]))
    for position in range(len(data)):
        damaged = data[:position] + bytes((data[position] ^ mask,)) + data[position + 1 :]
        with pytest.raises(CorruptCheckpointError) as caught:
            read(damaged, "chk-3/sum-0")
        assert caught.value.path == "chk-3/sum-0"


def test_any_truncation_is_found() -> None:
    data = write(put(list(range(50)), list(range(50))))
    for size in range(len(data)):
        with pytest.raises(CorruptCheckpointError):
            read(data[:size])


@pytest.mark.parametrize("operation", [4, 99])
def test_operation_that_no_writer_knows_is_damage(operation: int) -> None:
    writer = StateFileWriter()
    writer.add(put([1], [1]))
    writer._index = [msgspec.structs.replace(info, op=operation) for info in writer._index]
    with pytest.raises(CorruptCheckpointError, match="impossible line"):
        read(writer.finish())


def test_reading_a_range_skips_chunks_outside_and_filters_those_across_its_border() -> None:
    keys = list(range(200))
    low = [key for key in keys if key_group(key, 128) < 64]
    high = [key for key in keys if key_group(key, 128) >= 64]
    data = write(put(low, low, (0, 63)), put(high, high, (64, 127)))
    assert [chunk.keys for chunk in read_state_file(data, "f", range(64, 128), 128)] == [high]
    wanted = range(32, 96)
    parts = list(read_state_file(data, "f", wanted, 128))
    assert sorted(key for chunk in parts for key in chunk.keys) == [k for k in keys if key_group(k, 128) in wanted]
    assert all(chunk.keys == chunk.values for chunk in parts)
    assert [chunk.key_groups for chunk in parts] == [(32, 63), (64, 95)]


def test_damage_in_a_chunk_outside_the_range_does_not_matter() -> None:
    data = write(put([1], ["low"], (0, 63)), put([2], ["high"], (64, 127)))
    first = read_index(data, "f")[0]
    damaged = bytearray(data)
    damaged[first.offset] ^= 1
    assert [chunk.values for chunk in read_state_file(bytes(damaged), "f", range(64, 128), 128)] == [["high"]]


def test_value_that_cannot_be_pickled_is_named() -> None:
    with pytest.raises(UnpicklableStateError) as caught:
        write(put([1, 2], ["fine", {"lock": threading.Lock()}]))
    error = caught.value
    assert (error.state, error.key, error.type_name) == ("count", "2", "builtins.dict")
    assert "lock" in error.reason


def test_value_that_only_cloudpickle_takes_is_stored() -> None:
    (chunk,) = read(write(put([1], [lambda x: x + 1])))
    assert chunk.values is not None
    assert chunk.values[0](1) == 2


class Refuses:
    """Pickles well and cannot come back."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return int, ("no number",)


def test_value_that_cannot_be_unpickled_names_the_state() -> None:
    with pytest.raises(StateClassError, match=r"'count' holds values that cannot be read any more: ValueError"):
        read(write(put([1], [Refuses()])))


def test_chunks_grow_and_shrink_with_the_size_of_values() -> None:
    writer = StateFileWriter()
    writer.add(put(list(range(1_000)), ["x"] * 1_000))
    assert writer.batch == 1 << 16
    writer.add(put([1], [bytes(10 << 20)]))
    assert writer.batch == 1
