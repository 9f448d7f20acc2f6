from __future__ import annotations

import pytest
from tests.unit.savepoint_package.written import NUMBERS
from tests.unit.savepoints.jobs import savepoint_of


@pytest.fixture(scope="module")
def existing(tmp_path_factory: pytest.TempPathFactory) -> str:
    return savepoint_of(tmp_path_factory.mktemp("existing"), numbers=NUMBERS, inline="0 b")
