"""A start says on the terminal what it resumes from or that it starts fresh, and that it takes over a job that runs."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest
from tests.kit.cells import cells
from tests.kit.driving import CrashError
from tests.kit.world import World, numbers_job

from penstock._engine.coordinator import events as ev
from penstock._engine.coordinator import instructions as do
from penstock._engine.processes.exit_codes import ExitCode, exit_code_of
from penstock._engine.processes.registry import JobRegistry, RegistryEntry
from penstock._engine.protocol.control import StopMode
from penstock._engine.rest.log_lines import LogLines
from penstock.common.process import tell
from penstock.errors import ConfigurationError, JobRunningError, NoCheckpointError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._engine.driver.driver import JobDriver

JOB_ID = "0123456789abcdef" * 2
OTHER_ID = "fedcba9876543210" * 2

#: What a start says first: with a time, of what, and from where.
PLAIN = r"starts fresh, with its checkpoints in {directory}\.$"
NOWHERE = r"starts fresh; a later start cannot resume it, because execution\.checkpointing\.dir is not set\.$"
FIRST = r"starts fresh: {directory} has no record of it\. That is right at its first start\. If it has run before"
LEFT = r"starts fresh, although an earlier run of that id has left checkpoints\."
UNFINISHED = r"starts fresh: its earlier run has completed no checkpoint in {directory}\.$"
CHECKPOINT = r"resumes from checkpoint \d+ of 1970-01-01 \d\d:\d\d:\d\d \({directory}/{job_id}/chk-\d+\)\.$"
SAVEPOINT = r"resumes from savepoint \d+ of 1970-01-01 \d\d:\d\d:\d\d \({savepoints}/savepoint-[0-9a-f-]+\)\.$"
OTHERS = CHECKPOINT.replace("{job_id}", OTHER_ID)
ENDED = r"Job 'numbers' has finished already; there is nothing to run"

FLAGS: dict[str, dict[str, str]] = {
    "none": {},
    "latest": {"recover": "latest"},
    "its id": {"job_id": JOB_ID},
    "its id and latest": {"job_id": JOB_ID, "recover": "latest", "first": "true"},
    "a path": {"recover": "?"},
}
#: By directory: what a start with each of the flags says, or how it is refused.
STARTS: dict[str, tuple[str | type[PenstockError], ...]] = {
    "none": (NOWHERE, ConfigurationError, NOWHERE, ConfigurationError, NoCheckpointError),
    "empty": (PLAIN, FIRST, PLAIN, FIRST, NoCheckpointError),
    "of another job of its name": (PLAIN, OTHERS, PLAIN, FIRST, OTHERS),
    "of a finished job": (PLAIN, ENDED, PLAIN, ENDED, NoCheckpointError),
    "of a cancelled job": (PLAIN, CHECKPOINT, LEFT, CHECKPOINT, CHECKPOINT),
    "of a stopped job": (PLAIN, SAVEPOINT, PLAIN, SAVEPOINT, SAVEPOINT),
    "of a killed job": (PLAIN, CHECKPOINT, LEFT, CHECKPOINT, CHECKPOINT),
    "of a job killed at its start": (PLAIN, UNFINISHED, PLAIN, UNFINISHED, NoCheckpointError),
}


def left_behind(directory: str, lives: str, savepoints: Path) -> str:
    """Make a directory as a life of a job leaves it; return the path of what a user may start from."""
    job_id = OTHER_ID if lives == "of another job of its name" else JOB_ID
    settings = {"job_id": job_id, "recover": "latest", "first": "true", "interval": "1 s"}
    if lives in {"none", "empty"}:
        return f"{directory}/{JOB_ID}/chk-2"
    driver = start(directory, watch=_ends(lives, str(savepoints)), **settings)
    return next(iter(driver.savepoints), f"{directory}/{job_id}/chk-2")


def _ends(lives: str, savepoints: str) -> Callable[[JobDriver, do.Instruction], None]:
    def watch(driver: JobDriver, instruction: do.Instruction) -> None:
        if lives == "of a job killed at its start" and isinstance(instruction, do.RunEpoch):
            raise CrashError
        if not isinstance(instruction, do.PublishProgress) or instruction.progress.checkpoint_id < 2:
            return
        if lives == "of a killed job":
            raise CrashError
        if lives == "of a stopped job":
            driver.savepoint(savepoints, StopMode.SUSPEND)
        if lives in {"of a cancelled job", "of another job of its name"}:
            driver._mailbox.post(ev.CancelRequested())

    return watch


def start(
    directory: str | None, watch: Callable[[JobDriver, do.Instruction], None] | None = None, **settings: str
) -> JobDriver:
    """Run a job to its end, or to the crash that what watches it raises."""
    world = World(numbers_job("headlines", limit=40, split_size=20), patience=3)
    driver, loop = world.driver(directory, **settings)
    perform = loop.perform

    def watched(instruction: do.Instruction) -> None:
        if watch is not None:
            watch(driver, instruction)
        perform(instruction)

    loop.perform = watched
    with contextlib.suppress(CrashError):
        driver.run(loop)
    return driver


@cells("lives, number", [(lives, number) for lives in STARTS for number in range(len(FLAGS))])
def test_each_start_says_that_it_resumes_and_from_where_or_that_it_starts_fresh(
    lives: str, number: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    directory = f"memory://headlines-{number}-{lives.replace(' ', '-')}"
    flags, expected = list(FLAGS.values())[number], STARTS[lives][number]
    path = left_behind(directory, lives, tmp_path)
    if "recover" in flags and flags["recover"] == "?":
        flags = {"recover": path}
    place = None if lives == "none" else directory
    capfd.readouterr()
    try:
        driver = start(place, interval="1 s", **flags)
        error = driver.result.exception(0)
    except PenstockError as refused:
        error = refused
    said = [line for line in capfd.readouterr().err.splitlines() if re.search("starts fresh|resumes|to run", line)]
    if isinstance(expected, type):
        assert isinstance(error, expected) or isinstance(error and error.__cause__, expected), error
        assert said == []
        return
    assert error is None
    assert len(said) == 1, said
    assert re.search(
        expected.format(directory=re.escape(directory), savepoints=re.escape(str(tmp_path)), job_id=JOB_ID), said[0]
    ), said


@pytest.mark.parametrize("handler", ["none", "a file", "the terminal", "the dashboard"])
def test_a_line_is_on_the_terminal_once_whatever_the_log_shows(
    handler: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("penstock")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()
    file = logging.FileHandler(tmp_path / "log", delay=True)
    logger.handlers += {
        "none": [],
        "a file": [file],
        "the terminal": [logging.StreamHandler(sys.stderr)],
        "the dashboard": [LogLines()],
    }[handler]
    for level in (logging.INFO, logging.WARNING):
        tell(level, "It begins.", shown=True)
        assert capsys.readouterr().err == "It begins.\n"
    tell(logging.INFO, "It goes on.", shown=False)
    assert capsys.readouterr().err == ("It goes on.\n" if handler == "the terminal" else "")
    file.close()
    logger.manager._clear_cache()


@pytest.mark.parametrize("takeover", ["true", "false"])
def test_a_job_that_runs_is_taken_over_only_after_that_was_said_and_not_where_it_is_not_to_be(
    takeover: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, lists = str(tmp_path / "checkpoints"), tmp_path / "jobs"
    left_behind(directory, "of a killed job", tmp_path)
    registry = JobRegistry(lists)
    entry = RegistryEntry.of_this_process(JOB_ID, "numbers", "http://127.0.0.1:8081", 1, run_id="another")
    registry.add(entry)
    said_before: list[str] = []

    def watch(driver: JobDriver, instruction: do.Instruction) -> None:
        if isinstance(instruction, do.PutChainEntry) and not said_before:
            said_before.append(capsys.readouterr().err)

    settings = {"penstock.rest.registry-dir": str(lists), "penstock.takeover": takeover, "recover": "latest"}
    driver = start(directory, watch, **settings)
    registry.clear()
    runs = f"Job 'numbers' ({JOB_ID}) runs in process {os.getpid()} (http://127.0.0.1:8081)"
    if takeover == "true":
        assert driver.result.exception(0) is None
        assert f"{runs}. This start takes it over, and that driver ends." in said_before[0]
        return
    error = driver.result.exception(0)
    assert said_before == []
    assert isinstance(error, JobRunningError)
    assert str(error).startswith(f"{runs}, and this start is not to take it over")
    assert exit_code_of(error) is ExitCode.FENCED
    assert start(directory, **settings).result.exception(0) is None  # the other one has ended
