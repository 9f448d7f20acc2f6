"""What the driver can know of a job that cannot run, it says before Spark takes its seconds to start."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine import launch
from penstock._engine.spark import session
from penstock.common.configuration import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import (
    CheckpointStorageError,
    ConfigurationError,
    NoCheckpointError,
    PathError,
    PenstockError,
    UnsupportedOperationError,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start() -> Any:
        raise AssertionError("Spark was to be started")

    monkeypatch.setattr(session, "get_session", start)
    monkeypatch.setattr(launch, "_servers", [])


def refusal(settings: dict[str, str], *, reads: str | None = None) -> PenstockError:
    configuration = Configuration.from_dict({"penstock.rest.enabled": "true", "rest.port": "0", **settings})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    (env.from_collection([1]) if reads is None else env.read_text_file(reads)).print()
    with pytest.raises(PenstockError) as caught:
        env.execute()
    return caught.value


def test_latest_without_a_checkpoint_directory_is_refused_with_the_key_to_set() -> None:
    error = refusal({"execution.state-recovery.path": "latest"})
    assert isinstance(error, ConfigurationError)
    assert error.key == "execution.state-recovery.path"
    assert "execution.checkpointing.dir is not set" in str(error)


def test_a_path_without_a_savepoint_is_refused_with_those_in_it_or_beside_it(tmp_path: Path) -> None:
    for name in ("savepoint-0123ab-000000000001", "savepoint-ffffff-000000000002", "notes"):
        (tmp_path / "all" / name).mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    mistyped, both = (
        tmp_path / "all" / "savepoint-0123ab-000000000007",
        "savepoint-0123ab-000000000001, savepoint-ffffff",
    )
    for path, said in (
        (mistyped, f"no checkpoint metadata at that path; beside it are {both}-000000000002. Set"),
        (mistyped / "_metadata", f"beside it are {both}"),
        (tmp_path / "all", "at that path; in it are savepoint-ffffff-000000000002, savepoint-0123ab-000000000001. Set"),
        (tmp_path / "empty" / "chk-7", "no checkpoint metadata at that path. Set"),
        (tmp_path / "not" / "there", "no checkpoint metadata at that path. Set"),
    ):
        error = refusal({"execution.state-recovery.path": str(path)})
        assert isinstance(error, NoCheckpointError)
        assert said in str(error), path
        assert str(error).startswith(f"No checkpoint of job 'Flink Streaming Job' to start from in {tmp_path}")


def test_a_directory_and_an_input_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = refusal({"execution.checkpointing.dir": str(tmp_path / "file")})
    assert isinstance(error, CheckpointStorageError)
    error = refusal({}, reads=str(tmp_path / "mistyped.txt"))
    assert isinstance(error, PathError)
    assert "mistyped.txt" in str(error)
    assert "and nothing is there" in str(error)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_port_that_was_set_and_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for key in ("rest.port", "rest.bind-port"):
            error = refusal({key: port})
            assert isinstance(error, ConfigurationError)
            assert (error.key, error.value) == (key, port)


def test_the_uid_of_a_source_that_is_not_there_is_refused() -> None:
    assert "penstock.restart-finished-sources" in str(refusal({"penstock.restart-finished-sources": "orders"}))


@pytest.mark.behaviour(154)
@pytest.mark.parametrize("recovered", [True, False])
def test_a_second_job_beside_a_batch_job_with_recovery_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recovered: bool
) -> None:
    monkeypatch.setattr(launch, "_started", [recovered])
    own = {
        "execution.batch.job-recovery.enabled": str(not recovered).lower(),
        "execution.runtime-mode": "BATCH",
        "execution.checkpointing.dir": str(tmp_path),
    }
    error = refusal(own)
    assert isinstance(error, UnsupportedOperationError)
    assert "execution.batch.job-recovery.enabled" in str(error)
