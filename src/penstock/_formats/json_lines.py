"""Files with a JSON value in each line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from penstock._formats.charsets import canonical
from penstock._formats.file_format import StreamFormat
from penstock._formats.lines import LINE_END, read_lines
from penstock._shelf import show
from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._formats.parts import FilePart, InputFile

_JSON = msgspec.json.Decoder[Any]()
_CHARSET = canonical("UTF-8")
_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

BadLines = Literal["fail", "skip", "emit"]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no JSON, or does not fit a schema of CSV, in place of its record where the format is told so.

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


def _nowhere(lines: int) -> None:
    del lines


@dataclass(frozen=True)
class JsonLinesFormat(StreamFormat):
    """Lines of JSON in UTF-8 as dicts, lists, texts, numbers, truth values and None; ours. Empty lines are left out.

    Files that end in ``.gz``, ``.bz2``, ``.xz`` or ``.zst`` are unpacked. The others are read in parallel, in parts.

    Args:
        bad_lines: What becomes of a line that is no JSON: ``"fail"`` ends the job with the file and the byte;
            ``"skip"`` leaves it out and counts it (``skippedLines``); ``"emit"`` puts a ``BadLine`` in its place, for
            a side output.

    Raises:
        ValueError: ``bad_lines`` is something else.

    Example:
        >>> from penstock.datastream.connectors.file_system import FileSource
        >>> source = FileSource.for_record_stream_format(JsonLinesFormat("skip"), "/data/*.jsonl").build()
    """

    bad_lines: BadLines = "fail"
    #: Notes lines that were left out.
    skipped: Callable[[int], object] = _nowhere

    emits_new_records = True
    leaves_out = True

    def __post_init__(self) -> None:
        if self.bad_lines not in {"fail", "skip", "emit"}:
            msg = f'bad_lines is "fail", "skip" or "emit", not {self.bad_lines!r}.'
            raise ValueError(msg)

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
            try:
                values: list[Any] = _JSON.decode_lines(data)
            except _ERRORS:
                values = self._one_by_one(file.path, data, position - len(data))
            yield values, position

    def _one_by_one(self, path: str, data: bytes, begin: int) -> list[Any]:
        values: list[Any] = []
        skipped = 0
        for offset, line in _lines(data):
            try:
                values.append(_JSON.decode(line))
            except _ERRORS as error:
                bad = BadLine(path, begin + offset, line, str(error))
                if self.bad_lines == "fail":
                    raise _error(bad) from None
                if self.bad_lines == "emit":
                    values.append(bad)
                else:
                    skipped += 1
        if skipped:
            self.skipped(skipped)
        return values


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the lines that are not empty, each with its place."""
    start = 0
    for end, behind in [*(found.span() for found in LINE_END.finditer(data)), (len(data), len(data))]:
        line = data[start:end]
        if line.strip():
            yield start, line
        start = behind


def _error(bad: BadLine) -> SourceFileError:
    reason = (
        f"its line at byte {bad.offset} is no JSON ({bad.error}): {bad.data[:100]!r}; mend the line, or choose what "
        'becomes of such lines by JsonLinesFormat("skip") or ("emit")'
    )
    return SourceFileError(bad.path, reason)


show("penstock.datastream.formats.json", BadLine, JsonLinesFormat)
