"""What becomes of each value on its way through Elasticsearch: one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.values.page import changed, faults
from tests.values.paths.search import PATHS
from tests.values.table import verdicts

if TYPE_CHECKING:
    from tests.services.search import Cluster

pytestmark = pytest.mark.search


def test_each_value_comes_back_as_a_document_or_is_refused_or_converted_as_a_line_says(elasticsearch: Cluster) -> None:
    del elasticsearch  # it runs as long as the test
    [path] = PATHS
    found = verdicts(path)
    assert changed(path, found) == []
    assert faults(found) == []
