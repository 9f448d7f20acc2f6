"""PyFlink's own example of Elasticsearch 7 runs with its imports and addresses changed."""

from __future__ import annotations

import os
import runpy
from typing import TYPE_CHECKING

import pytest
from tests.compat.test_pyflink_examples import EXAMPLES

from penstock._engine.cli.porting import ported
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import AbsentImportError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.services.search import Cluster

    from penstock._engine.spark.session import SparkHandle

EXAMPLE = EXAMPLES / "connectors" / "elasticsearch.py"

pytestmark = [pytest.mark.search, pytest.mark.spark]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The example with its imports changed by `penstock port`."""
    if not EXAMPLE.is_file():
        reason = "PyFlink's examples are not here (make tools)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    place = tmp_path / "elasticsearch_example.py"
    place.write_text(ported(EXAMPLE.read_text(encoding="utf-8")).text, encoding="utf-8")
    return place


def test_documents_of_the_example_are_there(program: Path, elasticsearch: Cluster, spark: SparkHandle) -> None:
    del spark
    with pytest.raises(AbsentImportError, match="use Elasticsearch7SinkBuilder"):
        runpy.run_path(str(program))
    text = program.read_text().replace("Elasticsearch6SinkBuilder, ", "")
    program.write_text(text.replace("localhost:9200", elasticsearch.url).replace("foo-bar", "/"))
    example = runpy.run_path(str(program))
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    example["write_to_es7"](env)
    example["write_to_es7_dynamic_index"](env)
    ada, luna = {"name": "ada", "id": "1"}, {"name": "luna", "id": "2"}
    assert elasticsearch.documents("foo") == {"1": ada, "2": luna}
    assert (elasticsearch.documents("ada"), elasticsearch.documents("luna")) == ({"1": ada}, {"2": luna})
    elasticsearch.delete(["foo", "ada", "luna"])
