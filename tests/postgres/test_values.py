"""Each value of the table goes through the sink and both sources, and becomes what the page of values says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.values.page import changed, faults
from tests.values.paths.postgresql import on
from tests.values.table import verdicts

if TYPE_CHECKING:
    from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("place", [0, 1], ids=["table", "changes"])
def test_each_value_comes_back_or_is_refused_or_is_converted_as_a_line_says(server: PostgresServer, place: int) -> None:
    path = on(server)[place]
    found = verdicts(path)
    assert changed(path, found) == []
    assert faults(found) == []
