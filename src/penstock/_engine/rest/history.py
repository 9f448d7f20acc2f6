"""The history of jobs: what a directory of archives tells of runs that have ended, and of runs whose driver is gone.

The last run of a job is asked for by the job's id, as in Flink, and an earlier one by the id of the run.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock._engine.processes.run_notes import run_notes
from penstock._engine.protocol.clocks import now_ms
from penstock._engine.protocol.paths import is_job_directory
from penstock._engine.rest.archive import answers_of, archive
from penstock._engine.rest.archiving import EARLIER
from penstock._engine.savepoints.lost_runs import lost_run
from penstock._engine.storage.checkpoint_storage import StoredFile
from penstock._engine.storage.opening import open_storage
from penstock.common.redaction import hiding
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.processes.run_notes import RunNote

_log = hiding(logging.getLogger(__name__))

#: The archives whose answers are kept in memory.
_KEPT: Final = 8
#: A driver on another machine counts as lost after so much silence: whether its process lives is not known here.
_SILENT_MS: Final = 600_000
OVERVIEW: Final = "/jobs/overview"


@dataclass(frozen=True, slots=True)
class ArchivedRun:
    """The answers about a run that has ended, or is lost."""

    job_id: str
    answers: Mapping[str, bytes]

    @property
    def line(self) -> dict[str, Any]:
        """Its line in the list of jobs, with Penstock's own members."""
        line = msgspec.json.decode(self.answers[OVERVIEW])["jobs"][0]
        own = msgspec.json.decode(self.answers[f"/jobs/{self.job_id}"]).get("penstock")
        return line if own is None else {**line, "penstock": own}

    def answer(self, below: str, run: str) -> bytes | None:
        """Return the answer of a path below that of the job, which is asked for as `run`; None without one."""
        found = self.answers.get(f"/jobs/{self.job_id}{below}")
        if found is None or below or run == self.job_id:
            return found
        return msgspec.json.encode({**msgspec.json.decode(found), "jid": run})


class History:
    """The runs of a directory of archives; each question looks at what is there by then.

    Args:
        directory: The directory.
        options: Options of object stores.
    """

    def __init__(self, directory: str, options: Mapping[str, str]) -> None:
        self._options = options
        self._storage = open_storage(directory, options)
        self._archived = lru_cache(_KEPT)(self._load)
        self._lines: dict[StoredFile, dict[str, Any] | None] = {}
        self._known_lost: dict[tuple[RunNote, bool], ArchivedRun] = {}

    def lines(self) -> list[dict[str, Any]]:
        """Return a line for each run, the one that ended last first; raises CheckpointStorageError."""
        lines = [{**line, "jid": run} for run, (line, _) in self._runs().items()]
        return sorted(lines, key=lambda line: (-line["end-time"], line["jid"]))

    def find(self, run: str) -> ArchivedRun | None:
        """Return a run; None for an unknown id; raises CheckpointStorageError."""
        _, source = self._runs().get(run, (None, None))
        return self._archived(source) if isinstance(source, StoredFile) else source

    def _runs(self) -> dict[str, tuple[dict[str, Any], StoredFile | ArchivedRun]]:
        """Return, by id, the line of each run and where its answers are."""
        files = [file for file in self._storage.files("") if _job_of(file.path) is not None]
        self._lines = {file: self._lines[file] if file in self._lines else self._line(file) for file in files}
        runs: list[tuple[dict[str, Any], StoredFile | ArchivedRun]] = [
            (line, file) for file, line in self._lines.items() if line is not None
        ]
        runs += [(run.line, run) for run in self._lost([line for line, _ in runs])]
        runs.sort(key=lambda run: run[0]["start-time"])
        last = {line["jid"]: line for line, _ in runs}
        return {line["jid"] if last[line["jid"]] is line else _run_of(line): (line, source) for line, source in runs}

    def _line(self, file: StoredFile) -> dict[str, Any] | None:
        run = self._archived(file)
        return None if run is None else run.line

    def _load(self, file: StoredFile) -> ArchivedRun | None:
        content, job_id = self._storage.find(file.path), _job_of(file.path)
        answers = None if content is None else answers_of(content)
        if job_id is None or answers is None or not {OVERVIEW, f"/jobs/{job_id}"} <= answers.keys():
            _log.warning("%s is no archive of a job", self._storage.full_path(file.path))
            return None
        return ArchivedRun(job_id, answers)

    def _lost(self, ended: list[dict[str, Any]]) -> Iterator[ArchivedRun]:
        """Iterate the runs whose driver is gone, and has left no archive."""
        notes, archived = list(run_notes(self._storage)), {_run_of(line) for line in ended}
        for note in notes:
            if note.run_id in archived or (note.is_local and note.lives):
                continue
            starts = [other.started_ms for other in notes if other.job_id == note.job_id]
            starts += [line["start-time"] for line in ended if line["jid"] == note.job_id]
            run = self._lost_run(note, was_resumed=max(starts) > note.started_ms)
            if run is not None:
                yield run

    def _lost_run(self, note: RunNote, *, was_resumed: bool) -> ArchivedRun | None:
        """Return a lost run; None for one on another host that was heard of a short time ago."""
        known = self._known_lost.get((note, was_resumed))
        if known is not None:
            return known
        view = self._view(note, was_resumed=was_resumed)
        if view.lost is not None and not note.is_local and now_ms() - view.lost.since_ms < _SILENT_MS:
            return None
        answers = answers_of(archive(view))
        assert answers is not None
        run = ArchivedRun(note.job_id, answers)
        if note.is_local:  # its process is gone, so nothing will change
            self._known_lost[note, was_resumed] = run
        return run

    def _view(self, note: RunNote, *, was_resumed: bool) -> JobView:
        try:
            return lost_run(note, self._options, was_resumed=was_resumed)
        except CheckpointStorageError as error:
            _log.warning("What job %r has left cannot be read: %s", note.name, error)
            without = msgspec.structs.replace(note, checkpoints=None)
            return lost_run(without, self._options, was_resumed=was_resumed)


def _run_of(line: dict[str, Any]) -> str:
    return str(line.get("penstock", {}).get("run_id") or line["jid"])


def _job_of(path: str) -> str | None:
    """Return the job of an archive; None for another file.

    Example:
        >>> _job_of("0" * 32) == _job_of(f".earlier/{'0' * 32}-{'1' * 32}") == "0" * 32
        True
    """
    name = path.removeprefix(f"{EARLIER}/").partition("-")[0]
    return name if is_job_directory(name) and path in {name, f"{EARLIER}/{name}{path[-33:]}"} else None
