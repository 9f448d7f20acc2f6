"""Options and arguments that several commands share."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from penstock._engine.cli.jobs import RestTarget, registered_jobs
from penstock._engine.storage.opening import absolute
from penstock.common.config_check import Setting, checked
from penstock.common.config_values import DURATION
from penstock.common.paths import scheme_of

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")


class SecondsType(click.ParamType[int]):
    """A duration as in Flink's configuration, such as ``30 s``; seconds without a unit."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds."""
        if isinstance(value, int):
            return value
        text = str(value)
        try:
            duration = DURATION.parse(f"{text} s" if text.strip().isdigit() else text)
        except ValueError as error:
            self.fail(f"{text!r} is no length of time: {error}.", param, ctx)
        return duration.to_millis() // 1000


class SettingType(click.ParamType[tuple[str, str]]):
    """A key of the configuration with its value."""

    name = "key=value"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return key and value."""
        if isinstance(value, tuple):
            return value  # pyright: ignore[reportUnknownVariableType, reportReturnType] - click hands back ours
        key, equals, text = str(value).partition("=")
        if not equals or not key.strip():
            self.fail(f"{value!r} is not of the form key=value.", param, ctx)
        return key.strip(), text.strip()


def checked_settings(pairs: tuple[tuple[str, str], ...], *more: tuple[str, str]) -> dict[str, str]:
    """Return the settings of ``-D`` options, by their newest names and checked.

    Args:
        pairs: The options' values.
        more: The settings of short options, which win.

    Raises:
        ConfigurationError: A key has a value that it cannot have.
    """
    given = dict([*pairs, *more])
    return checked({key: Setting(value, "the command line") for key, value in given.items()}).to_dict()


def settings_option(function: F) -> F:
    """Add ``-D key=value``."""
    return click.option(
        "-D",
        "settings",
        type=SettingType(),
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a key of the configuration; may be given several times. `penstock config` shows all keys.",
    )(function)


def script_option(function: F) -> F:
    """Add ``--script``."""
    return click.option(
        "--script",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The program: `config.yaml` beside it counts. Without it, the one in the working directory.",
    )(function)


def existing_directories(_: click.Context, __: click.Parameter, directories: tuple[str, ...]) -> tuple[str, ...]:
    """Return the absolute paths of an option, without missing local ones: a typo would look like an empty directory."""
    places = tuple(map(absolute, directories))
    for directory, place in zip(directories, places, strict=True):
        if not scheme_of(place) and not Path(place).exists():
            raise click.BadParameter(f"there is no directory {directory}")
    return places


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(function)


def timeout_option(function: F) -> F:
    """Add ``--timeout``."""
    return click.option(
        "--timeout",
        type=SecondsType(),
        metavar="DURATION",
        help="Wait at most so long, such as `30 s` or `10 min`; without it the command waits until it is done.",
    )(function)


def savepoint_path_option(function: F) -> F:
    """Add ``--savepoint-path``."""
    return click.option(
        "--savepoint-path",
        metavar="DIRECTORY",
        help="Where the savepoint's directory is made; `execution.checkpointing.savepoint-dir` of the job without it.",
    )(function)


def place_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add ``--address``, ``--token`` and ``--cacert``, which arrive as ``place``."""

    @functools.wraps(function)
    def with_place(
        *arguments: object, address: str | None, token: str | None, cacert: str | None, **named: object
    ) -> int:
        return function(*arguments, place=RestTarget(address, token, cacert), **named)

    with_authorities = click.option(
        "--cacert",
        envvar="PENSTOCK_CACERT",
        show_envvar=True,
        type=click.Path(exists=True, dir_okay=False),
        help="PEM file with the certificates that the driver's comes from, for an address that begins with https.",
    )(with_place)
    with_token = click.option(
        "--token",
        envvar="PENSTOCK_TOKEN",
        show_envvar=True,
        help="What the driver wants to be shown; jobs of this user on this machine need none here.",
    )(with_authorities)
    return click.option(
        "--address",
        envvar="PENSTOCK_ADDRESS",
        show_envvar=True,
        metavar="URL",
        help="Where the job's driver listens, such as `http://host:8081`; without it the jobs of this user on this "
        "machine are looked through.",
    )(with_token)


def job_argument(function: F) -> F:
    """Add the argument JOB."""
    return click.argument("job", shell_complete=_complete_job)(function)


def _complete_job(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    names = {name for job in registered_jobs() for name in (job.name, job.job_id)}
    return sorted(name for name in names if name.startswith(incomplete))
