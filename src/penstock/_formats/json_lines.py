"""Files with a JSON value in each line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from penstock._formats.charsets import canonical
from penstock._formats.file_format import StreamFormat
from penstock._formats.lines import LINE_END, read_lines
from penstock._shelf import show
from penstock.common._codecs.json_codec import JsonCodec
from penstock.errors import MessageFormatError, SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._formats.parts import FilePart, InputFile
    from penstock.common.typeinfo import TypeInformation

_CHARSET = canonical("UTF-8")

BadLines = Literal["fail", "skip", "emit"]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no JSON, or does not fit its type, in place of its record where the format is told so.

    Args:
        path: The file.
        offset: The byte at which the line begins, counted after unpacking.
        data: The line, without its end.
        error: What is wrong with it.
    """

    path: str
    offset: int
    data: bytes
    error: str


def _ignore_lines(lines: int) -> None:
    del lines


@dataclass(frozen=True)
class JsonLinesFormat(StreamFormat):
    """Lines of JSON in UTF-8; ours. Each is one value: of a type, or a dict, list, text, number, truth value or None.

    Empty lines are left out. Files that end in ``.gz``, ``.bz2``, ``.xz`` or ``.zst`` are unpacked. The others are read
    in parallel, in parts.

    Args:
        bad_lines: What becomes of a line that is no JSON: ``"fail"`` ends the job with the file and the byte;
            ``"skip"`` leaves it out and counts it (``skippedLines``); ``"emit"`` puts a ``BadLine`` in its place, for
            a side output.
        type_info: The type of the values, which are read as `JsonRowDeserializationSchema` reads them; a line that
            does not fit it is a bad one. A row is read several times as fast as a dict.

    Raises:
        ValueError: ``bad_lines`` is something else, or the type has no JSON.

    Example:
        >>> from penstock.datastream.connectors.file_system import FileSource
        >>> source = FileSource.for_record_stream_format(JsonLinesFormat("skip"), "/data/*.jsonl").build()
    """

    bad_lines: BadLines = "fail"
    type_info: TypeInformation | None = None
    #: Notes lines that were left out.
    skipped: Callable[[int], object] = _ignore_lines

    emits_new_records = True
    leaves_out = True

    def __post_init__(self) -> None:
        if self.bad_lines not in {"fail", "skip", "emit"}:
            msg = f'bad_lines is "fail", "skip" or "emit", not {self.bad_lines!r}.'
            raise ValueError(msg)
        assert self._codec  # or its error

    @cached_property
    def _codec(self) -> JsonCodec:
        return JsonCodec(self.type_info)

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the values; None where bad lines are among them."""
        return None if self.bad_lines == "emit" else self.type_info

    @property
    def holds_produced_type(self) -> bool:
        """True: the lines are read by that type."""
        return True

    @property
    def lines_are_records(self) -> bool:
        """True: each line stands alone."""
        return True

    def counting(self, skipped: Callable[[int], object]) -> JsonLinesFormat:
        """Return the format for a reader that counts lines that are left out."""
        return replace(self, skipped=skipped)

    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read the values of the lines that begin in a part.

        Raises:
            SourceFileError: A line is no JSON, and the job is to fail.
        """
        for data, _, position in read_lines(file, part, _CHARSET):
            ends = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data
            try:
                values = self._codec.decode_block(filter(None, ends.split(b"\n")))
            except MessageFormatError:
                values = self._one_by_one(file.path, data, position - len(data))
            yield values, position

    def _one_by_one(self, path: str, data: bytes, begin: int) -> list[Any]:
        values: list[Any] = []
        skipped = 0
        for offset, line in _lines(data):
            try:
                values.append(self._codec.decode(line))
            except MessageFormatError as error:
                bad = BadLine(path, begin + offset, line, error.reason)
                if self.bad_lines == "fail":
                    raise self._error(bad) from None
                if self.bad_lines == "emit":
                    values.append(bad)
                else:
                    skipped += 1
        if skipped:
            self.skipped(skipped)
        return values

    def _error(self, bad: BadLine) -> SourceFileError:
        is_not = "is no JSON" if self.type_info is None else f"does not fit {self.type_info}"
        reason = (
            f"its line at byte {bad.offset} {is_not} ({bad.error}): {bad.data[:100]!r}; mend the line, or choose what "
            'becomes of such lines by JsonLinesFormat("skip") or ("emit")'
        )
        return SourceFileError(bad.path, reason)


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the lines that are not empty, each with its place."""
    start = 0
    for end, behind in [*(found.span() for found in LINE_END.finditer(data)), (len(data), len(data))]:
        line = data[start:end]
        if line.strip():
            yield start, line
        start = behind


show("penstock.datastream.formats.json", BadLine, JsonLinesFormat)
