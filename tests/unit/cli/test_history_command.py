"""Ended jobs in ``penstock list``, and the command that serves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit.rest.past import past_of_all_kinds

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Command


def test_list_all_names_the_ended_jobs_of_the_configured_archives(penstock: Command, tmp_path: Path) -> None:
    archives, made = past_of_all_kinds(tmp_path)
    Path("config.yaml").write_text(f"jobmanager.archive.fs.dir: {archives}")
    penstock("list")  # what the jobs of this test have printed is not the command's
    rows = json.loads(penstock("list", "--all", "--json").out)
    assert {row["name"]: row["state"] for row in rows} == {
        run.name: "LOST" if run.is_lost else run.state for run in made
    }
    said = penstock("list", "--all").err
    killed = next(run for run in made if run.name == "killed")
    path = f"{tmp_path}/killed/{killed.job_id}/chk-4"
    assert f"Job 'killed' ({killed.job_id}) is lost since" in said
    assert f"Resume it with: penstock run -s {path} SCRIPT" in said
    assert json.loads(penstock("list", "--json").out) == []


def test_history_without_a_directory_says_which_key_names_one(penstock: Command) -> None:
    done = penstock("history")
    assert done.code == 2
    assert "jobmanager.archive.fs.dir" in done.err
    assert penstock("history", "nowhere").code == 2
