"""The table of a configuration: each known key with its value, its default, where the value was set, and its effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.common.config_check import checked
from penstock.common.option_table import KNOWN_KEYS, OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.common.config_check import Setting

DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class EffectiveOption:
    """The value of a key for a program."""

    key: str
    #: As text; None for a key that has no default and is not set.
    value: str | None
    #: Where the value was set.
    origin: str
    default: str | None
    #: The effect of the key, or why it has none here.
    effect: str


def layered(layers: Iterable[Mapping[str, Setting]]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the values of settings by key, and where they were set; later layers win.

    Raises:
        ConfigurationError: A key has an invalid value.
    """
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        values |= checked(layer).to_dict()
        origins |= {KNOWN_KEYS[key].key if key in KNOWN_KEYS else key: layer[key].origin for key in layer}
    return values, origins


def config_table(values: Mapping[str, str], origins: Mapping[str, str]) -> list[EffectiveOption]:
    """Return a row for each key, known keys first.

    Args:
        values: What is set, as it is shown.
        origins: Where; every key of `values` is in it.
    """
    rows: list[EffectiveOption] = []
    for key, option in OPTIONS.items():
        default = None if option.default is None else option.value_type.format(option.default)
        effect = f"no effect: {option.no_effect}" if option.no_effect else option.effect
        rows.append(EffectiveOption(key, values.get(key, default), origins.get(key, DEFAULT), default, effect))
    own = sorted(values.keys() - OPTIONS.keys())
    rows += [EffectiveOption(key, values[key], origins[key], None, "the program's own key") for key in own]
    return rows
