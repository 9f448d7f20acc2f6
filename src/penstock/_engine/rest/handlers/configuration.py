"""The whole configuration of a job: defaults, and where each other value was set."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import msgspec

from penstock._engine.graph.pickling import script_directory
from penstock._engine.rest.routing import Route
from penstock.common.config_loading import outer_settings
from penstock.common.config_table import config_table, layered
from penstock.common.redaction import Redaction
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.rest.routing import HandlerRequest

_PROGRAM: Final = "the program"


class ConfigurationOption(msgspec.Struct):
    """A key with its value."""

    key: str
    #: None for a key that has no default and is not set; values that are secret are hidden.
    value: str | None
    #: Where the value was set: a file, an environment variable, the command line or the program; else "default".
    origin: str
    default: str | None
    effect: str


def whole(request: HandlerRequest) -> list[ConfigurationOption]:
    """The whole configuration of a job, with defaults and where each value was set; secrets are hidden."""
    values = request.job.configuration
    return [ConfigurationOption(**asdict(row)) for row in config_table(values, _origins(values))]


def _origins(values: Mapping[str, str]) -> dict[str, str]:
    """Return where each value was set: by the program, unless the last setting outside of it is the same."""
    try:
        outer, origins = layered(outer_settings(script_directory(), os.environ))
    except PenstockError:  # a file that was changed meanwhile
        outer, origins = dict[str, str](), dict[str, str]()
    shown = Redaction.of(outer).value
    same = {key for key, value in outer.items() if values.get(key) == shown(key, value)}
    return {key: origins[key] if key in same else _PROGRAM for key in values}


ROUTES = (
    Route(
        *("GET", "/jobs/{jobid}/penstock/configuration", whole, list[ConfigurationOption]),
        errors={404: "There is no such job."},
    ),
)
