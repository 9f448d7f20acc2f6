"""Reads files of CSV: cuts them into blocks of whole records, which the codec decodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock._formats.csv.schema import CsvSchema, as_csv_schema
from penstock._formats.file_format import StreamFormat
from penstock._formats.json_lines import BadLine
from penstock._formats.lines import LINE_END, read_lines
from penstock._formats.parts import FilePart
from penstock._shelf import show
from penstock.common._codecs.csv_decoding import CsvDecoder
from penstock.errors import SourceFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._formats.json_lines import BadLines
    from penstock._formats.parts import InputFile
    from penstock.common.typeinfo import RowTypeInfo

_CHARSET = "utf-8"


class _Beginning(NamedTuple):
    """What stands before the records of a file."""

    #: The names in the header; None if there is none.
    names: list[str] | None
    #: Where the records begin, in bytes.
    end: int


def _ignore_lines(lines: int) -> None:
    del lines


class CsvReaderFormat(StreamFormat):
    """Lines of CSV as Row, with the names and types of a schema.

    A file is read in parts only where no quoted value can hold a line feed; see
    ``CsvSchemaBuilder.set_multiline_values`` and ``disable_quote_char``.

    Source: ``pyflink.datastream.formats.csv.CsvReaderFormat``.
    """

    emits_new_records = True
    leaves_out = True

    def __init__(self, schema: CsvSchema, bad_lines: BadLines = "fail") -> None:
        self._schema = schema
        self._bad_lines: BadLines = bad_lines
        self._dialect = schema.dialect
        self._skipped: Callable[[int], object] = _ignore_lines
        if bad_lines not in {"fail", "skip", "emit"}:
            msg = f'bad_lines is "fail", "skip" or "emit", not {bad_lines!r}.'
            raise ValueError(msg)
        if bad_lines != "fail" and not self.lines_are_records:
            msg = (
                f"bad_lines={bad_lines!r} needs to know where a record ends: set_multiline_values(False) says that no "
                "value has the end of a line in it, and disable_quote_char() that none is quoted."
            )
            raise ValueError(msg)
        CsvDecoder(schema.columns, schema.dialect)

    @staticmethod
    def for_schema(schema: CsvSchema | RowTypeInfo, bad_lines: BadLines = "fail") -> CsvReaderFormat:
        """Return the format of a schema.

        Args:
            schema: A CsvSchema, or the type of the rows for a file without header.
            bad_lines: What becomes of a line that does not fit the schema; ours. ``"fail"`` ends the job with its
                place; ``"skip"`` leaves it out and counts it (``skippedLines``); ``"emit"`` puts a ``BadLine`` in its
                place, for a side output.

        Raises:
            TypeError: It is no CsvSchema.
            ValueError: A column's type cannot be read from CSV, or bad lines cannot be told from others.
        """
        return CsvReaderFormat(as_csv_schema(schema), bad_lines)

    def counting(self, skipped: Callable[[int], object]) -> CsvReaderFormat:
        """Return the format for a reader that counts lines that are left out."""
        counting = CsvReaderFormat(self._schema, self._bad_lines)
        counting._skipped = skipped
        return counting

    def get_produced_type(self) -> RowTypeInfo | None:
        """Return the type of the rows; None where bad lines are among them."""
        return None if self._bad_lines == "emit" else self._schema.row_type

    @property
    def holds_produced_type(self) -> bool:
        """Whether all records have that type: the file is read by it."""
        return self._bad_lines != "emit"

    @property
    def lines_are_records(self) -> bool:
        """Whether no value can hold the end of a line."""
        return self._dialect.lines_are_records

    def read(self, file: InputFile, part: FilePart) -> Iterator[tuple[list[Any], int]]:
        """Read the records that begin in the part; the position counts bytes."""
        decoder = CsvDecoder(self._schema.columns, self._dialect)
        beginning = self._beginning(file, decoder)
        if beginning.names is not None:
            decoder = CsvDecoder(self._schema.columns, self._dialect, self._order(file, beginning.names))
        bounds = None if self.lines_are_records else decoder.records
        for data, begin, position in read_lines(file, part, _CHARSET, bounds):
            block = data[max(0, beginning.end - (position - len(data))) :]
            try:
                rows = decoder.rows(block)
            except ValueError as error:
                if self._bad_lines == "fail":
                    reason = (
                        f"the lines between bytes {begin} and {position} do not fit the schema {self._schema} "
                        f"({error}); repair the file, change the schema, or choose what becomes of such lines "
                        "by bad_lines"
                    )
                    raise SourceFileError(file.path, reason) from error
                rows = self._one_by_one(file.path, position - len(block), block, decoder)
            if rows:
                yield rows, position

    def _one_by_one(self, path: str, begin: int, block: bytes, decoder: CsvDecoder) -> list[Any]:
        """Return the rows of lines, with what is chosen in place of those that do not fit."""
        rows: list[Any] = []
        skipped = place = 0
        while place < len(block):
            found = LINE_END.search(block, place)
            line, offset = block[place : len(block) if found is None else found.start()], place
            place = len(block) if found is None else found.end()
            try:
                rows += decoder.rows_of_text(f"{line.decode()}\n")
            except ValueError as error:
                if self._bad_lines == "emit":
                    rows.append(BadLine(path, begin + offset, line, str(error)))
                else:
                    skipped += 1
        if skipped:
            self._skipped(skipped)
        return rows

    def _beginning(self, file: InputFile, decoder: CsvDecoder) -> _Beginning:
        """Return the header, and where the records begin: behind it, and behind the line that is skipped."""
        header, left = int(self._dialect.use_header), int(self._dialect.skip_first_data_row)
        names: list[str] | None = None
        end = 0
        bounds = None if self.lines_are_records else decoder.records
        blocks = read_lines(file, FilePart(0, file.size, file.size), _CHARSET, bounds)
        while header + left and (block := next(blocks, None)) is not None:
            place, header, found = decoder.records.behind_records(block.data, header)
            if found:
                names = decoder.records.record(found.decode(_CHARSET, "replace"))
            if not header:
                behind, left, _ = decoder.records.behind_records(block.data[place:], left)
                place += behind
            end = block.end - len(block.data) + place
        return _Beginning(names, end)

    def _order(self, file: InputFile, names: list[str]) -> list[str] | None:
        """Return the names of a file's columns if its header decides about their order."""
        wanted = [column.name for column in self._schema.columns]
        found = [name.strip() for name in names] if self._dialect.reorder_columns else names
        is_unclear = self._dialect.reorder_columns and any(found.count(name) != 1 for name in wanted)
        if is_unclear or (self._dialect.strict_headers and found != wanted):
            reason = (
                f"its header is {', '.join(found)}, and the schema's columns are {', '.join(wanted)}; "
                "change the schema, or take the file out of the source's paths"
            )
            raise SourceFileError(file.path, reason)
        return found if self._dialect.reorder_columns else None


show("penstock.datastream.formats.csv", CsvReaderFormat)
