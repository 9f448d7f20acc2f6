"""The settings of an environment: methods that read and write keys of one configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._api.checkpoint_config import CheckpointConfig
from penstock._api.execution_mode import RuntimeExecutionMode
from penstock._api.slot_sharing_group import SLOTS_ARE_TASKS
from penstock._api.state_backend import StateBackend
from penstock.common import option_table
from penstock.common.arguments import instance
from penstock.common.config_check import say_if_without_effect, say_without_effect
from penstock.common.config_loading import effective_configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.common.process import available_cores
from penstock.common.restart_strategy import RestartStrategyConfiguration
from penstock.common.task_options import LOCAL_SLOTS
from penstock.common.time import Duration

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from penstock._api.checkpointing_mode import CheckpointingMode
    from penstock._api.slot_sharing_group import SlotSharingGroup
    from penstock.common.config_options import ConfigOption
    from penstock.common.configuration import Configuration


class EnvironmentSettings:
    """The settings of an environment."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._backend: StateBackend | None = None
        self._restart_strategy: RestartStrategyConfiguration | None = None

    # ------------------------------------------------------------------------------------------------------ settings

    def get_config(self) -> ExecutionConfig:
        """Return the execution settings; setting one there sets it here."""
        return ExecutionConfig(self._configuration)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the checkpoint settings; setting one there sets it here."""
        return CheckpointConfig(self._configuration)

    def get_parallelism(self) -> int:
        """Return the default number of subtasks of an operator."""
        return self.get_config().get_parallelism()

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the default number of subtasks of an operator.

        Raises:
            ConfigurationError: It is not a positive number.
        """
        self.get_config().set_parallelism(parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1 when it is derived from each operator's parallelism."""
        return self.get_config().get_max_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups: the largest parallelism that the job's state can ever be used with.

        Raises:
            ConfigurationError: It is not between 1 and 32768.
        """
        self.get_config().set_max_parallelism(max_parallelism)
        return self

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Set whether jobs run as streams or as batches.

        Raises:
            TypeError: It is no RuntimeExecutionMode.
        """
        if not isinstance(execution_mode, RuntimeExecutionMode):  # pyright: ignore[reportUnnecessaryIsInstance]
            wanted = "a RuntimeExecutionMode, such as RuntimeExecutionMode.BATCH"
            msg = f"execution_mode must be {wanted}, not {execution_mode!r}."
            raise TypeError(msg)
        return self._set(option_table.RUNTIME_MODE, execution_mode.name)

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Take checkpoints while the job runs, so that it can continue after a failure.

        Args:
            interval: Milliseconds between two checkpoints, at least 10.
            mode: The guarantee after a failure; every checkpoint is exactly once.

        Raises:
            ConfigurationError: The interval is too short.
        """
        config = self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the milliseconds between two checkpoints; -1 when none are taken."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode that was asked for; every checkpoint is exactly once."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the mode that was asked for; every checkpoint is exactly once."""
        return self.get_checkpointing_mode()

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Set the directory of savepoints for requests that name none."""
        return self._set(option_table.SAVEPOINT_DIRECTORY, directory)

    def get_default_savepoint_directory(self) -> str | None:
        """Return the directory of savepoints for requests that name none; None if it was not set."""
        return self._configuration.get(option_table.SAVEPOINT_DIRECTORY)

    def disable_operator_chaining(self) -> Self:
        """Run every operator as a vertex of its own; results stay the same."""
        return self._set(option_table.OPERATOR_CHAINING, False)

    def is_chaining_enabled(self) -> bool:
        """Tell whether operators may run together as one vertex."""
        return self._configuration.get(option_table.OPERATOR_CHAINING)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Tell whether operators with different numbers of key groups may run together as one vertex."""
        return self._configuration.get(option_table.CHAIN_DIFFERENT_MAX_PARALLELISM)

    # ----------------------------------------------------------------------------------- settings without effect here

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return what was asked for; there are no barriers that records could hold up."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return what was asked for; there are no barriers that records could hold up."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Have changes of state written as they happen; without effect, checkpoints always hold what changed."""
        return self._set(option_table.STATE_CHANGELOG, enabled)

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return the setting, None until it is set; checkpoints are always incremental."""
        return self._configuration.get(option_table.STATE_CHANGELOG)

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Set the longest time that a network buffer waits; without effect, there are none."""
        return self._set(option_table.BUFFER_TIMEOUT, Duration.of_millis(timeout_millis))

    def get_buffer_timeout(self) -> int:
        """Return the setting, in milliseconds."""
        return self._configuration.get(option_table.BUFFER_TIMEOUT).to_millis()

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Accept a group of operators that may share a slot; without effect, Spark's tasks are the slots."""
        say_without_effect("register_slot_sharing_group", SLOTS_ARE_TASKS)
        del slot_sharing_group
        return self

    def add_jars(self, *jars_path: str) -> None:
        """Accept jars; without effect, connectors are written in Python and nothing runs Java code of Flink's."""
        self._extend(option_table.OPTIONS["pipeline.jars"], jars_path)

    def add_classpaths(self, *classpaths: str) -> None:
        """Accept class paths; without effect, nothing here runs Java code of Flink's."""
        self._extend(option_table.OPTIONS["pipeline.classpaths"], classpaths)

    # ------------------------------------------------------------------------------------ objects that stand for keys

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Accept a state backend; without effect, there is one: LMDB on the local disk.

        Raises:
            TypeError: It is no StateBackend.
        """
        self._backend = instance("state_backend", state_backend, StateBackend)
        return self._take(state_backend.to_configuration())

    def get_state_backend(self) -> StateBackend | None:
        """Return the state backend that was set; None when none was."""
        return self._backend

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> Self:
        """Set when a failed job starts again.

        Raises:
            TypeError: It is no RestartStrategyConfiguration.
        """
        if not isinstance(restart_strategy_configuration, RestartStrategyConfiguration):  # pyright: ignore[reportUnnecessaryIsInstance]
            msg = f"A restart strategy is made by RestartStrategies, not {restart_strategy_configuration!r}."
            raise TypeError(msg)
        self._restart_strategy = restart_strategy_configuration
        return self._take(restart_strategy_configuration.to_configuration())

    def get_restart_strategy(self) -> RestartStrategyConfiguration | None:
        """Return the restart strategy that was set; None when none was."""
        return self._restart_strategy

    def get_default_local_parallelism(self) -> int:
        """Return how many tasks run at the same time in a Spark session that Penstock starts: the cores by default."""
        slots = self._configuration.get(LOCAL_SLOTS)
        return available_cores() if slots is None else slots

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set how many tasks run at the same time in a Spark session that Penstock starts.

        A session that runs keeps its number.

        Raises:
            ConfigurationError: It is not a positive number.
        """
        self._set(LOCAL_SLOTS, parallelism)

    # ----------------------------------------------------------------------------------------------------- machinery

    def _set(self, option: ConfigOption[Any], value: object) -> Self:
        self._configuration.set(option, value)
        say_if_without_effect(option, self._configuration.get(option))
        return self

    def _take(self, keys: Configuration) -> Self:
        """Take over keys, and say which ones have no effect."""
        self._configuration.add_all(effective_configuration(keys, None, {}))
        return self

    def _extend(self, option: ConfigOption[Any], more: Iterable[str]) -> None:
        """Add to the texts of a list."""
        self._set(option, (*(self._configuration.get(option) or ()), *more))
