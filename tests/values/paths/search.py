"""Elasticsearch: records as documents of an index that takes any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.services import search as service
from tests.values.table import Outcome, Path
from tests.values.values import FIELD

from penstock.datastream.connectors.elasticsearch import Elasticsearch7SinkBuilder, ElasticsearchEmitter
from penstock.testing.connector_contexts import TestCommitterContext, TestWriterContext, requests_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.values.values import Value

_INDEX = "values"
_NUMBER, _PLACE = "number of the value", "place of the record"


def _run(values: Sequence[Value]) -> Iterable[Outcome]:
    outcomes: list[Outcome] = []
    context = TestWriterContext()
    committables: list[Any] = []
    with service.shared_server(service.ELASTICSEARCH) as server:
        cluster = service.Cluster(server["url"])
        cluster.delete([_INDEX])
        cluster.ask("PUT", f"/{_INDEX}", {"mappings": {"enabled": False}})
        sink: Any = (
            Elasticsearch7SinkBuilder().set_hosts(cluster.url).set_emitter(ElasticsearchEmitter.static_index(_INDEX))
        ).build()
        for number, value in enumerate(values):
            writer = sink.create_writer(context)
            try:
                records = [{**one, _NUMBER: number, _PLACE: place} for place, one in enumerate(value.records)]
                writer.write_all(records)
                writer.flush(False)
                committables += writer.prepare_commit()
                outcomes.append([{}] * len(records))
            except Exception as error:  # noqa: BLE001 - it is judged
                outcomes.append(error)
            context.attempt_token = f"token {number}"
        committer = sink.create_committer(TestCommitterContext(staged=context.staged))
        committer.commit(requests_for(committables))
        committer.close()
        for document in cluster.documents(_INDEX).values():
            number, place = document.pop(_NUMBER), document.pop(_PLACE)
            found = outcomes[number]
            assert isinstance(found, list), f"{values[number]} was refused, and is there"
            found[place] = {FIELD: None} | document
        cluster.delete([_INDEX])
    return outcomes


PATHS = (Path("Elasticsearch", "Documents of dicts, as an index gives them back.", _run, in_every_run=False),)
