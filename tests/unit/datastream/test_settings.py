"""Settings of an environment that stand for keys: backends, storages, restarts, and what is brought to the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, RestartStrategies
from penstock.common.process import available_cores
from penstock.common.task_options import (
    CACHED_FILES,
    LOCAL_SLOTS,
    PYTHON_ARCHIVES,
    PYTHON_EXECUTABLE,
    PYTHON_FILES,
    PYTHON_REQUIREMENTS,
)
from penstock.datastream import (
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    PredefinedOptions,
    StreamExecutionEnvironment,
)
from penstock.errors import ConfigurationError, PathError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "helpers.py"
    path.write_text("")
    return path


def test_state_backend_is_given_back_and_becomes_its_key(env: StreamExecutionEnvironment) -> None:
    assert env.get_state_backend() is None
    backend = EmbeddedRocksDBStateBackend(enable_incremental_checkpointing=True)
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_db_storage_paths("/a", "/b")
    assert env.set_state_backend(backend) is env
    assert env.get_state_backend() is backend
    assert env._configuration.get_string("state.backend.type", "") == "rocksdb"
    assert backend.is_incremental_checkpoints_enabled()
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert HashMapStateBackend() == HashMapStateBackend() != backend
    with pytest.raises(TypeError, match="must be a StateBackend"):
        env.set_state_backend("rocksdb")  # type: ignore[arg-type]


def test_restart_strategy_is_given_back_and_becomes_its_keys(env: StreamExecutionEnvironment) -> None:
    strategy = RestartStrategies.fixed_delay_restart(7, 500)
    assert env.set_restart_strategy(strategy) is env
    assert env.get_restart_strategy() is strategy
    assert env._configuration.get_string("restart-strategy.fixed-delay.attempts", "") == "7"
    with pytest.raises(TypeError, match="RestartStrategies"):
        env.set_restart_strategy("none")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("storage", "keys"),
    [
        (FileSystemCheckpointStorage("file:///data/c"), {"execution.checkpointing.dir": "/data/c"}),
        (JobManagerCheckpointStorage("/data/c", 7), {"execution.checkpointing.dir": "/data/c"}),
        (JobManagerCheckpointStorage(), {}),
    ],
)
def test_checkpoint_storage_becomes_its_keys(
    env: StreamExecutionEnvironment,
    storage: FileSystemCheckpointStorage | JobManagerCheckpointStorage,
    keys: dict[str, str],
) -> None:
    config = env.get_checkpoint_config().set_checkpoint_storage(storage)
    assert {key: env._configuration.get_string(key, "") for key in keys} == keys
    found = config.get_checkpoint_storage()
    assert (None if found is None else found.get_checkpoint_path()) == storage.get_checkpoint_path()  # type: ignore[attr-defined]


@pytest.mark.parametrize("storage", [FileSystemCheckpointStorage, JobManagerCheckpointStorage])
def test_checkpoint_storage_that_no_job_can_use_is_made_and_refused_where_it_is_set(
    env: StreamExecutionEnvironment, storage: type[Any]
) -> None:
    made = storage("file://var/checkpoints/")
    assert made.get_checkpoint_path() == "file://var/checkpoints"
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir .* names the host 'var'"):
        env.get_checkpoint_config().set_checkpoint_storage(made)


def test_threshold_of_a_checkpoint_storage_is_the_key_of_inline_state(env: StreamExecutionEnvironment) -> None:
    config = env.get_checkpoint_config()
    config.set_checkpoint_storage(FileSystemCheckpointStorage("s3://bucket/c", 4096))
    found = config.get_checkpoint_storage()
    assert isinstance(found, FileSystemCheckpointStorage)
    assert (found.get_min_file_size_threshold(), found.get_write_buffer_size()) == (4096, 4096)
    assert config.set_checkpoint_storage_dir("/else").get_checkpoint_storage().get_checkpoint_path() == "/else"  # type: ignore[union-attr]


def test_local_parallelism_is_the_number_of_cores_until_it_is_set(env: StreamExecutionEnvironment) -> None:
    assert env.get_default_local_parallelism() == available_cores()
    env.set_default_local_parallelism(3)
    assert env.get_default_local_parallelism() == env._configuration.get(LOCAL_SLOTS) == 3
    with pytest.raises(ConfigurationError, match=r"penstock\.local\.slots cannot be '0'"):
        env.set_default_local_parallelism(0)


def test_what_is_brought_is_kept_by_its_absolute_path(env: StreamExecutionEnvironment, module: Path) -> None:
    env.add_python_file("helpers.py")
    env.add_python_file(str(module.parent))
    env.add_python_archive("helpers.py")
    env.add_python_archive("helpers.py", "data")
    env.set_python_requirements("helpers.py", ".")
    env.set_python_executable("python3.12")
    env.register_cached_file("helpers.py", "model")
    env.register_cached_file("helpers.py", "tool", executable=True)
    get = env._configuration.get
    assert get(PYTHON_FILES) == (str(module), str(module.parent))
    assert get(PYTHON_ARCHIVES) == (str(module), f"{module}#data")
    assert get(PYTHON_REQUIREMENTS) == (f"{module}#{module.parent}",)
    assert get(PYTHON_EXECUTABLE) == "python3.12"
    assert get(CACHED_FILES) == (
        f"name:model,path:{module},executable:false",
        f"name:tool,path:{module},executable:true",
    )


def test_python_files_of_a_configuration_have_commas_between_them_as_in_flink(module: Path) -> None:
    configuration = Configuration().set_string("python.files", f"helpers.py, {module}")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    assert env._configuration.get(PYTHON_FILES) == (str(module), str(module))


REFUSED: list[Callable[[StreamExecutionEnvironment], object]] = [
    lambda env: env.add_python_file("absent.py"),
    lambda env: env.add_python_archive("absent.zip"),
    lambda env: env.add_python_archive("helpers.py", "/etc"),
    lambda env: env.add_python_archive("helpers.py", "a/../../b"),
    lambda env: env.set_python_requirements("absent.txt"),
    lambda env: env.set_python_requirements("helpers.py", "absent"),
    lambda env: env.register_cached_file("absent", "a"),
    lambda env: env.register_cached_file("helpers.py", "a/b"),
    lambda env: env.register_cached_file("helpers.py", ".."),
    lambda env: env.add_python_file("s3://bucket/helpers.py"),
]


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_brought_is_refused_at_the_call(
    env: StreamExecutionEnvironment, call: Callable[[StreamExecutionEnvironment], object]
) -> None:
    with pytest.raises(PathError):
        call(env)
