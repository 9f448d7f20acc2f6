"""Makes documents of records: by the names of fields, as in PyFlink, or by a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from penstock._connectors.elasticsearch.actions import (
    NO_SETTINGS,
    BulkItem,
    ElasticsearchAction,
    encoded,
    id_of,
    item_of,
    target_of,
)
from penstock._shelf import show
from penstock.common.types import Row
from penstock.common.user_values import short_repr
from penstock.errors import ElasticsearchDocumentError, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Settings of updates: writers of other programs may change the same document at the same time.
_OF_UPDATES: Final[dict[str, Any]] = {"retry_on_conflict": 3}


class ElasticsearchEmitter:
    """Makes documents of records; a static method makes each kind.

    With the name of a key field each record sets the fields of the document with that id, or makes it. Without one each
    record becomes a new document.

    Source: org.apache.flink.connector.elasticsearch.sink.ElasticsearchEmitter, and SimpleElasticsearchEmitter.

    Args:
        index: The index, or the field that names it; empty where a function makes the actions.
        key_field: The field that has the id.
        is_dynamic: Whether `index` is a field.
        function: Makes the actions of a record.

    Example:
        >>> emitter = ElasticsearchEmitter.static_index("people", "id")
        >>> emitter.items([{"id": 7, "name": "ada"}])[0].lines().decode().splitlines()[0]
        '{"update":{"_index":"people","_id":"7","retry_on_conflict":3}}'
    """

    def __init__(
        self,
        index: str,
        key_field: str | None = None,
        *,
        is_dynamic: bool = False,
        function: Callable[[Any], ElasticsearchAction | Iterable[ElasticsearchAction]] | None = None,
    ) -> None:
        self._index, self._key_field, self._is_dynamic, self._function = index, key_field, is_dynamic, function

    @staticmethod
    def static_index(index: str, key_field: str | None = None, doc_type: str | None = None) -> ElasticsearchEmitter:
        """Write all records into one index.

        Args:
            index: The index.
            key_field: The field of records that has the document's id.
            doc_type: None: Elasticsearch has no types of documents since version 7.

        Raises:
            UnsupportedOperationError: There is a document type.
        """
        _refuse_type(doc_type)
        return ElasticsearchEmitter(index, key_field)

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Write each record into the index that it names.

        Args:
            index_field: The field of records that has the index.
            key_field: The field of records that has the document's id.
            doc_type: None: Elasticsearch has no types of documents since version 7.

        Raises:
            UnsupportedOperationError: There is a document type.
        """
        _refuse_type(doc_type)
        return ElasticsearchEmitter(index_field, key_field, is_dynamic=True)

    @staticmethod
    def from_function(
        function: Callable[[Any], ElasticsearchAction | Iterable[ElasticsearchAction]],
    ) -> ElasticsearchEmitter:
        """Let a function say what a record changes; not in PyFlink.

        Args:
            function: Gets a record, and returns an action, several, or an empty list. It runs in the tasks.

        Example:
            >>> emitter = ElasticsearchEmitter.from_function(lambda word: ElasticsearchAction("words", id=word))
        """
        return ElasticsearchEmitter("", function=function)

    @property
    def has_ids(self) -> bool:
        """Whether all documents have ids; actions of a function may have some."""
        return self._key_field is not None

    def items(self, elements: list[Any]) -> list[BulkItem]:
        """Return what a block of records changes, in its order.

        Raises:
            ElasticsearchDocumentError: A record has no such field, or a value that JSON cannot have.
        """
        function = self._function
        if function is None:
            return [self._item(element) for element in elements]
        found: list[BulkItem] = []
        for element in elements:
            made = function(element)
            found.extend(map(item_of, [made] if isinstance(made, ElasticsearchAction) else made))
        return found

    def _item(self, element: Any) -> BulkItem:
        index = target_of(self._field(element, self._index) if self._is_dynamic else self._index)
        source = encoded(element, index)
        if self._key_field is None:
            return BulkItem("create", index, None, NO_SETTINGS, source)
        name = id_of(self._field(element, self._key_field), f"the field {self._key_field!r}")
        return BulkItem("update", index, name, _OF_UPDATES, source)

    def _field(self, element: Any, name: str) -> Any:
        """Return a field, which is an id or an index."""
        try:
            has_items = isinstance(element, (dict, Row))
            value = cast("Any", element)[name] if has_items else getattr(element, name)
        except (KeyError, ValueError, AttributeError):
            value = None
        if value is None:
            reason = f"the record has no field {name!r}, or null in it: {short_repr(element)}"
            raise ElasticsearchDocumentError("Making a document", reason)
        return value


def _refuse_type(doc_type: str | None) -> None:
    if doc_type is not None:
        reason = "Elasticsearch has no types of documents since version 7; leave doc_type out"
        raise UnsupportedOperationError("the doc_type of an ElasticsearchEmitter", reason)


show("penstock.datastream.connectors.elasticsearch", ElasticsearchEmitter)
