"""One configuration key: its type, its default, its older names (``pyflink.common.config_options``).

The keys that Penstock knows are in :mod:`penstock.common.option_table`; a program makes its own with
:class:`ConfigOptions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from penstock.common.config_values import BOOL, FLOAT, INT, STRING, ValueType
from penstock.common.redaction import shown_value
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """A configuration key with the type of its value.

    Args:
        key: The key.
        value_type: How its text is read and written.
        default: The value where the key is not set.
        aliases: Older names of the key, which keep working.
        effect: The effect of the key, a clause.
        no_effect: Why the key does nothing here, a clause; empty when it does something.

    Source: org.apache.flink.configuration.ConfigOption.
    """

    key: str
    value_type: ValueType[T]
    default: T
    aliases: tuple[str, ...] = ()
    effect: str = ""
    no_effect: str = ""

    def parse(self, text: str, origin: str = "") -> T:
        """Read a value.

        Args:
            text: The value as it was configured.
            origin: Where it was configured, for the message.

        Raises:
            ConfigurationError: The text is no value of this key.
        """
        try:
            return self.value_type.parse(text)
        except ValueError as error:
            raise ConfigurationError(self.key, shown_value(self.key, text), str(error), origin) from None


_INT32 = INT.where(lambda value: -(2**31) <= value < 2**31, "between -2147483648 and 2147483647")
_INT64 = INT.where(lambda value: -(2**63) <= value < 2**63, "between -2**63 and 2**63 - 1")


class ConfigOptions:
    """Makes options for a program's own keys.

    Source: ``pyflink.common.ConfigOptions``.

    Example:
        >>> option = ConfigOptions.key("myjob.threshold").int_type().default_value(100)
        >>> option.key, option.default
        ('myjob.threshold', 100)
    """

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Start an option."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """An option with a key and without a type."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """Set the type of values to True and False."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, BOOL)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Let the values be ints of 32 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, _INT32)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """Let the values be ints of 64 bits."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, _INT64)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Let the values be floats."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, FLOAT)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """Let the values be floats."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, FLOAT)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """Let the values be texts."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, STRING)

    class TypedConfigOptionBuilder(Generic[V]):
        """An option with a key and a type."""

        def __init__(self, key: str, value_type: ValueType[V]) -> None:
            self._key, self._value_type = key, value_type

        def default_value(self, value: V) -> ConfigOption[V]:
            """Finish the option with a value for where the key is not set."""
            return ConfigOption(self._key, self._value_type, value)

        def no_default_value(self) -> ConfigOption[V | None]:
            """Finish the option; where the key is not set, its value is None."""
            return optional(self._key, self._value_type, effect="")


def _optional(value_type: ValueType[V]) -> ValueType[V | None]:
    """Widen the type to what an option without default can be; None is never written."""
    return ValueType(
        value_type.name,
        value_type.parse,
        lambda value: "" if value is None else value_type.format(value),
        value_type.depends_on_place,
    )


def option(
    key: str,
    value_type: ValueType[V],
    default: V,
    effect: str,
    *,
    aliases: tuple[str, ...] = (),
    no_effect: str = "",
) -> ConfigOption[V]:
    """Make an option with a default; see ConfigOption for the arguments."""
    return ConfigOption(key, value_type, default, aliases, effect, no_effect)


def optional(
    key: str,
    value_type: ValueType[V],
    effect: str,
    *,
    aliases: tuple[str, ...] = (),
    no_effect: str = "",
) -> ConfigOption[V | None]:
    """Make an option that is None where the key is not set; see ConfigOption for the arguments."""
    return ConfigOption(key, _optional(value_type), None, aliases, effect, no_effect)


def options_in(names: Mapping[str, Any]) -> tuple[ConfigOption[Any], ...]:
    """Return the options among the names of a module, in their order.

    Args:
        names: What ``vars()`` gives at the end of the module.
    """
    return tuple(cast("ConfigOption[Any]", one) for one in names.values() if isinstance(one, ConfigOption))
