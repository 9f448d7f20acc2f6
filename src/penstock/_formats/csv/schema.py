"""The schema of a CSV file: its columns and its dialect."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock._shelf import show
from penstock.common._codecs.csv_dialect import CsvDialect
from penstock.common._codecs.csv_values import CsvColumn
from penstock.common.arguments import instance
from penstock.common.typeinfo import RowTypeInfo, Types

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation


@dataclass(frozen=True)
class CsvSchema:
    """Columns and dialect of CSV files; made by ``CsvSchema.builder()`` or of a row type.

    Source: ``pyflink.datastream.formats.csv.CsvSchema``.

    Args:
        columns: The columns in order.
        dialect: The special characters, and the meaning of first lines.

    Example:
        >>> schema = CsvSchema.builder().add_string_column("city").add_number_column("people").set_use_header().build()
        >>> len(schema), schema.row_type
        (2, RowTypeInfo(city: String, people: Long))
    """

    columns: tuple[CsvColumn, ...]
    dialect: CsvDialect = field(default_factory=CsvDialect)

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Begin without columns, with commas and double quotes."""
        return CsvSchemaBuilder()

    @staticmethod
    def for_row_type(row_type: RowTypeInfo) -> CsvSchema:
        """Return the schema of rows of a type, with commas and double quotes; ours."""
        columns = zip(row_type.get_field_names(), row_type.get_field_types(), strict=True)
        return CsvSchema(tuple(CsvColumn.of(name, type_info, ";") for name, type_info in columns))

    @property
    def row_type(self) -> RowTypeInfo:
        """The type of the records."""
        return Types.ROW_NAMED([c.name for c in self.columns], [c.type_info for c in self.columns])

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __str__(self) -> str:
        return f"CsvSchema({', '.join(f'{column.name}: {column.type_info}' for column in self.columns)})"

    __repr__ = __str__


def as_csv_schema(schema: object) -> CsvSchema:
    """Return what a program gives for the columns of CSV: a schema, or the type of the rows.

    Raises:
        TypeError: It is neither.
        ValueError: A column's type cannot be read from CSV.
    """
    if isinstance(schema, RowTypeInfo):
        return CsvSchema.for_row_type(schema)
    return instance("schema", schema, CsvSchema, "CsvSchema.builder() begins one")


class CsvSchemaBuilder:
    """Builds a CsvSchema.

    Source: ``pyflink.datastream.formats.csv.CsvSchemaBuilder``. Types are those of ``Types``, where PyFlink takes
    ``DataTypes``.
    """

    def __init__(self) -> None:
        self._columns: list[CsvColumn] = []
        self._dialect = CsvDialect()

    def add_array_column(
        self, name: str, separator: str = ";", element_type: TypeInformation | None = None
    ) -> CsvSchemaBuilder:
        """Add a column of lists; their elements are text by default."""
        element = Types.STRING() if element_type is None else element_type
        self._columns.append(CsvColumn(name, Types.OBJECT_ARRAY(element), separator))
        return self

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of truth values, ``true`` and ``false``."""
        self._columns.append(CsvColumn(name, Types.BOOLEAN()))
        return self

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers, which are whole numbers by default."""
        self._columns.append(CsvColumn(name, Types.LONG() if number_type is None else number_type))
        return self

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of text."""
        self._columns.append(CsvColumn(name, Types.STRING()))
        return self

    def add_column(self, name: str, type_info: TypeInformation) -> CsvSchemaBuilder:
        """Add a column of any type, such as dates; ours."""
        self._columns.append(CsvColumn.of(name, type_info, ";"))
        return self

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add all columns of another schema."""
        self._columns += schema.columns
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        self._columns.clear()
        return self

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the separator of columns."""
        return self._set(column_separator=_one_sign("column separator", char))

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character that escapes the next one; none by default."""
        return self._set(escape_char=_one_sign("escape sign", char))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Disable the escape character."""
        return self._set(escape_char=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the quote character."""
        return self._set(quote_char=_one_sign("quote", char))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Disable quotes, so that large files are read in parts."""
        return self._set(quote_char=None)

    def set_multiline_values(self, allow: bool = True) -> CsvSchemaBuilder:
        """Set whether a quoted value may hold line feeds; ours.

        If not, large files are read in parts, in parallel. By default they are not, because in the middle of a file it
        is unknown whether a quote is open.
        """
        return self._set(multiline_values=allow)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        r"""Set the line end that is written; readers accept ``\n``, ``\r\n`` and ``\r``.

        Raises:
            ValueError: It is something else.
        """
        if separator not in {"\n", "\r\n", "\r"}:
            msg = f"A line separator can be '\\n', '\\r\\n' or '\\r', not {separator!r}."
            raise ValueError(msg)
        return self._set(line_separator=separator)

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the separator of elements in all array columns added so far."""
        self._columns = [
            replace(column, separator=separator) if column.separator is not None else column for column in self._columns
        ]
        return self

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Let each array have one element, the whole text, in all array columns added so far."""
        return self.set_array_element_separator("")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Let the arrays of one column have one element, the whole text.

        Args:
            index: The column's position, from 0.

        Raises:
            IndexError: There is no such column.
        """
        column = self._columns[index]
        if column.separator is not None:
            self._columns[index] = replace(column, separator="")
        return self

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Ignore values beyond the schema's columns; by default they are an error.

        Args:
            name: Flink's name for these values, which a Row cannot hold.
        """
        return self._set(any_property_name=name)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that means None; without it, empty fields are None, empty text, or empty arrays."""
        return self._set(null_value=null_value)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Set whether the first line is a header, which is passed over: columns are read in the schema's order."""
        return self._set(use_header=use)

    def set_reorder_columns(self, reorder: bool = True) -> CsvSchemaBuilder:
        """Set whether the header decides the order of columns, which may then be among others; Jackson's."""
        return self._set(reorder_columns=reorder)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Set whether the header must name exactly the schema's columns, in their order."""
        return self._set(strict_headers=strict)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Set whether to skip the first line, or the first one after the header."""
        return self._set(skip_first_data_row=skip)

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Set whether to pass over lines that begin with ``#``."""
        return self._set(allow_comments=allow)

    def size(self) -> int:
        """Return the number of columns so far."""
        return len(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def build(self) -> CsvSchema:
        """Return the schema.

        Raises:
            ValueError: There is no column, two have one name, or a character has two meanings.
        """
        self._dialect.check()
        names = [column.name for column in self._columns]
        if not names or len(set(names)) < len(names):
            msg = f"A CSV schema needs columns with different names; it has {', '.join(names) or 'none'}."
            raise ValueError(msg)
        return CsvSchema(tuple(self._columns), self._dialect)

    def _set(self, **changes: Any) -> CsvSchemaBuilder:
        self._dialect = replace(self._dialect, **changes)
        return self


def _one_sign(what: str, char: str) -> str:
    if len(char) != 1 or not char.isascii():
        msg = f"The {what} must be one ASCII sign, not {char!r}."
        raise ValueError(msg)
    return char


show("penstock.datastream.formats.csv", CsvSchema, CsvSchemaBuilder)
