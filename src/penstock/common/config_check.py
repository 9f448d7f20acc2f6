"""Checks the keys of one origin of configuration against the table.

Every known key gets its newest name and a valid value; unknown keys and keys without effect are logged once per
process. An unknown key that is nearly one of Penstock's is refused, because the job would run without the intended
setting. This module does not know the origin of settings.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from penstock.common import option_table, restart_options
from penstock.common.configuration import Configuration
from penstock.common.flink_keys import is_flinks
from penstock.common.redaction import hiding, shown_value
from penstock.errors import ConfigurationError, UnknownKeyError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.config_options import ConfigOption

_log = hiding(logging.getLogger(__name__))

_MAX_TYPOS = 2

_said: set[str] = set()


@dataclass(frozen=True, slots=True)
class Setting:
    """A value as text, and where it was set.

    Args:
        value: The text.
        origin: A file or an environment variable; empty for the program.
    """

    value: str
    origin: str = ""


def checked(settings: Mapping[str, Setting]) -> Configuration:
    """Return the settings of one place, each known key by its newest name.

    Raises:
        ConfigurationError: A known key has a value that it cannot have.
        UnknownKeyError: A key that is read is misspelt.
    """
    result: dict[str, str] = {}
    # Newest names last, so that they win where a key is set by two of its names.
    for key, setting in sorted(settings.items(), key=lambda item: item[0] in option_table.OPTIONS):
        option = option_table.KNOWN_KEYS.get(key)
        if option is None:
            _check_unknown(key, setting)
            result[key] = setting.value
        else:
            result[option.key] = _checked_text(option, key, setting)
    return Configuration.from_dict(result)


def _checked_text(option: ConfigOption[Any], key: str, setting: Setting) -> str:
    value = option.parse(setting.value, setting.origin)
    if key != option.key:
        _say_once(key, f"{key} is an older name of {option.key}; both work.")
    say_if_without_effect(option, value, setting.value)
    return option.value_type.format(value) if option.value_type.depends_on_place else setting.value


def _check_unknown(key: str, setting: Setting) -> None:
    if key.startswith("metrics.reporter."):
        _say_once(key, f"{key} has no effect: there is metrics.reporter.prom, with factory.class, port and host.")
        return
    if is_flinks(key):
        _say_once(key, f"{key} is not a key that Penstock reads; it has no effect.")
        return
    meant = nearest_key(key)
    if meant is None and key.startswith(_OURS):
        like = get_close_matches(key, [known for known in option_table.KNOWN_KEYS if known.startswith(_OURS)], 1)
        reason = f"Penstock has no such key{f'; {like[0]} is the most like it' if like else ''}"
        raise UnknownKeyError(key, shown_value(key, setting.value), reason, setting.origin)
    if meant is None:
        if key.partition(".")[0] in _NAMESPACES:
            _say_once(key, f"{key} is not a key that Penstock knows; it has no effect.")
    elif option_table.KNOWN_KEYS[meant].no_effect:
        _say_once(key, f"There is no key {key}; did you mean {meant}?")
    else:
        reason = f"it reads like {meant}; change it to that, or rename a key of your own"
        raise UnknownKeyError(key, shown_value(key, setting.value), reason, setting.origin)


def say_if_without_effect(option: ConfigOption[Any], value: object, text: str | None = None) -> None:
    """Log once that a key is set and has no effect, if it has none.

    Args:
        option: The key.
        value: Its value.
        text: The value as it was written; by default as the key's type writes it.
    """
    if option.no_effect and value != option.default:
        text = option.value_type.format(value) if text is None else text
        _say_once(option.key, f"{option.key} = {text} has no effect: {option.no_effect}.")


def say_without_effect(what: str, reason: str) -> None:
    """Log once that a call has no effect.

    Args:
        what: What was called.
        reason: Why it does nothing, a clause without a full stop.
    """
    _say_once(what, f"{what} has no effect: {reason}.")


def _say_once(key: str, text: str) -> None:
    if key not in _said:
        _said.add(key)
        _log.warning("%s", text)


def check_together(configuration: Configuration) -> None:
    """Check rules about pairs of keys, after the settings of all origins are merged.

    Raises:
        ConfigurationError: They do not fit.
    """
    for smaller, larger in _ORDERED:
        low, high = configuration.get(smaller), configuration.get(larger)
        if low > high:
            text = smaller.value_type.format(low)
            limit = larger.value_type.format(high)
            raise ConfigurationError(smaller.key, text, f"it is more than {larger.key}, which is {limit}")


_AUTO_PARALLELISM = "execution.batch.adaptive.auto-parallelism.{}-parallelism"
_ORDERED: tuple[tuple[ConfigOption[Any], ConfigOption[Any]], ...] = (
    (restart_options.EXPONENTIAL_INITIAL_BACKOFF, restart_options.EXPONENTIAL_MAX_BACKOFF),
    (option_table.OPTIONS[_AUTO_PARALLELISM.format("min")], option_table.OPTIONS[_AUTO_PARALLELISM.format("max")]),
)


def nearest_key(key: str) -> str | None:
    """Return the known key that this one is a misspelling of: at most two letters added, left out or changed.

    Example:
        >>> nearest_key("execution.checkpointing.intervall")
        'execution.checkpointing.interval'
    """
    near = ((_distance(key, known), known) for known in option_table.KNOWN_KEYS)
    distance, known = min(near)
    return known if distance <= _MAX_TYPOS else None


def _distance(a: str, b: str) -> int:
    """Return the number of letters to add, leave out or change between two texts; more than two is not exact."""
    if abs(len(a) - len(b)) > _MAX_TYPOS:
        return _MAX_TYPOS + 1
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != other))
    return row[-1]


#: Below this all keys are ours.
_OURS = "penstock."

# Below these only Flink and Penstock have keys; any other unknown key is the program's own.
_NAMESPACES = frozenset(
    (
        *(key.partition(".")[0] for key in option_table.KNOWN_KEYS),
        *("blob", "classloader", "cluster", "compiler", "external-resource", "external-resources", "fs", "heartbeat"),
        *("historyserver", "kubernetes", "minicluster", "pekko", "queryable-state", "security", "slot", "slotmanager"),
        *("table", "yarn", "zookeeper"),
    )
)
