"""Errors of Elasticsearch and OpenSearch."""

from __future__ import annotations

from penstock._errors.root import declared
from penstock._errors.run import JobRunError


@declared
class ElasticsearchConnectorError(JobRunError):
    """Elasticsearch does not answer, or refuses a request; a restart may help."""

    what: str  #: what was to be done, such as ``Writing into http://localhost:9200``
    reason: str  #: what went wrong, a clause without a full stop

    def __str__(self) -> str:
        return f"{self.what} failed: {self.reason}."


class ElasticsearchDocumentError(ElasticsearchConnectorError):
    """A record cannot become a document, or an index refuses it."""
