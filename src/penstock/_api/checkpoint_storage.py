"""Where checkpoints are kept, as objects (``pyflink.datastream.checkpoint_storage``).

PyFlink 2 kept these classes, though its environments take only ``execution.checkpointing.dir``. Here each one knows its
keys, and ``CheckpointConfig.set_checkpoint_storage`` takes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock._shelf import show
from penstock.common import option_table
from penstock.common.configuration import Configuration
from penstock.common.paths import absolute_path
from penstock.errors import PathError

__all__ = ["CheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]


class CheckpointStorage(ABC):
    """Where checkpoints are kept."""

    @abstractmethod
    def to_configuration(self) -> Configuration:
        """Return the storage as keys of the configuration."""


class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints in a directory or an object store.

    Source: org.apache.flink.runtime.state.storage.FileSystemCheckpointStorage.

    Args:
        checkpoint_path: The path or URL.
        file_state_size_threshold: State up to this number of bytes is stored in the checkpoint's metadata.
        write_buffer_size: The size of the write buffer in bytes; without effect.

    Example:
        >>> print(FileSystemCheckpointStorage("file:///data/checkpoints", 4096).to_configuration())
        {execution.checkpointing.dir=/data/checkpoints, execution.checkpointing.data-inline-threshold=4 kb}
    """

    #: The largest threshold that Flink takes, in bytes.
    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self, checkpoint_path: str, file_state_size_threshold: int | None = None, write_buffer_size: int | None = -1
    ) -> None:
        self._path = _normal_form(checkpoint_path)
        self._threshold, self._buffer = file_state_size_threshold, write_buffer_size

    def get_checkpoint_path(self) -> str:
        """Return where checkpoints are kept."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """Return None: the environment has the default directory of savepoints."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Return the size in bytes up to which state is stored in the checkpoint's metadata."""
        default = option_table.CHECKPOINT_INLINE_THRESHOLD.default
        return default if self._threshold is None else self._threshold

    def get_write_buffer_size(self) -> int:
        """Return what was set, at least the threshold."""
        return max(self._buffer or -1, self.get_min_file_size_threshold())

    def to_configuration(self) -> Configuration:
        """Return the storage as keys of the configuration."""
        keys = Configuration().set(option_table.CHECKPOINT_DIRECTORY, self._path)
        if self._threshold is not None:
            keys.set(option_table.CHECKPOINT_INLINE_THRESHOLD, self._threshold)
        return keys

    def __str__(self) -> str:
        return f"FileSystemCheckpointStorage ({self._path})"


class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints in the memory of Flink's job manager; here in a temporary directory of the driver's machine.

    They end with the job in both cases.

    Source: org.apache.flink.runtime.state.storage.JobManagerCheckpointStorage.

    Args:
        checkpoint_path: Where the metadata of checkpoints is kept, and here all of them.
        max_state_size: The most bytes of one state; without effect, files have no such limit.
    """

    #: The most bytes of one state in Flink.
    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._path = None if checkpoint_path is None else _normal_form(checkpoint_path)
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size

    def get_checkpoint_path(self) -> str | None:
        """Return where checkpoints are kept; None for a temporary directory."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """Return None: the environment has the default directory of savepoints."""
        return None

    def get_max_state_size(self) -> int:
        """Return what was set."""
        return self._max_state_size

    def to_configuration(self) -> Configuration:
        """Return the storage as keys of the configuration."""
        keys = Configuration()
        return keys if self._path is None else keys.set(option_table.CHECKPOINT_DIRECTORY, self._path)

    def __str__(self) -> str:
        return f"JobManagerCheckpointStorage ({self._path or 'a temporary directory'})"


def _normal_form(path: str) -> str:
    """Return the normal form of a path; one that no job can use stays as it is, and fails where a job is to use it."""
    try:
        return absolute_path(path)
    except PathError:
        return path.rstrip("/")


show(
    "penstock.datastream.checkpoint_storage",
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
