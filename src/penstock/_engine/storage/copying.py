"""Copies many files from one storage to another, several at a time because most of the time is waiting."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock._engine.storage.checkpoint_storage import FileStorage

#: The number of files that are copied at the same time.
_THREADS: Final = 8


def copy_files(
    source: FileStorage,
    target: FileStorage,
    files: Iterable[tuple[str, str]],
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Copy files, each from its path in one storage to its name in the other; all of them are durable on return.

    Args:
        source: Has them.
        target: Gets them.
        files: Paths there and names here.
        sizes: By path: the bytes that a file is to have. It is not copied when it has more or fewer.

    Raises:
        CorruptCheckpointError: A file is gone, or has another size.
        CheckpointStorageError: A storage cannot be used. Files that were copied before stay.
    """
    waiting = list(files)
    copying = _Copying(source, target, iter(waiting), sizes or {})
    # Daemons, as all threads of a driver: a program that ends does not wait for a store that hangs.
    threads = [threading.Thread(target=copying.run, daemon=True) for _ in range(min(_THREADS, len(waiting)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if copying.error is not None:
        raise copying.error


class _Copying:
    """The state that the threads of one copy share."""

    def __init__(
        self,
        source: FileStorage,
        target: FileStorage,
        files: Iterator[tuple[str, str]],
        sizes: Mapping[str, int],
    ) -> None:
        self._sizes = sizes
        self._source = source
        self._target = target
        self._files = files
        self._lock = threading.Lock()
        self.error: Exception | None = None

    def run(self) -> None:
        while (file := self._next()) is not None:
            try:
                self._target.copy_from(self._source, *file, size=self._sizes.get(file[0]))
            except Exception as error:  # noqa: BLE001 - whatever the store raises, the caller of copy_files gets it
                with self._lock:
                    self.error = self.error or error

    def _next(self) -> tuple[str, str] | None:
        with self._lock:
            return None if self.error is not None else next(self._files, None)
