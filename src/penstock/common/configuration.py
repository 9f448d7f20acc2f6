"""Configuration: the keys and values that a program sets (``pyflink.common.configuration``).

Values are kept as text, as written in a ``config.yaml``; typed getters parse it. :mod:`penstock.common.option_table`
defines the keys, and :mod:`penstock.common.config_loading` loads files and the environment.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, TypeVar

from penstock._absent import explain, table
from penstock.common.config_values import BOOL, FLOAT, INT, LIST, ValueType
from penstock.common.redaction import Redaction, shown_value
from penstock.errors import ConfigurationError, UnsupportedOperationError

if TYPE_CHECKING:
    from penstock.common.config_options import ConfigOption

__all__ = ["Configuration"]

T = TypeVar("T")


class Configuration:
    """Keys and their values.

    The setters return this configuration, so that calls chain. A getter for a value of another type than it reads
    raises :class:`penstock.errors.ConfigurationError`, which names the key.

    Args:
        other: A configuration to copy.
        j_configuration: None: there is no Java object behind it.

    Raises:
        UnsupportedOperationError: There is a ``j_configuration``.

    Source: ``pyflink.common.Configuration``.

    Example:
        >>> config = Configuration().set_string("parallelism.default", "4").set_boolean("pipeline.object-reuse", True)
        >>> config.get_integer("parallelism.default", 1)
        4
        >>> print(config)
        {parallelism.default=4, pipeline.object-reuse=true}
    """

    def __init__(self, other: Configuration | None = None, *, j_configuration: None = None) -> None:
        if j_configuration is not None:
            operation = "Configuration(j_configuration=...)"
            raise UnsupportedOperationError(
                operation, table()["common.configuration", "Configuration._j_configuration"]
            )
        self._values: dict[str, str] = {} if other is None else dict(other._values)
        #: By key: a text, and the value that was set as it; it does not count once the key has another text.
        self._typed: dict[str, tuple[str, object]] = {} if other is None else dict(other._typed)

    @classmethod
    def from_dict(cls, map: dict[str, str]) -> Configuration:  # noqa: A002 - PyFlink's parameter name
        """Make a configuration of keys and texts."""
        configuration = cls()
        for key, value in map.items():
            configuration.set_string(key, value)
        return configuration

    def get(self, option: ConfigOption[T]) -> T:
        """Return the value of an option: under its key, else under an older name of it, else its default.

        Raises:
            ConfigurationError: The text is no value of this option.

        Example:
            >>> from penstock.common.option_table import CHECKPOINT_DIRECTORY
            >>> Configuration().set_string("state.checkpoints.dir", "/data/chk").get(CHECKPOINT_DIRECTORY)
            '/data/chk'
        """
        for key in (option.key, *option.aliases):
            if key in self._values:
                return option.parse(self._values[key])
        return option.default

    def set(self, option: ConfigOption[T], value: T) -> Configuration:
        """Set the value of an option; None unsets an option that has no default.

        Raises:
            ConfigurationError: The option cannot have that value.
        """
        try:
            text = option.value_type.format(value)
        except ValueError as error:
            raise ConfigurationError(option.key, shown_value(option.key, str(value)), str(error)) from None
        if value is not None:
            option.parse(text)
        for key in (option.key, *option.aliases):
            self._values.pop(key, None)
        return self if value is None else self.set_string(option.key, text)

    def get_string(self, key: str, default_value: str) -> str:
        """Return the text of a key."""
        return self._values.get(key, default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        """Set the text of a key.

        Raises:
            TypeError: Key or value is no str.
            ConfigurationError: It has lone surrogates, which can be neither stored nor sent.
        """
        for part in (key, value):
            if not isinstance(part, str):  # pyright: ignore[reportUnnecessaryIsInstance] - programs are not all checked
                msg = f"Keys and values are texts, but {part!r} is a {type(part).__name__} (key {key!r})."
                raise TypeError(msg)
            try:
                part.encode()
            except UnicodeEncodeError:
                raise ConfigurationError(
                    key, shown_value(key, value), "it has halves of characters (lone surrogates)"
                ) from None
        self._values[key] = value
        self._typed.pop(key, None)
        return self

    def get_integer(self, key: str, default_value: int) -> int:
        """Return the whole number of a key."""
        return self._read(key, INT, default_value)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set a key to a whole number."""
        return self._write(key, INT, value)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return the truth value of a key."""
        return self._read(key, BOOL, default_value)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set a key to True or False."""
        return self._write(key, BOOL, value)

    def get_float(self, key: str, default_value: float) -> float:
        """Return the number of a key."""
        return self._read(key, FLOAT, float(default_value))

    def set_float(self, key: str, value: float) -> Configuration:
        """Set a key to a number."""
        return self._write(key, FLOAT, float(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return the bytes of a key; a copy."""
        return bytearray(self._read(key, _BYTES, bytes(default_value)))

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set a key to some bytes."""
        self._write(key, _BYTES, bytes(value))
        self._typed[key] = self._values[key], bytearray(value)
        return self

    def _write(self, key: str, value_type: ValueType[T], value: T) -> Configuration:
        self.set_string(key, value_type.format(value))
        self._typed[key] = self._values[key], value
        return self

    def _read(self, key: str, value_type: ValueType[T], default: T) -> T:
        text = self._values.get(key)
        if text is None:
            return default
        try:
            return value_type.parse(text)
        except ValueError as error:
            raise ConfigurationError(key, shown_value(key, text), str(error)) from None

    @staticmethod
    def parse_list_value(value: str | None) -> list[str]:
        r"""Read a list as it is written in a value: ``[a, b]``, ``a;b``, or a line ``- a`` for each item.

        Example:
            >>> Configuration.parse_list_value("one.py;two.py"), Configuration.parse_list_value("- one.py\n- two.py")
            (['one.py', 'two.py'], ['one.py', 'two.py'])
        """
        return list(LIST.parse(value)) if value else []

    def key_set(self) -> set[str]:
        """Return the keys."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Tell whether a key is set."""
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Remove a key, and tell whether it was set."""
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Add all keys of another configuration, which override existing ones.

        Args:
            other: The other configuration.
            prefix: Put before each of its keys.
        """
        self._values.update({(prefix or "") + key: value for key, value in other._values.items()})
        self._typed.update({(prefix or "") + key: value for key, value in other._typed.items()})
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Put all keys into a dict, with the numbers, truth values and bytes that were set as such, and else texts.

        Example:
            >>> found = {}
            >>> Configuration().set_integer("a", 1).set_string("b", "1").add_all_to_dict(found)
            >>> found
            {'a': 1, 'b': '1'}
        """
        for key, text in self._values.items():
            of_text, value = self._typed.get(key, (text, text))
            target_dict[key] = value if of_text == text else text

    def to_dict(self) -> dict[str, str]:
        """Return all keys and texts."""
        return dict(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __str__(self) -> str:
        shown = Redaction.of(self._values).value
        return f"{{{', '.join(f'{key}={shown(key, value)}' for key, value in self._values.items())}}}"


def _parse_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        msg = "it was not set as bytes"
        raise ValueError(msg) from None


_BYTES: ValueType[bytes] = ValueType("bytes", _parse_bytes, lambda value: base64.b64encode(value).decode("ascii"))

explain(__name__)
