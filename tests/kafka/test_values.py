"""What becomes of each value on its way through Kafka: one batch."""

from __future__ import annotations

import pytest
from tests.values.page import changed, faults
from tests.values.paths.kafka import PATHS
from tests.values.table import verdicts

pytestmark = pytest.mark.kafka


@pytest.mark.usefixtures("server")
def test_each_value_comes_back_from_a_topic_or_is_refused_or_converted_as_a_line_says() -> None:
    [path] = PATHS
    found = verdicts(path)
    assert changed(path, found) == []
    assert faults(found) == []
