"""The argument of ``create_input``: a path with the format of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock._formats.file_format import BulkFormat
    from penstock.common.typeinfo import TypeInformation


class InputFormat:
    """Files of a format, for ``StreamExecutionEnvironment.create_input``.

    Args:
        path: A file, a folder or a glob.
        file_format: How to read them.
        type_info: The type of the records.
    """

    def __init__(self, path: str, file_format: BulkFormat, type_info: TypeInformation) -> None:
        self.path: str = path
        self.file_format: BulkFormat = file_format
        self._type_info = type_info

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""
        return self._type_info
