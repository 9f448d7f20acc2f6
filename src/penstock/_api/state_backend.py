"""State backends (``pyflink.datastream.state_backend``): accepted, with the effect that they can have here.

Keyed state is always kept in LMDB on the local disk of the tasks, whose memory ``penstock.state.memory`` limits, and
checkpoints always hold what changed. A program can name Flink's backends; the log says once that there is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import ClassVar

from penstock._shelf import show
from penstock.common.configuration import Configuration

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "PredefinedOptions", "StateBackend"]


class StateBackend(ABC):
    """The store of keyed state of a running job; backends of one kind with equal settings are equal."""

    #: The value of ``state.backend.type`` that stands for it.
    kind: ClassVar[str]

    def to_configuration(self) -> Configuration:
        """Return the backend as keys of the configuration."""
        return Configuration().set_string("state.backend.type", self.kind)

    @abstractmethod
    def __str__(self) -> str: ...

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self).__name__)


class HashMapStateBackend(StateBackend):
    """State as objects in memory; here it is kept on the local disk as well.

    Source: org.apache.flink.runtime.state.hashmap.HashMapStateBackend.

    Example:
        >>> from penstock.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_state_backend(HashMapStateBackend())
        >>> str(env.get_state_backend())
        'HashMapStateBackend'
    """

    kind = "hashmap"

    def __str__(self) -> str:
        return "HashMapStateBackend"


class PredefinedOptions(Enum):
    """Settings of RocksDB for kinds of disks; without effect, there is no RocksDB here.

    Source: org.apache.flink.state.rocksdb.PredefinedOptions.
    """

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """State on the local disk, which may be larger than memory: what Penstock always does, with LMDB.

    The settings can be read back, and have no effect.

    Source: org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend.

    Args:
        enable_incremental_checkpointing: Whether checkpoints hold what changed only; here they always do.
    """

    kind = "rocksdb"

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] | None = None
        self._predefined = PredefinedOptions.DEFAULT
        self._factory: str | None = None
        self._threads = 4

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Return what was asked for."""
        return bool(self._incremental)

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the directories of RocksDB; without effect, SPARK_LOCAL_DIRS says where state is kept."""
        self._paths = list(paths) or None

    def get_db_storage_paths(self) -> list[str] | None:
        """Return what was set."""
        return None if self._paths is None else list(self._paths)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Set settings for a kind of disk; without effect."""
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Return what was set."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Name a Java class that makes settings; without effect."""
        self._factory = options_factory_class_name

    def get_options(self) -> str | None:
        """Return the name of the Java class that was set."""
        return self._factory

    def get_number_of_transfer_threads(self) -> int:
        """Return what was set."""
        return self._threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Set the threads that move files of RocksDB; without effect."""
        self._threads = number_of_transfering_threads

    def __str__(self) -> str:
        return "EmbeddedRocksDBStateBackend"


#: What a program can name, by the value of its key.
BACKENDS = {one.kind: one for one in (HashMapStateBackend, EmbeddedRocksDBStateBackend)}

show(
    "penstock.datastream.state_backend",
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)
