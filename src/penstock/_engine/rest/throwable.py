"""A failure in the form that Flink's Java client reads: a serialized Java object.

The client takes `org.apache.flink.util.SerializedThrowable` out of a stream of Java's object serialization and ignores
the readable members beside it. The stream is written here by hand, after the "Java Object Serialization Specification";
members that are left out are null there.
"""

from __future__ import annotations

import base64
import struct
from typing import Final

import msgspec

from penstock.common.redaction import shown_text

_MAGIC: Final = b"\xac\xed\x00\x05"
_OBJECT, _CLASS, _STRING, _LONG_STRING, _END, _NULL = b"s", b"r", b"t", b"|", b"x", b"p"
_SERIALIZABLE, _WRITES_ITSELF = 2, 1
_MAX_SHORT: Final = 0xFFFF


class FailureCause(msgspec.Struct, rename="kebab"):
    """The cause of a failure."""

    class_: str = msgspec.field(name="class")
    stack_trace: str
    #: Base64 of the serialized throwable.
    serialized_throwable: str


def failure_cause(class_name: str, message: str, trace: str) -> FailureCause:
    """Return a failure in Flink's shape.

    Args:
        class_name: The class of the exception.
        message: The message that clients show.
        trace: The text of the exception with its traceback.
    """
    message, trace = shown_text(message), shown_text(trace)
    blob = serialized_throwable(class_name, message, trace)
    return FailureCause(class_=class_name, stack_trace=trace, serialized_throwable=base64.b64encode(blob).decode())


def serialized_throwable(class_name: str, message: str, trace: str) -> bytes:
    """Return the stream of an `org.apache.flink.util.SerializedThrowable`.

    Example:
        >>> serialized_throwable("ValueError", "bad", "ValueError: bad")[:4].hex()
        'aced0005'
    """
    throwable = _class("java.lang.Throwable", -3042686055658047285, _SERIALIZABLE | _WRITES_ITSELF, ("detailMessage",))
    exception = _class("java.lang.Exception", -3387516993124229948, _SERIALIZABLE, ())
    fields = ("fullStringifiedStackTrace", "originalErrorClassName")
    own = _class("org.apache.flink.util.SerializedThrowable", 7284183123441947635, _SERIALIZABLE, fields)
    # Each class is followed by its parent; the values of the members follow from the topmost class down.
    classes = own + exception + throwable + _NULL
    return _MAGIC + _OBJECT + classes + _string(message) + _END + _string(trace) + _string(class_name)


def _class(name: str, version: int, flags: int, members: tuple[str, ...]) -> bytes:
    """Return the description of a class whose members are all strings; its parent's description follows."""
    head = _CLASS + _short(name) + struct.pack(">qBH", version, flags, len(members))
    return head + b"".join(b"L" + _short(member) + _string("Ljava/lang/String;") for member in members) + _END


def _string(text: str) -> bytes:
    data = _modified_utf8(text)
    if len(data) <= _MAX_SHORT:
        return _STRING + struct.pack(">H", len(data)) + data
    return _LONG_STRING + struct.pack(">Q", len(data)) + data


def _short(text: str) -> bytes:
    data = _modified_utf8(text)
    return struct.pack(">H", len(data)) + data


def _modified_utf8(text: str) -> bytes:
    """Encode as Java does: each UTF-16 unit by itself, and NUL in two bytes."""
    data = bytearray()
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        if 0 < unit < 0x80:
            data.append(unit)
        elif unit < 0x800:
            data += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            data += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(data)
