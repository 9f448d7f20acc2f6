"""OutputTag: the name of a side output (``pyflink.datastream.output_tag``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock._shelf import show
from penstock.common.names import checked_name
from penstock.common.typeinfo import TypeInformation, Types

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OutputTag"]


class OutputTag:
    """The name of a side output; tags of the same id mean the same output.

    Args:
        tag_id: The id, unique among the side outputs of one operator.
        type_info: The type of the records; a list of types stands for a row of them.

    Raises:
        ValueError: The id is empty.
        UnsupportedOperationError: It has line breaks or other characters that cannot be shown, or more than 500.
        TypeError: The type is no type.

    Source: org.apache.flink.util.OutputTag.

    Example:
        >>> late = OutputTag("late")
        >>> late == OutputTag("late"), late
        (True, OutputTag('late'))
    """

    __slots__ = ("tag_id", "type_info")

    def __init__(self, tag_id: str, type_info: TypeInformation | Sequence[TypeInformation] | None = None) -> None:
        if not tag_id:
            msg = "An OutputTag needs an id that is not empty."
            raise ValueError(msg)
        self.tag_id: str = checked_name(tag_id, "OutputTag", "the id of a side output")
        self.type_info: TypeInformation = _as_type(type_info)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"


def _as_type(type_info: object) -> TypeInformation:
    if type_info is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(type_info, (list, tuple)):
        return Types.ROW(list(cast("list[TypeInformation]", type_info)))
    if isinstance(type_info, TypeInformation):
        return type_info
    msg = f"type_info of an OutputTag must be a type, a list of types or None, not {type_info!r}."
    raise TypeError(msg)


show("penstock.datastream.output_tag", OutputTag)
