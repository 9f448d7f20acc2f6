"""Changes of an index: the actions that emitters return, and their lines in a bulk request."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, cast
from uuid import UUID

from penstock._shelf import show
from penstock.common._codecs.json_codec import JsonCodec
from penstock.common.user_values import short_repr
from penstock.errors import ElasticsearchDocumentError, MessageFormatError

Operation = Literal["index", "create", "update", "delete"]


@dataclass(frozen=True, slots=True)
class ElasticsearchAction:
    """One change of an index, as a function of an emitter returns it; not in PyFlink.

    An action with an id is sent at once, and again after a failure, with the same result. An action without an id makes
    a new document, exactly once, with the checkpoint that it belongs to.

    Args:
        index: The index, alias or data stream.
        source: The document: a dict, a Row with names, a dataclass. For an update the fields to set; None to delete.
        id: The document's id.
        operation: ``index`` puts the document in place of the one of that id, ``create`` leaves one that is there,
            ``update`` sets fields of it and makes it where there is none, ``delete`` removes it. An action without an
            id is a ``create``, whatever it says here.
        routing: Chooses the shard in place of the id.
        pipeline: The ingest pipeline.
        version: A number that grows with each version of the document (``external_gte``): an older one than the
            index has changes nothing. For ``index`` and ``delete``.

    Raises:
        ValueError: The operation needs an id, or takes no version.

    Example:
        >>> ElasticsearchAction("orders", {"total": 7}, id="a", operation="update").operation
        'update'
    """

    index: str
    source: Any = None
    id: str | None = None
    operation: Operation = "index"
    routing: str | None = None
    pipeline: str | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        if self.id is None and self.operation in {"update", "delete"}:
            msg = f"An action that is {self.operation!r} needs an id."
            raise ValueError(msg)
        if self.version is not None and (self.id is None or self.operation not in {"index", "delete"}):
            msg = "Only an action that is 'index' or 'delete', with an id, has a version."
            raise ValueError(msg)


class BulkItem(NamedTuple):
    """An action whose document is bytes of JSON."""

    operation: Operation
    #: The index, alias or data stream.
    target: str
    id: str | None
    #: Further settings of the action, by their names in a bulk request.
    more: dict[str, Any]
    source: bytes

    def lines(self) -> bytes:
        """Return its lines of a bulk request.

        Example:
            >>> BulkItem("delete", "orders", "a", {}, b"").lines().decode().splitlines()
            ['{"delete":{"_index":"orders","_id":"a"}}']
        """
        head = _JSON.encode({self.operation: {"_index": self.target, "_id": self.id, **self.more}})
        if self.operation == "delete":
            return head + b"\n"
        if self.operation == "update":
            return b'%b\n{"doc_as_upsert":true,"doc":%b}\n' % (head, self.source)
        return b"%b\n%b\n" % (head, self.source)


NO_SETTINGS: Final[dict[str, Any]] = {}


def item_of(action: ElasticsearchAction) -> BulkItem:
    """Return an action as an item of a bulk request.

    Raises:
        ElasticsearchDocumentError: Its document cannot become JSON.
    """
    given = (("routing", action.routing), ("pipeline", action.pipeline))
    more: dict[str, Any] = {name: id_of(value, f"the {name}") for name, value in given if value}
    if action.version is not None:
        more |= {"version": action.version, "version_type": "external_gte"}
    operation: Operation = "create" if action.id is None else action.operation
    if operation == "update":
        more["retry_on_conflict"] = 3
    source = b"" if operation == "delete" else encoded(action.source, action.index)
    name = None if action.id is None else id_of(action.id, "the id")
    return BulkItem(operation, target_of(action.index), name, more or NO_SETTINGS, source)


def encoded(source: Any, index: str) -> bytes:
    """Return a document as JSON.

    Raises:
        ElasticsearchDocumentError: It has a value that JSON cannot have, or is no object.

    Example:
        >>> from decimal import Decimal
        >>> from penstock.common.types import Row
        >>> encoded({"name": "ada", "price": Decimal("1.50"), "at": Row(x=1)}, "orders")
        b'{"name":"ada","price":1.5,"at":{"x":1}}'
    """
    try:
        data = _JSON.encode(source)
    except MessageFormatError as error:
        what = f"Making a document for {index} of {short_repr(source)}"
        raise ElasticsearchDocumentError(what, f"{_field_at_fault(source)}{error.reason}") from None
    if not data.startswith(b"{"):
        reason = f"a document is a dict or a Row with names, and this is a {type(source).__name__}"
        raise ElasticsearchDocumentError(f"Making a document for {index}", reason)
    return data


def _field_at_fault(source: Any) -> str:
    """Return the beginning of a reason that names the first field that JSON cannot have."""
    fields = cast("dict[Any, Any]", source) if isinstance(source, dict) else {}
    for name, value in fields.items():
        try:
            _JSON.encode({name: value})
        except MessageFormatError:
            return f"{name!s:.200}: "
    return ""


def target_of(name: Any) -> str:
    """Return the name of an index, alias or data stream, as a request has it.

    Raises:
        ElasticsearchDocumentError: No index can have it; a commit would be refused for ever.

    Example:
        >>> target_of("<logs-{now/d}>"), target_of("orders")
        ('<logs-{now/d}>', 'orders')
    """
    if type(name) is str and name in _known_targets:
        return name
    is_math = isinstance(name, str) and name.startswith("<") and name.endswith(">")
    fits = isinstance(name, str) and (is_math or (_TARGET.fullmatch(name) and name not in {".", ".."}))
    if not fits or len(name.encode(errors="surrogatepass")) > _LONGEST or not _is_utf_8(name):
        reason = (
            f"{short_repr(name)} is no name of an index: up to 255 bytes without spaces and without any of "
            r'\ / * ? " < > | , # :, and not beginning with -, _ or +'
        )
        raise ElasticsearchDocumentError("Making a document", reason)
    if len(_known_targets) < _MOST_TARGETS:
        _known_targets.add(name)
    return name


def id_of(value: Any, what: str) -> str:
    """Return a document's id.

    Raises:
        ElasticsearchDocumentError: It is no text, number, date or UUID, or is longer than an id may be.
    """
    text = value if isinstance(value, str) else str(value) if type(value) in _ID_KINDS else None
    if text is None:
        reason = f"{what} is {short_repr(value)}, and an id is a text, a whole number, a date or a UUID"
        raise ElasticsearchDocumentError("Making a document", reason)
    if not text or not _is_utf_8(text) or len(text.encode()) > _LONGEST_ID:
        reason = f"{what} is {short_repr(value)}, and an id has 1 to 512 bytes of UTF-8"
        raise ElasticsearchDocumentError("Making a document", reason)
    return text


def _is_utf_8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


#: Upper case is for aliases alone.
_TARGET: Final = re.compile(r'(?![-_+])[^\\/*?"<>| ,#:\s\0]+')
_LONGEST: Final = 255
_LONGEST_ID: Final = 512
_MOST_TARGETS: Final = 10_000
_known_targets: Final[set[str]] = set()
_ID_KINDS: Final = frozenset({int, Decimal, date, datetime, UUID})
_JSON: Final = JsonCodec()

show("penstock.datastream.connectors.elasticsearch", ElasticsearchAction)
