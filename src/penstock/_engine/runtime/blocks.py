"""Blocks: batches as bytes, cut where they are too large for one row.

The first byte of a block names its encoding, and each encoding is one line of a table. Records of one shape whose
fields are texts, numbers, bytes and None are packed as MessagePack after their shape, so that the reader gets the same
types and knows the shape. That takes half the time of pickle, which encodes all other records. Rows with the same names
go as their values, in MessagePack or by pickle, in a quarter of the time that pickle takes for them. Columns are an
Arrow IPC stream, which is read without a copy.
"""

from __future__ import annotations

import pickle
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec

from penstock._engine.operators.batch import RowBatch
from penstock._engine.operators.columns import ColumnBatch
from penstock._engine.protocol import cloudpickled
from penstock._engine.protocol.rows import MAX_PAYLOAD_BYTES
from penstock.common.columns import RecordLayout
from penstock.common.types import Row, lists_of_rows, rows_of_lists
from penstock.errors import DamagedBlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._engine.operators.batch import Batch, Shape, Watermarks

#: The first byte of a block of each encoding.
_PICKLED: Final = b"\0"
_PACKED: Final = b"\1"
_COLUMNS: Final = b"\2"
_PACKED_ROWS: Final = b"\3"
_PICKLED_ROWS: Final = b"\4"
#: Arrow needs its data aligned; the bytes of a payload are.
_ALIGNMENT: Final = 8
#: The encoding of a shape: one letter for each type; the letters of a tuple follow `_TUPLE`.
_LETTERS: Final[dict[type[Any], str]] = {str: "s", int: "i", float: "f", bool: "b", bytes: "y", type(None): "n"}
_TYPES: Final = {letter: kind for kind, letter in _LETTERS.items()}
_TUPLE: Final = "("
#: Tells whether MessagePack keeps all of some types.
_are_plain: Final = frozenset(_LETTERS).issuperset
#: The number of cached shapes.
_SHAPES: Final = 256

_pack: Final = msgspec.msgpack.Encoder().encode
_Content: TypeAlias = "tuple[list[Any], list[int] | None, list[tuple[int, int]]]"
#: The names of rows and their values, in place of records.
_Lists: TypeAlias = "tuple[list[str] | None, list[list[Any]], list[int] | None, Watermarks]"
_lists_decoder: Final = msgspec.msgpack.Decoder(
    tuple[list[Any] | None, list[list[Any]], list[int] | None, list[tuple[int, int]]]
)


def encode_batch(batch: Batch) -> bytes:
    """Return a batch as the payload of a DATA row."""
    return _encode_columns(batch) if isinstance(batch, ColumnBatch) else _encode_rows(batch.rows())


def decode_batch(payload: bytes) -> Batch:
    """Return the batch of a payload; the payload comes from a task of the same job.

    Raises:
        DamagedBlockError: The payload is damaged.
    """
    name, decode = _DECODERS.get(payload[:1], ("of an unknown encoding", _refuse))
    try:
        return decode(payload)
    except DamagedBlockError:
        raise
    except Exception as error:
        if _is_damage(error):
            raise DamagedBlockError(len(payload), name, str(error) or type(error).__name__) from error
        raise


def _is_damage(error: Exception) -> bool:
    """Return whether an error shows a damaged block; a record's own class may raise any other error."""
    import pyarrow as pa

    kinds = (pa.ArrowException, msgspec.MsgspecError, pickle.UnpicklingError, EOFError, IndexError, UnicodeDecodeError)
    return isinstance(error, (*kinds, OSError))


def _refuse(payload: bytes) -> Batch:
    raise DamagedBlockError(len(payload), "of an unknown encoding", f"it begins with {payload[:1]!r}")


# ---------------------------------------------------------------------------------------------------------------- rows


def _encode_rows(batch: RowBatch) -> bytes:
    content = (batch.records, batch.timestamps, batch.watermarks)
    head = None if batch.shape is None else _head(batch.shape)
    if head is not None:
        try:
            return head + _pack(content)
        except (OverflowError, ValueError):  # a number beyond 64 bits, a lone surrogate
            pass
    lists = lists_of_rows(batch.records) if batch.shape is None or batch.shape is Row else None
    if lists is not None:
        names, values = lists
        return _encode_lists((names, values, batch.timestamps, batch.watermarks))
    return _PICKLED + _pickled(content)


def _encode_lists(content: _Lists) -> bytes:
    names, lists = content[:2]
    if _are_plain(map(type, chain(names or (), chain.from_iterable(lists)))):
        try:
            return _PACKED_ROWS + _pack(content)
        except (OverflowError, ValueError):  # as above
            pass
    return _PICKLED_ROWS + _pickled(content)


def _pickled(content: Any) -> bytes:
    try:
        return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        # A class that pickle cannot name, such as one made inside a function.
        return cloudpickled.dumps(content)


def _decode_packed_rows(payload: bytes) -> RowBatch:
    return _rows_of(_lists_decoder.decode(memoryview(payload)[1:]))


def _decode_pickled_rows(payload: bytes) -> RowBatch:
    return _rows_of(pickle.loads(memoryview(payload)[1:]))


def _rows_of(content: _Lists) -> RowBatch:
    names, lists, stamps, watermarks = content
    return RowBatch(rows_of_lists(names, lists), stamps, watermarks)


def _decode_pickled(payload: bytes) -> RowBatch:
    return RowBatch(*pickle.loads(memoryview(payload)[1:]))


def _decode_packed(payload: bytes) -> RowBatch:
    end = 2 + payload[1]
    shape, decoder = _decoder(payload[2:end])
    return RowBatch(*decoder.decode(memoryview(payload)[end:]), shape)


@lru_cache(_SHAPES)
def _head(shape: Shape) -> bytes | None:
    """Return the head of a packed block of a shape, None where pickle has to encode its types."""
    kinds = shape if isinstance(shape, tuple) else (shape,)
    if not _LETTERS.keys() >= set(kinds):
        return None
    letters = (_TUPLE if isinstance(shape, tuple) else "") + "".join(_LETTERS[kind] for kind in kinds)
    return _PACKED + bytes([len(letters)]) + letters.encode()


@lru_cache(_SHAPES)
def _decoder(letters: bytes) -> tuple[Shape, msgspec.msgpack.Decoder[_Content]]:
    """Return the shape that a packed block names, and the decoder of its content."""
    text = letters.decode()
    fields = tuple(_TYPES[letter] for letter in text.lstrip(_TUPLE))
    shape: Shape = fields if text.startswith(_TUPLE) else fields[0]
    record: Any = tuple[fields] if isinstance(shape, tuple) else shape
    return shape, msgspec.msgpack.Decoder(tuple[list[record], list[int] | None, list[tuple[int, int]]])


# ------------------------------------------------------------------------------------------------------------- columns


def _encode_columns(batch: ColumnBatch) -> bytes:
    import pyarrow as pa

    columns, schema, stamps = batch.columns, batch.columns.schema, batch.timestamps
    if stamps is not None:
        schema = schema.append(pa.field("", pa.int64()))
        columns = cast("Any", pa.RecordBatch).from_arrays([*columns.columns, stamps], schema=schema)
    head = _pack((batch.layout, stamps is not None, batch.watermarks))
    begin = _COLUMNS + len(head).to_bytes(4, "little") + head
    sink = pa.BufferOutputStream()
    sink.write(begin + bytes(-len(begin) % _ALIGNMENT))
    with cast("Any", pa.ipc).new_stream(sink, schema) as writer:
        writer.write_batch(columns)
    return sink.getvalue().to_pybytes()


def _decode_columns(payload: bytes) -> ColumnBatch:
    import pyarrow as pa

    end = 5 + int.from_bytes(payload[1:5], "little")
    layout, is_stamped, watermarks = _column_head.decode(payload[5:end])
    with pa.ipc.open_stream(pa.py_buffer(payload).slice(end + -end % _ALIGNMENT)) as reader:
        columns: Any = reader.read_next_batch()
    columns.validate()
    if not is_stamped:
        return ColumnBatch(columns, layout, None, watermarks)
    last = columns.num_columns - 1
    stamps = columns.column(last)
    return ColumnBatch(columns.remove_column(last), layout, stamps, watermarks)


_column_head: Final = msgspec.msgpack.Decoder(tuple[RecordLayout, bool, list[tuple[int, int]]])
#: For each encoding its name, for errors, and its decoder.
_DECODERS: Final[dict[bytes, tuple[str, Callable[[bytes], Batch]]]] = {
    _PICKLED: ("pickled rows", _decode_pickled),
    _PACKED: ("rows as MessagePack", _decode_packed),
    _COLUMNS: ("columns as Arrow IPC", _decode_columns),
    _PACKED_ROWS: ("values of rows as MessagePack", _decode_packed_rows),
    _PICKLED_ROWS: ("pickled values of rows", _decode_pickled_rows),
}


# ---------------------------------------------------------------------------------------------------------------- size


def cut(batch: Batch) -> Iterator[bytes]:
    """Yield the payloads of a batch, each within MAX_PAYLOAD_BYTES unless one record alone is larger."""
    payload = encode_batch(batch)
    count = len(batch)
    if len(payload) <= MAX_PAYLOAD_BYTES or count <= 1:
        yield payload
        return
    # A few more parts than the size needs, because records differ in size; a part that is too large is cut again.
    step = max(1, count * MAX_PAYLOAD_BYTES // (len(payload) + len(payload) // 4))
    for start in range(0, count, step):
        yield from cut(batch.slice(start, start + step))


def fragments(payload: bytes) -> list[bytes]:
    """Return a payload in parts that each fit a row."""
    if len(payload) <= MAX_PAYLOAD_BYTES:
        return [payload]
    return [payload[start : start + MAX_PAYLOAD_BYTES] for start in range(0, len(payload), MAX_PAYLOAD_BYTES)]
