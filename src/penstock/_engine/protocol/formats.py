"""The formats of files that outlive their writers, and how a later version reads the files of an earlier one.

Each kind of file has a number of its own, which stands before everything else in the file. It rises when an older
Penstock could misread a newer file. With it comes one step: a function that turns the content of a file of the format
before into the content of the new one. Steps run where a file is loaded: nothing behind that knows of another format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.errors import CorruptCheckpointError, UnsupportedFormatError

#: Turns the content of a file, which is what stands behind the number, into that of the next format.
Step: TypeAlias = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """The format of one kind of file.

    Example:
        >>> letters = StoredFormat("letter", 2, steps={1: bytes.upper})
        >>> letters.content(2, b"Dear", "a/letter"), letters.content(1, b"Dear", "a/letter")
        (b'Dear', b'DEAR')
        >>> letters.content(3, b"Dear", "a/letter")
        Traceback (most recent call last):
        penstock.errors.UnsupportedFormatError: a/letter cannot be read by this ...: it is a letter of format 3, ...
    """

    #: What such a file is, for messages.
    kind: str
    #: What is written.
    number: int = 1
    #: The bytes with which a binary file begins, before one byte with the number.
    mark: bytes = b""
    #: By number: the step to the format behind it.
    steps: Mapping[int, Step] = field(default_factory=dict[int, Step])

    @property
    def head(self) -> bytes:
        """The first bytes of a binary file that is written now."""
        return self.mark + bytes((self.number,))

    def way(self, found: int, path: str) -> list[Step]:
        """Return the steps from a format to the one that is written now.

        Args:
            found: The number in the file.
            path: The file, for messages.

        Raises:
            UnsupportedFormatError: There are none.
        """
        if found == self.number:
            return []
        if found > self.number or not self.steps.keys() >= {*range(found, self.number)}:
            reason = f"it is a {self.kind} of format {found}, and this version knows format {self.number}"
            raise UnsupportedFormatError(path, reason)
        return [self.steps[number] for number in range(found, self.number)]

    def content(self, found: int, data: bytes, path: str) -> bytes:
        """Return the content of a file of a format as it is written now; see `way`."""
        for step in self.way(found, path):
            data = step(data)
        return data

    def current(self, data: bytes, path: str) -> bytes:
        """Return a whole binary file as it is written now.

        Args:
            data: The file.
            path: Its name, for messages.

        Raises:
            CorruptCheckpointError: It is no such file, or was cut off.
            UnsupportedFormatError: No steps lead from its format to the one that is written now.
        """
        start = len(self.mark)
        if data.startswith(self.head):
            return data
        if not data.startswith(self.mark) or len(data) == start:
            raise CorruptCheckpointError(path, f"it is no {self.kind} or was cut off")
        return self.head + self.content(data[start], data[start + 1 :], path)
