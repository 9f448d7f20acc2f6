"""The names in a checkpoint directory; all paths are relative to it.

``<job id>/chk-7/_metadata`` is one entry of a job's chain, ``<job id>/shared/`` has its files of keyed state and large
acks, which never change, and ``<job id>/blobs/<run id>`` a job program that is too large for a dispatch; beside it lie
the dispatches of a wide epoch while that runs, as ``<run id>-<checkpoint>-<attempt>``. ``.mark`` is a random name of
the directory itself, and ``.starts/<name>/3`` says which job was the third of its name to be started.
``<job id>/results/`` has the stored results of a batch job's stages while the job runs; with recovery, beside it
``finished/`` has what tasks say of finished subtasks, and ``events/`` the log from which another driver goes on.
``<job id>/staged/`` has what sinks' writers have staged for their committers.
``_claim-1`` beside the metadata of a checkpoint or savepoint says which job has claimed it, ``_stopped`` beside that of
a savepoint which job was stopped into it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final
from urllib.parse import quote

METADATA: Final = "_metadata"
#: The entry of a savepoint that a job stops into, until the commit point of the stop.
STAGED_METADATA: Final = "_metadata.staged"
#: The file of a savepoint with the job that was stopped into it.
WAITING: Final = "_stopped"
#: The file of a checkpoint directory whose content makes its job ids differ from those in other directories.
MARK: Final = ".mark"

#: The directory with the order in which jobs of one name were started.
START_ORDER: Final = ".starts"

_CLAIM: Final = re.compile(r"_claim-([1-9]\d*)")
_CHECKPOINT: Final = re.compile(r"chk-([1-9]\d*)")
_JOB: Final = re.compile(r"[0-9a-f]{32}")
_SHARED: Final = re.compile(r"-(\d+)-[0-9a-f]{16}(\.[a-z0-9]+)?\Z")
_LONGEST_UID: Final = 80


def is_job_directory(name: str) -> bool:
    """Return whether a name is the name of a job's directory."""
    return _JOB.fullmatch(name) is not None


def is_mark(text: str) -> bool:
    """Return whether a text is a complete mark of a checkpoint directory, the only line of the file `MARK`."""
    return _JOB.fullmatch(text) is not None


def job_id_of_name(job_name: str, mark: str) -> str:
    """Return the id of the first job with a name in a checkpoint directory.

    Args:
        job_name: The name.
        mark: The mark of the directory, which stays when the directory is moved.
    """
    return hashlib.sha256(f"{mark}\n{job_name}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def start_order_directory(job_name: str) -> str:
    """Return the directory with the order in which jobs with a name were started."""
    return f"{START_ORDER}/{hashlib.sha256(job_name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def checkpoint_path(job_id: str, checkpoint_id: int) -> str:
    """Return the directory of a checkpoint, which a user names to restore it."""
    return f"{job_id}/chk-{checkpoint_id}"


def metadata_path(job_id: str, checkpoint_id: int) -> str:
    """Return the file of an entry."""
    return f"{checkpoint_path(job_id, checkpoint_id)}/{METADATA}"


def claim_file(path: str, number: int) -> str:
    """Return the file that names the n-th job that claimed the checkpoint or savepoint at a path."""
    return f"{path}/_claim-{number}"


def number_of_claim(name: str) -> int | None:
    """Return the number of the file of `claim_file`, None for any other name."""
    match = _CLAIM.fullmatch(name)
    return int(match.group(1)) if match else None


def checkpoint_ids(names: list[str]) -> tuple[int, ...]:
    """Return the ids of the checkpoint directories among some names, in ascending order."""
    found = (_CHECKPOINT.fullmatch(name) for name in names)
    return tuple(sorted(int(match.group(1)) for match in found if match))


def shared_directory(job_id: str) -> str:
    """Return the directory of the job's state files and large acks."""
    return f"{job_id}/shared"


def shared_path(job_id: str, uid: str, subtask: int, checkpoint_id: int, token: int, *, suffix: str = "") -> str:
    """Return the name of a file of one attempt, so that files of lost attempts are known by their names.

    Args:
        job_id: The job.
        uid: The operator.
        subtask: Its subtask.
        checkpoint_id: The checkpoint that the attempt is for.
        token: The attempt.
        suffix: Distinguishes files of one operator and attempt, such as ".out"; lower case letters and digits.

    Example:
        >>> shared_path("0" * 32, "windows", 1, 7, 255)
        '00000000000000000000000000000000/shared/windows-1-7-00000000000000ff'
    """
    name = quote(uid, safe="")
    if len(name) > _LONGEST_UID:
        name = f"{name[: _LONGEST_UID - 17]}~{hashlib.sha256(uid.encode()).hexdigest()[:16]}"
    return f"{shared_directory(job_id)}/{name}-{subtask}-{checkpoint_id}-{_in_name(token)}{suffix}"


def copy_path(job_id: str, path: str, checkpoint_id: int) -> str:
    """Return the name of a copy of a state file: that of the file, which errors show, and the checkpoint it is for.

    Args:
        job_id: The job that the copy belongs to.
        path: The file, which may be a copy itself.
        checkpoint_id: The first checkpoint that may name the copy.

    Example:
        >>> copy = copy_path("0" * 32, "savepoint/windows-1-7-00000000000000ff", 12)
        >>> copy.startswith("0" * 32 + "/shared/windows-1-7-00000000000000ff-12-"), checkpoint_of(copy)
        (True, 12)
    """
    name, token = path.rpartition("/")[2], hashlib.sha256(f"{checkpoint_id} {path}".encode()).hexdigest()[:16]
    copied = _SHARED.sub("", name)
    name = copied if checkpoint_of(copied) is not None else name
    return f"{shared_directory(job_id)}/{name}-{checkpoint_id}-{token}"


def part_suffix(number: int) -> str:
    """Return the suffix for `shared_path` of one of several files, counted from 0; the first one has none.

    Example:
        >>> part_suffix(0), part_suffix(2)
        ('', '.2')
    """
    return f".{number}" if number else ""


def checkpoint_of(path: str) -> int | None:
    """Return the checkpoint in the name of a file of `shared_path`, None for any other name."""
    match = _SHARED.search(path)
    return int(match.group(1)) if match else None


def blob_path(job_id: str, run_id: str) -> str:
    """Return the file of the program of a run; other runs of the job do not delete it."""
    return f"{blobs_directory(job_id)}/{run_id}"


def blobs_directory(job_id: str) -> str:
    """Return the directory of the files that single runs of a job need."""
    return f"{job_id}/blobs"


def results_directory(job_id: str) -> str:
    """Return the directory of the stored results of a batch job's stages."""
    return f"{job_id}/results"


def result_path(job_id: str, run_id: str, subtask: tuple[int, int], token: int, number: int) -> str:
    """Return a file of the result of one subtask.

    Args:
        job_id: The job.
        run_id: The run, whose files another run deletes when it begins.
        subtask: The position of the vertex, and the subtask.
        token: The attempt.
        number: The number of the file among those of the attempt, from 0.

    Example:
        >>> result_path("0" * 32, "a" * 8, (2, 1), 255, 0)
        '00000000000000000000000000000000/results/aaaaaaaa-2-1-00000000000000ff-0'
    """
    return f"{results_directory(job_id)}/{run_id}-{subtask[0]}-{subtask[1]}-{_in_name(token)}-{number}"


def finished_directory(job_id: str) -> str:
    """Return the directory in which tasks announce finished subtasks of a batch job with recovery."""
    return f"{job_id}/finished"


def finished_path(job_id: str, run_id: str, job_attempt: int, subtask: tuple[int, int], token: int) -> str:
    """Return the file with which an attempt announces that its subtask has finished."""
    name = f"{run_id}-{job_attempt}-{subtask[0]}-{subtask[1]}-{_in_name(token)}"
    return f"{finished_directory(job_id)}/{name}"


def events_directory(job_id: str) -> str:
    """Return the directory of the events of a batch job with recovery."""
    return f"{job_id}/events"


def segment_path(job_id: str, number: int) -> str:
    """Return a segment of the log of events.

    Example:
        >>> segment_path("0" * 32, 7)
        '00000000000000000000000000000000/events/00000007'
    """
    return f"{events_directory(job_id)}/{number:08}"


def staged_directory(job_id: str) -> str:
    """Return the directory of what sinks' writers stage for their committers."""
    return f"{job_id}/staged"


def staged_prefix(job_id: str, run_id: str, uid: str) -> str:
    """Return what the paths of all files begin with that a run has staged for one sink."""
    return f"{staged_directory(job_id)}/{run_id}-{hashlib.sha256(uid.encode()).hexdigest()[:12]}-"


def staged_path(job_id: str, run_id: str, uid: str, attempt: tuple[int, int, int], number: int) -> str:
    """Return a file that one attempt of a sink's writer stages.

    Args:
        job_id: The job.
        run_id: The run.
        uid: The sink.
        attempt: The subtask, the checkpoint and the token of the attempt.
        number: The number of the file among those of the attempt, from 0.

    Example:
        >>> staged_path("0" * 32, "a" * 8, "sink", (1, 7, 255), 0)
        '00000000000000000000000000000000/staged/aaaaaaaa-1978baf2c153-7-1-00000000000000ff-0'
    """
    begin, (subtask, checkpoint_id, token) = staged_prefix(job_id, run_id, uid), attempt
    return f"{begin}{checkpoint_id}-{subtask}-{_in_name(token)}-{number}"


def checkpoint_of_staged(path: str) -> int:
    """Return the checkpoint that a staged file is for."""
    return int(path.rpartition("/")[2].split("-")[2])


def run_of_file(path: str) -> str:
    """Return the run that wrote a result, a blob, a staged file or a DataFrame's: the first part of its name."""
    return path.rpartition("/")[2].partition("-")[0]


def frames_directory(job_id: str) -> str:
    """Return the directory of the DataFrames that a job's sources read."""
    return f"{job_id}/frames"


def frames_prefix(job_id: str, run_id: str) -> str:
    """Return what the paths of all files of DataFrames begin with that a run writes; a hyphen follows."""
    return f"{frames_directory(job_id)}/{run_id}"


def dispatches_path(job_id: str, run_id: str, checkpoint_id: int, attempt: int) -> str:
    """Return the file of the dispatches of one attempt at an epoch."""
    return f"{blob_path(job_id, run_id)}-{checkpoint_id}-{attempt}"


def _in_name(token: int) -> str:
    """Return the token of an attempt as names of files have it."""
    return f"{token & (1 << 64) - 1:016x}"
