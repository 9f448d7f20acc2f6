"""The files in which a sort keeps what exceeds its memory, and the base of operators that sort."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from abc import abstractmethod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from penstock._engine.operators.batch import watermark_only
from penstock._engine.operators.user_functions import UserFunctionOperator
from penstock._engine.protocol.rows import MAX_WATERMARK
from penstock.common.configuration import Configuration
from penstock.errors import LocalStateError, SortSpillError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from penstock._engine.operators.base import OperatorContext, Output
    from penstock.common.config_options import ConfigOption

#: The number of runs beyond which they are merged into one, because each is an open file.
MOST_RUNS: Final = 64


class SpillFiles:
    """The runs of a sort: files without a name, so that the system frees their room however the process ends.

    Args:
        directory: The directory in which the sort makes a separate one, which `close` deletes. Sorts that share one
            would delete it under each other: files without a name do not keep it.
        most_runs: The number of runs at which they are merged into one.

    Raises:
        SortSpillError: The directory cannot be made or written to.
    """

    def __init__(self, directory: Path, most_runs: int = MOST_RUNS) -> None:
        self._directory, self._most_runs = directory, most_runs
        self.runs: list[IO[bytes]] = []
        with self.naming():  # a missing disk is reported before the input is read
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._directory = Path(tempfile.mkdtemp(prefix="sort-", dir=directory))
            with tempfile.TemporaryFile(dir=self._directory) as probe:
                probe.write(b"1")

    def new(self) -> IO[bytes]:
        """Return the file of one more run."""
        file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - it is read later
        self.runs.append(file)
        return file

    def merge_many(self, merge: Callable[[list[IO[bytes]]], None]) -> None:
        """Replace the runs by one if there are too many.

        Args:
            merge: Writes given runs as a new one.
        """
        if len(self.runs) >= self._most_runs:
            merged, self.runs = self.runs, []
            try:
                merge(merged)
            finally:
                _close(merged)

    def close(self) -> None:
        """Delete the runs and their directory."""
        self.close_files()
        with contextlib.suppress(OSError):
            self._directory.rmdir()

    def close_files(self) -> None:
        """Close the files of the runs, which deletes them."""
        runs, self.runs = self.runs, []
        _close(runs)

    @contextlib.contextmanager
    def naming(self) -> Generator[None]:
        """Name the directory in the errors of the system about it."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            with contextlib.suppress(OSError):
                reason += f", and its disk has {shutil.disk_usage(self._directory).free} bytes left"
            raise SortSpillError(str(self._directory), reason) from error


class PartitionSorter(UserFunctionOperator):
    """The base of operators that sort a partition, and emit it at the end of the input."""

    #: The option of its memory.
    memory: ConfigOption[int]
    sorter: Any = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        memory_bytes = Configuration.from_dict(context.configuration).get(self.memory)
        self.sorter = self.new_sorter(memory_bytes, sort_directory(context))

    @abstractmethod
    def new_sorter(self, memory_bytes: int, directory: Path) -> Any:
        """Return what sorts; it has a method `close`."""

    @abstractmethod
    def in_order(self) -> Iterable[Output]:
        """Iterate all records in their order."""

    def end_input(self, input_index: int) -> Iterator[Output]:
        self.iterate([])
        yield from self.in_order()
        yield None, watermark_only(MAX_WATERMARK)
        yield from super().end_input(input_index)

    def close(self) -> None:
        try:
            super().close()
        finally:
            if self.sorter is not None:
                self.sorter.close()


def sort_directory(context: OperatorContext) -> Path:
    """Return the directory in which an operator's sorts make theirs.

    Raises:
        SortSpillError: The local directory of the run cannot be made.
    """
    try:
        return context.local_directory()
    except LocalStateError as error:
        raise SortSpillError(error.path, error.reason) from error


def _close(files: Iterable[IO[bytes]]) -> None:
    for file in files:
        with contextlib.suppress(OSError):  # what is not written yet may have no room
            file.close()
