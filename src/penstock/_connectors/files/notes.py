"""What a file sink has published, as lines of a file in its folder (decision 97).

Users may move published files away, so a part that is neither published nor staged tells nothing by itself. A line is
added when the part has its name, and before anything that was staged of it is deleted: what is gone without a line was
never published. The line of a committed checkpoint replaces those of its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock._connectors.files.opening import filesystem_of
from penstock._connectors.files.staging import not_written, note_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._connectors.files.staging import FinishedPart

#: Stands before a checkpoint of which all parts are published, and those of the ones before. A line of a part that a
#: crash has cut is none.
_UP_TO: Final = "<="


@dataclass(frozen=True, slots=True)
class _Line:
    """What is published: of a run and a checkpoint one part, or without a name all parts up to the checkpoint."""

    run: str
    checkpoint_id: int
    part: str | None = None

    def __str__(self) -> str:
        number = self.checkpoint_id
        return f"{self.run} {_UP_TO}{number}" if self.part is None else f"{self.run} {number} {self.part}"


class PublishedNotes:
    """Adds and reads the lines.

    A part is noted under the run that has staged its last segment, in the file of that run's job. So a job that starts
    from a checkpoint of another one finds what has become of its parts, whichever has published them.

    Args:
        base_path: The sink's folder.
    """

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path.rstrip("/")
        #: The files that were written here, each as a folder and a name.
        self.files: set[tuple[str, str]] = set()
        #: By file, the runs of parts whose checkpoint has no line yet.
        self._begun: dict[tuple[str, str], set[str]] = {}

    def add(self, part: FinishedPart, checkpoint_id: int) -> None:
        """Note that a part is published; the line outlasts this process, but perhaps not a crash of the machine.

        Raises:
            SinkFileError: The file cannot be written.
        """
        bucket, _, part_name = part.target.rpartition("/")
        # A part of a sink that had another path is noted beside it.
        folder = self._base_path if f"{bucket}/".startswith(f"{self._base_path}/") else bucket
        name, run = note_of(part.segments[-1])
        path = f"{folder}/{name}"
        try:
            filesystem_of(folder).add_line(path, str(_Line(run, checkpoint_id, part_name)))
        except OSError as error:
            raise not_written(path, error) from error
        self.files.add((folder, name))
        self._begun.setdefault((folder, name), set()).add(run)

    def end(self, checkpoint_id: int) -> None:
        """Note durably that all parts of a checkpoint are published, of those runs whose parts were added.

        Raises:
            SinkFileError: A file cannot be written.
        """
        for (folder, name), runs in self._begun.items():
            path, ends = f"{folder}/{name}", [_Line(run, checkpoint_id) for run in sorted(runs)]
            try:
                filesystem_of(folder).change_lines(path, partial(_with_ends, ends))
            except OSError as error:
                raise not_written(path, error) from error
        self._begun.clear()

    def tells(self, part: FinishedPart, checkpoint_id: int) -> bool | None:
        """Tell whether a part of a checkpoint was published; None where nothing of its run is noted."""
        bucket, _, part_name = part.target.rpartition("/")
        name, run = note_of(part.segments[-1])
        filesystem = filesystem_of(bucket)
        # The sink may have another path now, and has noted the part in any folder above.
        files = (filesystem.lines_of(f"{folder}/{name}") for folder in filesystem.folders_above(bucket))
        found = [line for lines in files for line in _parsed(lines) if line.run == run]
        if not found:
            return None
        return any(
            line.checkpoint_id >= checkpoint_id if line.part is None else line.part == part_name for line in found
        )


def line_of(part: FinishedPart, checkpoint_id: int) -> tuple[str, str]:
    """Return the file, and the line that says that all parts of a part's run are published up to a checkpoint."""
    name, run = note_of(part.segments[-1])
    return name, str(_Line(run, checkpoint_id))


def runs_of(lines: Iterable[str]) -> set[str]:
    """Return the runs of which anything is published."""
    return {line.run for line in _parsed(lines)}


def _parsed(lines: Iterable[str]) -> list[_Line]:
    """Return what lines say; what a crash has left says nothing."""
    found: list[_Line] = []
    for line in lines:
        match line.split(" ", 2):
            case [run, number, part] if number.isdecimal():
                found.append(_Line(run, int(number), part))
            case [run, number] if number.startswith(_UP_TO) and number.removeprefix(_UP_TO).isdecimal():
                found.append(_Line(run, int(number.removeprefix(_UP_TO))))
            case _:
                pass
    return found


def _with_ends(ends: list[_Line], lines: list[str]) -> list[str]:
    return [*map(str, _shortened([*_parsed(lines), *ends]))]


def _shortened(lines: list[_Line]) -> list[_Line]:
    """Return one line for each run, and those of parts of later checkpoints, which are not published as a whole."""
    newest: dict[str, int] = {}
    for line in lines:
        if line.part is None:
            newest[line.run] = max(line.checkpoint_id, newest.get(line.run, 0))
    later = (line for line in lines if line.part is not None and line.checkpoint_id > newest.get(line.run, 0))
    return [*(_Line(run, number) for run, number in newest.items()), *dict.fromkeys(later)]
