"""What the driver can know of a job that cannot run, it says before Spark takes its seconds to start."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine import launch
from penstock._engine.spark import session
from penstock.common.configuration import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ConfigurationError, JobGraphError, UnsupportedOperationError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start() -> Any:
        raise AssertionError("Spark was to be started")

    monkeypatch.setattr(session, "get_session", start)
    monkeypatch.setattr(launch, "_servers", [])


def refusal(settings: dict[str, str]) -> JobGraphError:
    configuration = Configuration.from_dict({"penstock.rest.enabled": "true", "rest.port": "0", **settings})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).print()
    with pytest.raises(JobGraphError) as caught:
        env.execute()
    return caught.value


def test_latest_without_a_checkpoint_directory_is_refused_with_the_key_to_set() -> None:
    error = refusal({"execution.state-recovery.path": "latest"})
    assert isinstance(error, ConfigurationError)
    assert error.key == "execution.state-recovery.path"
    assert "set execution.checkpointing.dir to it" in str(error)


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
