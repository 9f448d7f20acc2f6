from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.kit.cells import cells

if TYPE_CHECKING:
    from pathlib import Path


def test_all_cases_run_and_each_that_fails_is_named(tmp_path: Path) -> None:
    ran: list[int] = []

    @cells("number", {"one": 1, "two": 2, "three": 3})
    def test(number: int, tmp_path: Path) -> None:
        ran.append(number)
        assert not list(tmp_path.iterdir())
        (tmp_path / "file").touch()
        assert number == 2

    with pytest.raises(ExceptionGroup, match="2 of 3 cases fail") as caught:
        test(tmp_path=tmp_path)
    assert ran == [1, 2, 3]
    assert [error.__notes__ for error in caught.value.exceptions] == [["in the case one"], ["in the case three"]]


@cells("left, right", [(1, 1), ("a", "a")])
@pytest.mark.parametrize("shift", ["", "x"])
def test_several_arguments_stand_beside_those_of_pytest(left: object, right: object, shift: str) -> None:
    assert f"{left}{shift}" == f"{right}{shift}"


@cells("number", [0, 1])
def test_each_case_has_a_patch_of_its_own(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "PENSTOCK_CASE" not in os.environ
    monkeypatch.setenv("PENSTOCK_CASE", str(number))
