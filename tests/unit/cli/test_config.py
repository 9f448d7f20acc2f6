"""``penstock config``: what holds for a program, and where that was set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.common.option_table import OPTIONS

if TYPE_CHECKING:
    import pytest
    from tests.unit.cli.conftest import Command


def rows(penstock: Command, *words: str) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in json.loads(penstock("config", "--json", *words).out)}


def test_each_value_comes_with_the_place_where_it_was_set(penstock: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("config.yaml").write_text("{parallelism.default: 2, state.checkpoints.num-retained: 5, pipeline.name: file}")
    monkeypatch.setenv("PENSTOCK_PARALLELISM__DEFAULT", "4")
    found = rows(penstock, "-D", "pipeline.name=line", "--set")
    places = {key: (row["value"], row["origin"]) for key, row in found.items()}
    assert places == {
        "parallelism.default": ("4", "the environment variable PENSTOCK_PARALLELISM__DEFAULT"),
        "execution.checkpointing.num-retained": ("5", str(Path("config.yaml").absolute())),
        "pipeline.name": ("line", "the command line"),
    }


def test_all_keys_are_shown_with_default_and_effect(penstock: Command) -> None:
    found = rows(penstock)
    assert list(found) == list(OPTIONS)
    assert found["parallelism.default"]["value"] == found["parallelism.default"]["default"] == "1"
    assert found["execution.buffer-timeout.interval"]["effect"].startswith("no effect:")


def test_file_beside_the_script_counts(penstock: Command, tmp_path: Path) -> None:
    (tmp_path / "job.py").touch()
    (tmp_path / "config.yaml").write_text("parallelism.default: 7")
    found = rows(penstock, "--script", str(tmp_path / "job.py"), "parallelism.default")
    assert found["parallelism.default"]["value"] == "7"


def test_secrets_and_keys_of_the_program_are_shown_as_they_may_be(penstock: Command) -> None:
    found = rows(penstock, "-D", "myjob.api-key=abc", "-D", "myjob.limit=3", "myjob")
    assert [(row["key"], row["value"]) for row in found.values()] == [("myjob.api-key", "******"), ("myjob.limit", "3")]


def test_key_that_is_not_there_is_told_with_one_that_is_near(penstock: Command) -> None:
    done = penstock("config", "paralelism.default")
    assert done.code == 1
    assert "parallelism.default?" in done.err
    assert done.out == ""


def test_table_has_a_line_for_each_key(penstock: Command) -> None:
    lines = penstock("config").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(OPTIONS)


def test_bad_value_is_told_with_its_place(penstock: Command) -> None:
    Path("config.yaml").write_text("parallelism.default: many")
    done = penstock("config")
    assert done.code == 2
    assert str(Path("config.yaml").absolute()) in done.err
    assert len(done.err.splitlines()) == 1
