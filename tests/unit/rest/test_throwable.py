"""The serialized Java object of a failure, read back by a reader of Java's stream format."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from penstock._engine.rest.throwable import failure_cause, serialized_throwable


class JavaReader:
    """Reads what the specification of Java's object serialization says, as far as exceptions need it."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        part, self._at = self._data[self._at : self._at + count], self._at + count
        assert len(part) == count
        return part

    def text(self, size: int) -> str:
        units = self.take(size).decode("utf-8", "surrogatepass")
        return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")

    def string(self) -> str:
        kind = self.take(1)
        assert kind in b"t|"
        (size,) = struct.unpack(">H", self.take(2)) if kind == b"t" else struct.unpack(">Q", self.take(8))
        return self.text(size)

    def short(self) -> str:
        return self.text(struct.unpack(">H", self.take(2))[0])

    def classes(self) -> list[tuple[str, int, int, list[str]]]:
        found: list[tuple[str, int, int, list[str]]] = []
        while (kind := self.take(1)) == b"r":
            name = self.short()
            version, flags, count = struct.unpack(">qBH", self.take(11))
            members: list[str] = []
            for _ in range(count):
                assert self.take(1) == b"L"
                members.append(self.short())
                assert self.string() == "Ljava/lang/String;"
            assert self.take(1) == b"x"
            found.append((name, version, flags, members))
        assert kind == b"p"
        return found

    def throwable(self) -> tuple[list[Any], dict[str, str]]:
        assert self.take(5) == b"\xac\xed\x00\x05s"
        classes = self.classes()
        values: dict[str, str] = {}
        for _, _, flags, members in reversed(classes):
            values |= {member: self.string() for member in members}
            if flags & 1:
                assert self.take(1) == b"x"
        assert self._at == len(self._data)
        return classes, values


@pytest.mark.parametrize("text", ["bad", "", "düster 😀", "x" * 70_000])
def test_the_stream_says_what_it_was_given(text: str) -> None:
    classes, values = JavaReader(serialized_throwable("ValueError", text, f"ValueError: {text}")).throwable()
    assert [(name, version) for name, version, _, _ in classes] == [
        ("org.apache.flink.util.SerializedThrowable", 7284183123441947635),
        ("java.lang.Exception", -3387516993124229948),
        ("java.lang.Throwable", -3042686055658047285),
    ]
    assert values == {
        "detailMessage": text,
        "fullStringifiedStackTrace": f"ValueError: {text}",
        "originalErrorClassName": "ValueError",
    }


def test_nul_and_characters_beyond_16_bits_are_written_as_java_does() -> None:
    data = serialized_throwable("a", "\0😀", "")
    assert b"\xc0\x80\xed\xa0\xbd\xed\xb8\x80" in data


def test_the_answer_has_the_stream_in_base64() -> None:
    cause = failure_cause("a.B", "message", "trace")
    assert base64.b64decode(cause.serialized_throwable) == serialized_throwable("a.B", "message", "trace")
