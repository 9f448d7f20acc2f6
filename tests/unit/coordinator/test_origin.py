"""Whose a checkpoint is from then on that a job was started from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock._engine.coordinator.origin import possessions
from penstock._engine.protocol.metadata import Record, RecordKind

JOB, OTHER = "a" * 32, "b" * 32


def record(job_id: str, checkpoint_id: int, **said: Any) -> Record:
    return Record(RecordKind.CHECKPOINT, job_id, "job", checkpoint_id, "run", "nonce", 0, "", **said)


@pytest.mark.parametrize(
    ("job_id", "claim", "latest", "possessed"),
    [
        (JOB, True, False, (("/s/1",), (3,))),
        (JOB, False, False, (("/s/1",), (3, 2))),
        (OTHER, True, False, (("/s/1", f"{OTHER}/chk-2"), (2, 3))),
        (OTHER, False, False, (("/s/1",), (2, 3))),
        (JOB, True, True, (("/s/1",), (2, 3))),
    ],
    ids=["own, claimed", "own", "another's, claimed", "another's", "latest"],
)
def test_what_a_job_has_claimed_and_what_it_spares(
    job_id: str, claim: bool, latest: bool, possessed: tuple[tuple[str, ...], tuple[int, ...]]
) -> None:
    newest = record(JOB, 9, claimed=("/s/1",), spared=(2, 3))
    restored: Any = SimpleNamespace(record=record(job_id, 2), path=f"{job_id}/chk-2")
    settings: Any = SimpleNamespace(claim=claim, latest=latest)
    assert possessions(newest, restored, settings, JOB) == possessed


def test_what_was_claimed_is_the_users_again_once_it_is_used_without_a_claim() -> None:
    newest = record(JOB, 9, claimed=("/s/1", "/s/2"))
    restored: Any = SimpleNamespace(record=record(OTHER, 2), path="/s/1")
    settings: Any = SimpleNamespace(claim=False, latest=False)
    assert possessions(newest, restored, settings, JOB) == (("/s/2",), ())
