"""The command ``penstock config``: shows every key with its value, its origin and its effect."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import click

from penstock._engine.cli.options import checked_settings, json_option, script_option, settings_option
from penstock._engine.cli.output import print_json, print_table, say
from penstock._engine.processes.exit_codes import ExitCode
from penstock._engine.storage.opening import storage_options
from penstock.common.config_check import Setting, checked, nearest_key
from penstock.common.config_loading import OPTIONS_VARIABLE, outer_settings
from penstock.common.config_table import DEFAULT, EffectiveOption, config_table, layered
from penstock.common.configuration import Configuration
from penstock.common.redaction import Redaction


@click.command("config")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--set", "only_set", is_flag=True, help="Show only the keys that are set somewhere.")
@script_option
@settings_option
@json_option
def show_config(
    words: tuple[str, ...],
    *,
    only_set: bool,
    script: Path | None,
    settings: tuple[tuple[str, str], ...],
    as_json: bool,
) -> int:
    """Show the keys of the configuration.

    Those that contain a WORD, or all. Each comes with the value that a program started here would have, where that was
    set, and what it does. What the program itself sets wins over all of these.
    """
    rows = [
        row
        for row in effective_options(script, settings)
        if (not only_set or row.origin != DEFAULT) and (not words or any(word in row.key for word in words))
    ]
    if as_json:
        print_json([asdict(row) for row in rows])
    elif rows:
        print_table(
            ("KEY", "VALUE", "FROM", "EFFECT"),
            (
                (option.key, "-" if option.value is None else option.value, option.origin, option.effect)
                for option in rows
            ),
        )
    if words and not rows:
        meant = nearest_key(words[0])
        say(f"No key contains {' or '.join(words)}." + (f" Did you mean {meant}?" if meant else ""))
        return ExitCode.FAILED
    return ExitCode.OK


def configured(script: Path | None, settings: tuple[tuple[str, str], ...]) -> dict[str, str | None]:
    """Return the values that a program would start with; see `effective_options`."""
    return {option.key: option.value for option in effective_options(script, settings)}


def configured_storage(script: Path | None, settings: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return the storage options of a program, including secrets; see `effective_options`."""
    return storage_options(effective_configuration_of(script, settings))


def effective_configuration_of(script: Path | None, settings: tuple[tuple[str, str], ...]) -> Configuration:
    """Return the configuration that a program would start with, including secrets; see `effective_options`."""
    configuration = Configuration()
    for layer in _layers(script, settings):
        configuration.add_all(checked(layer))
    return configuration


def _layers(script: Path | None, settings: tuple[tuple[str, str], ...]) -> tuple[dict[str, Setting], ...]:
    folder = Path.cwd() if script is None else script.resolve().parent
    options = json.dumps(checked_settings(settings))
    return outer_settings(folder, {**os.environ, OPTIONS_VARIABLE: options})


def effective_options(script: Path | None, settings: tuple[tuple[str, str], ...]) -> list[EffectiveOption]:
    """Return the configuration that a program would start with, known keys first.

    Args:
        script: The program; None for one in the working directory.
        settings: The settings of the command line.

    Raises:
        ConfigurationError: A key has an invalid value.
        ConfigurationFileError: There is a ``config.yaml`` that cannot be read.
    """
    values, origins = layered(_layers(script, settings))
    shown = Redaction.of(values).value
    return config_table({key: shown(key, value) for key, value in values.items()}, origins)
