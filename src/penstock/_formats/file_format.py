"""The formats of the file source, which convert files to records.

A format is a description that is pickled with the job. Reading is a generator of blocks, each with the position after
it; a restored reader reads the part again from such a position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock._formats.charsets import canonical, lines_stand_alone, wrong_charset
from penstock._formats.lines import read_lines, read_text
from penstock._formats.parts import FilePart, cut_evenly
from penstock._formats.unpacking import is_compressed
from penstock._shelf import show
from penstock.common.typeinfo import Types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from penstock._formats.parts import InputFile
    from penstock.common.typeinfo import TypeInformation


class FileFormat(ABC):
    """Converts the bytes of a file to records; the base of stream formats and bulk formats.

    Example:
        >>> class Bytes(FileFormat):
        ...     def read(self, file, part):
        ...         with file.open() as stream:
        ...             stream.seek(part.position or part.start)
        ...             yield list(stream.read()), part.end

    Attributes:
        emits_new_records: True where each record is made anew, and neither kept nor changed afterwards; see
            ``SourceReader``.
        gives_batches: True where ``read_batches`` reads files as columns.
        leaves_out: True where the format may leave out what it cannot read, and tells that to ``counting``.
    """

    emits_new_records: ClassVar[bool] = False
    gives_batches: bool = False
    leaves_out: ClassVar[bool] = False

    def cut(self, file: InputFile, part_size: int) -> list[FilePart]:
        """Return the parts of a file that may be read independently; runs on the driver.

        Args:
            file: The file.
            part_size: How long a part should be, in bytes.

        Raises:
            SourceFileError: The file is corrupt.
        """
        del part_size
        return [FilePart(0, file.size, file.size)]

    @abstractmethod
    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read a part from its position on, in blocks of some thousand records, each with the position after it.

        Raises:
            SourceFileError: The file is missing, changed or corrupt; the error says what to do.
        """

    def read_batches(self, file: InputFile, part: FilePart) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Read a part in batches of columns, whose rows are the records of ``read``.

        Called if the format ``gives_batches`` and downstream operators take them; positions are the same.
        """
        raise NotImplementedError(f"{type(self).__name__} does not read columns")

    def counting(self, skipped: Callable[[int], object]) -> FileFormat:
        """Return the format for one reader; ours.

        Args:
            skipped: Is told the number of records that were left out, where the format ``leaves_out`` any.
        """
        del skipped
        return self

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records, None when there is none."""
        return None

    @property
    def holds_produced_type(self) -> bool:
        """Whether all records have that type already, so that none has to be converted."""
        return False


class StreamFormat(FileFormat):
    """A format that is read sequentially, such as lines of text.

    Source: ``pyflink.datastream.connectors.file_system.StreamFormat``.
    """

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        r"""Return the format whose records are lines, without their ends ``\n``, ``\r\n`` or ``\r``.

        Files that end in ``.gz``, ``.bz2``, ``.xz`` or ``.zst`` are unpacked. A byte order mark at the beginning of a
        file is no part of its first line.

        Args:
            charset_name: The charset of the files.

        Raises:
            LookupError: There is no such charset.
        """
        return _TextLineFormat(canonical(charset_name))

    @property
    def lines_are_records(self) -> bool:
        """Whether each line is a record and ends with a byte of its own, so that files can be cut at any line."""
        return False

    def cut(self, file: InputFile, part_size: int) -> list[FilePart]:
        """Return byte ranges if lines are records, else the whole file."""
        if is_compressed(file.path) or not self.lines_are_records:
            return super().cut(file, part_size)
        return cut_evenly(0, file.size, part_size)


class BulkFormat(FileFormat):
    """A format that is read in batches, such as Parquet.

    Source: ``pyflink.datastream.connectors.file_system.BulkFormat``.
    """


@dataclass(frozen=True)
class _TextLineFormat(StreamFormat):
    emits_new_records = True
    charset: str

    @property
    def lines_are_records(self) -> bool:
        return lines_stand_alone(self.charset)

    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        return self._read_lines(file, part) if self.lines_are_records else self._read_text(file, part)

    def _read_lines(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        for data, _, position in read_lines(file, part, self.charset):
            try:
                text = data.decode(self.charset)
            except UnicodeError as error:
                raise wrong_charset(file, self.charset, error, position - len(data)) from None
            if "\r" in text:
                text = text.replace("\r\n", "\n").replace("\r", "\n")
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()
            yield lines, position

    def _read_text(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read UTF-16 and the like: whole files, as a line feed is no single byte; positions count lines."""
        position = 0
        for lines in read_text(file, self.charset):
            begin = max(0, (part.position or 0) - position)
            position += len(lines)
            if begin < len(lines):
                yield lines[begin:], position

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()

    @property
    def holds_produced_type(self) -> bool:
        return True


show("penstock.datastream.connectors.file_system", BulkFormat, FileFormat, StreamFormat)
