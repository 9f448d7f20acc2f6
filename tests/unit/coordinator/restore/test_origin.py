"""Whose a checkpoint is from then on that a job was started from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock._engine.coordinator.restore.origin import Ownership, ownership
from penstock._engine.protocol.metadata import ChainEntry, ChainEntryKind

JOB, OTHER = "a" * 32, "b" * 32


def record(job_id: str, checkpoint_id: int, **said: Any) -> ChainEntry:
    return ChainEntry(ChainEntryKind.CHECKPOINT, job_id, "job", checkpoint_id, "run", "nonce", 0, "", **said)


@pytest.mark.parametrize(
    ("path", "claim", "latest", "possessed"),
    [
        (None, False, False, ((), 10, ("new",))),
        (None, False, True, (("/s/1",), 4, ("old", "new"))),
        (f"{JOB}/chk-2", True, False, ((f"{JOB}/chk-2",), 10, ("new",))),
        (f"{JOB}/chk-2", False, False, ((), 10, ("new",))),
        (f"{OTHER}/chk-2", True, False, ((f"{OTHER}/chk-2",), 10, ("new",))),
        (f"{OTHER}/chk-2", False, False, ((), 10, ("new",))),
        (f"{JOB}/chk-9", True, True, (("/s/1",), 4, ("old", "new"))),
    ],
    ids=["anew", "latest of none", "own, claimed", "own", "another's, claimed", "another's", "latest"],
)
def test_job_that_goes_on_owns_what_it_owned_and_any_other_what_it_claims(
    path: str | None, claim: bool, latest: bool, possessed: tuple[tuple[str, ...], int, tuple[str, ...]]
) -> None:
    newest = record(JOB, 9, claimed=("/s/1",), begins=4, runs=("old",))
    restored: Any = None if path is None else SimpleNamespace(path=path)
    settings: Any = SimpleNamespace(claim=claim, latest=latest)
    assert ownership(newest, restored, settings, 10, "new") == Ownership(*possessed)


def test_record_names_the_last_runs_alone() -> None:
    newest = record(JOB, 9, runs=tuple(f"run {number}" for number in range(16)))
    own = ownership(newest, None, cast("Any", SimpleNamespace(claim=False, latest=True)), 10, "new")
    assert own.runs == (*(f"run {number}" for number in range(1, 16)), "new")
