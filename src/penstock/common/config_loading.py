"""Loads configuration from Flink's ``config.yaml``, the command line, the environment and the program.

The later one wins. The file is ``config.yaml`` in the directory that ``PENSTOCK_CONF_DIR`` names, else beside the
program's script. Its keys are flat (``parallelism.default: 4``) or nested. The options of ``penstock run`` are in one
variable, as JSON.

In the environment each key is a variable of its own: ``PENSTOCK_``, then the key in capitals with ``__`` for each dot
and ``_`` for each hyphen. ``PENSTOCK_EXECUTION__CHECKPOINTING__INTERVAL="10 s"`` sets
``execution.checkpointing.interval``. A key of Penstock's own goes without its ``penstock.``: ``PENSTOCK_JOB_ID`` sets
``penstock.job-id``. A variable that starts with ``PENSTOCK_``, has no ``__`` and is none of these,
nor nearly one, is left alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import yaml

from penstock.common.config_check import Setting, check_together, checked, nearest_key
from penstock.common.config_values import MAP, flow_yaml, load_yaml
from penstock.common.configuration import Configuration
from penstock.common.file_modes import warn_of_readers
from penstock.common.option_table import KNOWN_KEYS
from penstock.common.paths import absolute_path
from penstock.common.redaction import Redaction
from penstock.errors import ConfigurationFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONF_DIR_VARIABLE = "PENSTOCK_CONF_DIR"
#: Holds the options of ``penstock run``, for its program and for processes that the program starts.
OPTIONS_VARIABLE = "PENSTOCK_RUN_OPTIONS"
#: Names the file in which a supervised program notes its jobs, for the next process after a crash.
RESUME_VARIABLE = "PENSTOCK_RESUME_FILE"
FILE_NAME = "config.yaml"
_PREFIX = "PENSTOCK_"
_NO_KEYS = (CONF_DIR_VARIABLE, OPTIONS_VARIABLE, RESUME_VARIABLE)
#: Known keys by their spelling without capitals, which variables do not show.
_WITH_CAPITALS = {key.lower(): key for key in KNOWN_KEYS}
#: Of `penstock.rest.token`: the only value of such a key that anybody may know.
_NOBODYS = "none"
_UNSET = ("", "~", "null")


def effective_configuration(
    program: Configuration, script_dir: Path | None, environ: Mapping[str, str]
) -> Configuration:
    """Return the settings of a program; its own win over the environment's, the command line's and the file's.

    Known keys have their newest names, and every value is valid.

    Args:
        program: The program's settings.
        script_dir: Where the program's script is; None when there is no script, as in a notebook.
        environ: The environment variables.

    Raises:
        ConfigurationError: A known key has a value that it cannot have; the error says where it was set.
        ConfigurationFileError: There is a file, but it cannot be read.

    Example:
        >>> program = Configuration().set_integer("parallelism.default", 4)
        >>> environ = {"PENSTOCK_PARALLELISM__DEFAULT": "2", "PENSTOCK_EXECUTION__RUNTIME_MODE": "BATCH"}
        >>> print(effective_configuration(program, None, environ))
        {parallelism.default=4, execution.runtime-mode=BATCH}
    """
    own = {key: Setting(value) for key, value in program.to_dict().items()}
    merged = Configuration()
    for layer in (*outer_settings(script_dir, environ), own):
        merged.add_all(checked(layer))
    check_together(merged)
    return merged


def outer_settings(script_dir: Path | None, environ: Mapping[str, str]) -> tuple[dict[str, Setting], ...]:
    """Return the settings outside of a program by origin; later ones win.

    Args:
        script_dir: Where the program's script is; None when there is no script.
        environ: The environment variables.

    Raises:
        ConfigurationFileError: There is a file, but it cannot be read.
    """
    path = _find_file(script_dir, environ)
    of_file = {} if path is None else file_settings(path)
    if path is not None and (secret := _secrets(of_file)):
        warn_of_readers(str(path), " and ".join(secret))
    return (
        of_file,
        environment_settings(environ),
        command_line_settings(environ),
    )


def _secrets(settings: Mapping[str, Setting]) -> list[str]:
    """Return the keys whose values nobody else is to know."""
    values = {key: setting.value for key, setting in settings.items()}
    redaction = Redaction.of(values)
    return [key for key, value in values.items() if value != _NOBODYS and redaction.value(key, value) != value]


def _find_file(script_dir: Path | None, environ: Mapping[str, str]) -> Path | None:
    named = environ.get(CONF_DIR_VARIABLE)
    if named:
        path = Path(absolute_path(named), FILE_NAME)
        if not path.is_file():
            raise ConfigurationFileError(
                str(path), f"there is no such file, but {CONF_DIR_VARIABLE} names its directory"
            )
        return path
    path = None if script_dir is None else script_dir / FILE_NAME
    return path if path is not None and path.is_file() else None


def file_settings(path: Path) -> dict[str, Setting]:
    """Return the settings of a ``config.yaml``.

    Raises:
        ConfigurationFileError: It is not YAML, or not made of keys and values.
    """
    try:
        content = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationFileError(str(path), " ".join(str(error).split())) from error
    if content in (None, ""):
        return {}
    if not isinstance(content, dict):
        raise ConfigurationFileError(str(path), "it holds no keys with values")
    flat = _flatten(cast("dict[str, object]", content), "")
    return {key: Setting(value, str(path)) for key, value in flat if value not in _UNSET}


def _flatten(content: Mapping[str, object], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in content.items():
        key = prefix + name
        known = KNOWN_KEYS.get(key)
        if isinstance(value, dict) and not (known is not None and known.value_type is MAP):
            yield from _flatten(cast("dict[str, object]", value), f"{key}.")
        else:
            yield key, value if isinstance(value, str) else flow_yaml(value)


def command_line_settings(environ: Mapping[str, str]) -> dict[str, Setting]:
    """Return the settings that were given to ``penstock run``."""
    options = cast("dict[str, str]", json.loads(environ.get(OPTIONS_VARIABLE) or "{}"))
    return {key: Setting(value, "the command line") for key, value in options.items()}


def environment_settings(environ: Mapping[str, str]) -> dict[str, Setting]:
    """Return the settings among the environment variables."""
    settings: dict[str, Setting] = {}
    for variable, value in environ.items():
        key = _key_of(variable)
        if key is not None:
            settings[key] = Setting(value, f"the environment variable {variable}")
    return settings


def _key_of(variable: str) -> str | None:
    if not variable.startswith(_PREFIX) or variable in _NO_KEYS:
        return None
    key = variable.removeprefix(_PREFIX).lower().replace("__", ".").replace("_", "-")
    key = _WITH_CAPITALS.get(key, key)
    own = f"penstock.{key}"
    if own in KNOWN_KEYS or nearest_key(own) is not None:  # a misspelt one is refused like any other
        return own
    return key if "." in key else None
