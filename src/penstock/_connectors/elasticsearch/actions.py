"""Changes of an index: the actions that emitters return, and their lines in a bulk request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from penstock._shelf import show
from penstock.common._codecs.json_codec import JsonCodec
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
    more: dict[str, Any] = {name: value for name, value in given if value}
    if action.version is not None:
        more |= {"version": action.version, "version_type": "external_gte"}
    operation: Operation = "create" if action.id is None else action.operation
    if operation == "update":
        more["retry_on_conflict"] = 3
    source = b"" if operation == "delete" else encoded(action.source, action.index)
    return BulkItem(operation, action.index, action.id, more or NO_SETTINGS, source)


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
        raise ElasticsearchDocumentError(f"Making a document for {index}", error.reason) from None
    if not data.startswith(b"{"):
        reason = f"a document is a dict or a Row with names, and this is a {type(source).__name__}"
        raise ElasticsearchDocumentError(f"Making a document for {index}", reason)
    return data


_JSON: Final = JsonCodec()

show("penstock.datastream.connectors.elasticsearch", ElasticsearchAction)
