"""The commands about running jobs: each asks a driver's REST server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock._engine.cli.history_command import ended_rows, lost_text
from penstock._engine.cli.jobs import SILENT, find_row, found, overview, starting_rows
from penstock._engine.cli.options import (
    job_argument,
    json_option,
    place_options,
    savepoint_path_option,
    timeout_option,
)
from penstock._engine.cli.output import (
    count_text,
    duration_text,
    print_facts,
    print_json,
    print_table,
    say,
    waiting,
)
from penstock._engine.cli.rest_client import ENDED
from penstock._engine.cli.restarting_jobs import CommandDeadline, end_supervision
from penstock._engine.processes.exit_codes import ExitCode
from penstock._engine.protocol.clocks import time_text
from penstock._engine.storage.opening import absolute, local_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.cli.jobs import FoundJob, RestTarget


@click.command("list")
@click.option(
    "-a",
    "--all",
    "ended_too",
    is_flag=True,
    help="Show ended jobs, too: those of drivers that are still there, and those in `jobmanager.archive.fs.dir`.",
)
@click.option(
    "--check", is_flag=True, help="End with code 5 if there is no job, and with 6 if one does not answer: for probes."
)
@json_option
@place_options
def list_jobs(place: RestTarget, *, ended_too: bool, check: bool, as_json: bool) -> int:
    """Show the running jobs."""
    rows = [row for row in overview(place) if ended_too or row["state"] not in ENDED]
    shown = list(rows)
    if place.address is None:
        shown += starting_rows() + (ended_rows(rows) if ended_too else [])
    if as_json:
        print_json(shown)
    elif shown:
        print_table(
            ("NAME", "ID", "STATE", "STARTED", "RUNNING FOR", "ADDRESS"),
            (
                (
                    row["name"],
                    row["jid"],
                    row["state"],
                    time_text(row.get("start-time", -1)),
                    duration_text(row["duration"]) if "duration" in row else "-",
                    row["address"],
                )
                for row in shown
            ),
        )
        for row in shown:
            if "reason" in row:
                say(f"Job {row['name']!r} ({row['jid']}): {row['reason']}. {row['way-out']}")
            elif "lost" in row.get("penstock", {}):
                say(f"Job {row['name']!r} ({row['jid']}) is {lost_text(row['penstock']['lost'])}")
    else:
        say("No job is running here. Jobs of other machines and users: penstock list --address URL")
    if not check or (rows and not any(row["state"] == SILENT or "supervisor" in row for row in rows)):
        return ExitCode.OK
    return ExitCode.UNREACHABLE if rows else ExitCode.NO_SUCH_JOB


@click.command
@job_argument
@place_options
def dashboard(job: str, place: RestTarget) -> int:
    """Print a link to the dashboard.

    It lets one browser in, once and within an hour, without a token.
    """
    with found(place, job) as target:
        click.echo(target.client.link())
    return ExitCode.OK


@click.command
@job_argument
@json_option
@place_options
def info(job: str, place: RestTarget, *, as_json: bool) -> int:
    """Show one job with its operators and checkpoints."""
    with found(place, job) as target:
        base = f"/jobs/{target.job_id}"
        details, failures = target.client.get(base), target.client.get(f"{base}/exceptions")
        checkpoints = target.client.find(f"{base}/checkpoints")  # Flink has none where checkpointing is off
        accumulators = target.client.get(f"{base}/accumulators")["user-task-accumulators"]
        if as_json:
            answers = {"job": details, "checkpoints": checkpoints, "exceptions": failures, "accumulators": accumulators}
            print_json(answers)
        else:
            _show(target, details, checkpoints, failures)
            _show_accumulators(accumulators)
    return ExitCode.OK


def _show(
    target: FoundJob, details: dict[str, Any], checkpoints: dict[str, Any] | None, failures: dict[str, Any]
) -> None:
    facts: list[tuple[str, object]] = [
        ("Name", target.name),
        ("Id", target.job_id),
        ("State", details["state"]),
        ("Type", details.get("job-type", "-")),
        ("Started", time_text(details["start-time"])),
        ("Running for", duration_text(details["duration"])),
        ("Address", target.client.address),
        *_checkpoint_facts(checkpoints),
        *_loss_facts(details),
        *_recovery_facts(details),
    ]
    entries = failures["exceptionHistory"]["entries"]
    if entries:
        facts.append(("Last failure", f"{_failure(entries[0])} ({time_text(entries[0]['timestamp'])})"))
    print_facts(facts)
    click.echo()
    print_table(
        ("OPERATORS", "PARALLELISM", "STATUS", "RECORDS IN", "RECORDS OUT"),
        (
            (
                vertex["name"],
                vertex["parallelism"],
                vertex["status"],
                f"{vertex['metrics']['read-records']:,}",
                f"{vertex['metrics']['write-records']:,}",
            )
            for vertex in details["vertices"]
        ),
    )


def _checkpoint_facts(checkpoints: dict[str, Any] | None) -> Iterator[tuple[str, object]]:
    if checkpoints is None:
        yield "Checkpoints", "none are kept: execution.checkpointing.dir is not set"
        return
    counts = checkpoints["counts"]
    yield "Checkpoints", f"{counts['completed']} completed, {counts['failed']} failed, {counts['restored']} restored"
    for title, kind in (("Last checkpoint", "completed"), ("Last savepoint", "savepoint")):
        if last := checkpoints["latest"].get(kind):
            path = last["external_path"]  # in angle brackets, Flink says that there is no path
            where = "goes with the job" if path.startswith("<") else local_path(path)
            yield title, f"{where} ({time_text(last['latest_ack_timestamp'])})"
    if again := checkpoints.get("penstock", {}).get("published_again"):
        of = _checkpoints_text(again["first"], again["last"])
        yield "Published again", f"{of} of the job that this one started from"


def _checkpoints_text(first: int, last: int) -> str:
    return f"checkpoint {last}" if first == last else f"checkpoints {first} to {last}"


def _loss_facts(details: dict[str, Any]) -> Iterator[tuple[str, object]]:
    for lost in details.get("penstock", {}).get("given_up_committables", []):  # a driver may be of an older version
        of = _checkpoints_text(lost["first_checkpoint_id"], lost["last_checkpoint_id"])
        what = f"{count_text(lost['count'], 'committable')} of {of}: {lost['reason']}"
        yield "Given up", f"{lost['operator']} (uid {lost['uid']}), {what}"
    for source, count in details.get("penstock", {}).get("unread_splits", {}).items():
        yield "Left unread", f"{source}, {count_text(count, 'split')}: its reader finished before"


def _recovery_facts(details: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield what a batch job has recovered from a lost driver, and what of it had to run again, by operator."""
    recovery = details.get("penstock", {}).get("recovery", {})
    for title, what in (("Recovered", "recovered"), ("Ran again", "ran_again")):
        counts: dict[str, int] = recovery.get(what, {})
        names = [
            f"{vertex['name']} ({counts[vertex['id']]})" for vertex in details["vertices"] if vertex["id"] in counts
        ]
        if names:
            yield title, f"{count_text(sum(counts.values()), 'finished subtask')}: {', '.join(names)}"
    if recovery.get("damage"):
        yield "Damaged events", recovery["damage"]


def _show_accumulators(accumulators: list[dict[str, str]]) -> None:
    if accumulators:
        click.echo()
        rows = ((one["name"], one["type"], one["value"]) for one in accumulators)
        print_table(("ACCUMULATORS", "TYPE", "VALUE"), rows)


def _failure(entry: dict[str, Any]) -> str:
    """Return a failure on one line, with the user's file and line where the driver knows them."""
    said = str(entry["stacktrace"]).strip().splitlines()[0]
    location = entry.get("penstock", {}).get("location")
    return f"{said} at {location}" if location else said


@click.command
@job_argument
@click.option(
    "--drain",
    is_flag=True,
    help="Let all input end: timers fire and windows close. Without it the job can continue as if it had not stopped.",
)
@savepoint_path_option
@timeout_option
@json_option
@place_options
def stop(
    job: str, place: RestTarget, *, drain: bool, savepoint_path: str | None, timeout: int | None, as_json: bool
) -> int:
    """Stop a job with a savepoint.

    Prints the path of the savepoint once the job has ended and all that the savepoint covers is published.
    """
    body: dict[str, object] = {"drain": drain} | _target("targetDirectory", savepoint_path)
    clock = CommandDeadline(timeout)
    with (
        found(place, job, clock.for_process(job)) as target,
        waiting(f"Stopping {target.name}: the rest of the epoch, then the savepoint"),
    ):
        way_out = f"`penstock cancel {target.job_id}` gives it up."
        wait = clock.wait(f"The stop of job {target.name!r}", way_out)
        location = target.client.operate(target.job_id, "stop", body, wait)["location"]
    _print_savepoint(target, location, as_json=as_json, done="drained and stopped" if drain else "stopped")
    return ExitCode.OK


@click.command
@job_argument
@click.option("--with-savepoint", is_flag=True, help="Take a savepoint first.")
@savepoint_path_option
@timeout_option
@json_option
@place_options
def cancel(
    job: str, place: RestTarget, *, with_savepoint: bool, savepoint_path: str | None, timeout: int | None, as_json: bool
) -> int:
    """Cancel a job, with or without a savepoint.

    Its running epoch is given up; its last checkpoint stays.
    """
    if savepoint_path and not with_savepoint:
        raise click.UsageError("--savepoint-path goes with --with-savepoint.")
    clock, location = CommandDeadline(timeout), None
    if not with_savepoint and "supervisor" in (row := find_row(place, job)):
        end_supervision(row, clock, as_json=as_json)
        return ExitCode.OK
    with found(place, job, clock.for_process(job)) as target, waiting(f"Cancelling {target.name}"):
        wait = clock.wait(f"The end of job {target.name!r}", "A signal to its process ends it at once.")
        if with_savepoint:
            body: dict[str, object] = {"cancel-job": True} | _target("target-directory", savepoint_path)
            location = target.client.operate(target.job_id, "savepoints", body, wait)["location"]
        else:
            target.client.cancel(target.job_id)
        status = target.client.wait_for_end(target.job_id, wait)
    if location is not None:
        _print_savepoint(target, location, as_json=as_json, done="cancelled")
    elif as_json:
        print_json({"job": target.job_id, "status": status or None})
    else:
        say(f"Job {target.name!r} ({target.job_id}) has ended{f': {status}' if status else ''}.")
    return ExitCode.OK


@click.command
@job_argument
@timeout_option
@json_option
@place_options
def checkpoint(job: str, place: RestTarget, *, timeout: int | None, as_json: bool) -> int:
    """Have a job complete a checkpoint now.

    Prints the number of the checkpoint.
    """
    clock = CommandDeadline(timeout)
    with (
        found(place, job, clock.for_process(job)) as target,
        waiting(f"Waiting for a checkpoint of {target.name}"),
    ):
        wait = clock.wait(f"The checkpoint of job {target.name!r}", f"See `penstock info {target.job_id}`.")
        number = target.client.operate(target.job_id, "checkpoints", {}, wait)["checkpointId"]
    if as_json:
        print_json({"job": target.job_id, "checkpoint": number})
    else:
        click.echo(number)
    return ExitCode.OK


@click.command("take")
@job_argument
@savepoint_path_option
@timeout_option
@json_option
@place_options
def take_savepoint(
    job: str, place: RestTarget, *, savepoint_path: str | None, timeout: int | None, as_json: bool
) -> int:
    """Take a savepoint of a job that continues.

    Prints the path of the savepoint once it is complete.
    """
    clock = CommandDeadline(timeout)
    with found(place, job, clock.for_process(job)) as target, waiting(f"Taking a savepoint of {target.name}"):
        wait = clock.wait(f"The savepoint of job {target.name!r}", f"See `penstock info {target.job_id}`.")
        body = _target("target-directory", savepoint_path)
        location = target.client.operate(target.job_id, "savepoints", body, wait)["location"]
    _print_savepoint(target, location, as_json=as_json, done=None)
    return ExitCode.OK


def _target(field: str, savepoint_path: str | None) -> dict[str, object]:
    """Return the field of a request that names a directory, nothing without one."""
    return {} if savepoint_path is None else {field: absolute(savepoint_path)}


def _print_savepoint(target: FoundJob, location: str, *, as_json: bool, done: str | None) -> None:
    path = local_path(location)  # of URLs as Flink's file:/data people want the path
    if as_json:
        print_json({"job": target.job_id, "savepoint": path})
        return
    click.echo(path)
    if done is not None:
        say(f"Job {target.name!r} is {done}. Restore it with: penstock run -s {path} SCRIPT")
