"""What may become of a document that its index refuses."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock._connectors.elasticsearch.actions import ElasticsearchAction
from penstock._shelf import show

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class ElasticsearchFailure:
    """A document that its index has refused; not in PyFlink.

    Attributes:
        index: The index.
        id: The document's id.
        operation: What was to be done with it.
        source: The document as text of JSON; empty for one that was to be deleted.
        status: The status of HTTP for it.
        reason: What the cluster says.
    """

    index: str
    id: str
    operation: str
    source: str
    status: int
    reason: str


#: Takes a failure; the action that it returns, if any, is carried out.
FailureHandler: TypeAlias = "Callable[[ElasticsearchFailure], ElasticsearchAction | None]"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Puts refused documents into another index, each once.

    Args:
        index: That index.

    Example:
        >>> failure = ElasticsearchFailure("orders", "7", "create", '{"total":"x"}', 400, "no number")
        >>> DeadLetters("refused")(failure).source["document"]
        '{"total":"x"}'
    """

    index: str

    def __call__(self, failure: ElasticsearchFailure) -> ElasticsearchAction:
        """Return the document of a failure. Its id follows from what was refused: a repetition changes nothing."""
        parts = "\n".join((failure.index, failure.id, failure.operation, failure.source))
        content: dict[str, Any] = {
            "index": failure.index,
            "id": failure.id,
            "operation": failure.operation,
            "document": failure.source,
            "status": failure.status,
            "reason": failure.reason,
        }
        name = hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()
        return ElasticsearchAction(self.index, content, id=name)


show("penstock.datastream.connectors.elasticsearch", ElasticsearchFailure)
