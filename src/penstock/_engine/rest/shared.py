"""The settings that the jobs of one process share, because one REST server serves them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common import option_table
from penstock.common.redaction import shown_value
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.common.config_options import ConfigOption
    from penstock.common.configuration import Configuration

#: The keys of addresses and access, of which one server has one value each.
_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = (
    option_table.REST_BIND_ADDRESS,
    option_table.REST_PORT,
    option_table.REST_BIND_PORT,
    option_table.REST_ADDRESS,
    option_table.PROMETHEUS_FACTORY,
    option_table.PROMETHEUS_PORT,
    option_table.PROMETHEUS_HOST,
    option_table.REST_TOKEN,
    option_table.REST_READ_ONLY_TOKEN,
    option_table.REST_ALLOWED_DIRECTORIES,
    option_table.REST_BEHIND_PROXY,
    option_table.REST_TLS_ENABLED,
    option_table.REST_TLS_KEYSTORE,
    option_table.REST_TLS_KEYSTORE_TYPE,
    option_table.REST_TLS_PRIVATE_KEY,
    option_table.REST_TLS_KEY_PASSWORD,
    option_table.REST_TLS_AUTHENTICATION,
    option_table.REST_TLS_TRUSTSTORE,
    option_table.REST_TLS_TRUSTSTORE_TYPE,
)


class SharedSettings:
    """The settings of the running server, from the first job of the process.

    Args:
        configuration: The configuration of the first job.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._chosen = {option.key: configuration.get(option) for option in _OPTIONS}

    def check_same(self, configuration: Configuration) -> None:
        """Refuse a further job with other settings of the server.

        Raises:
            ConfigurationError: It sets a key to another value; keys that it does not set are accepted.
        """
        for option in _OPTIONS:
            wanted = configuration.get(option)
            if configuration.contains_key(option.key) and wanted != self._chosen[option.key]:
                reason = (
                    "one REST server serves all jobs of a process, and it began with another value. Set the same for "
                    f"each job, or {option_table.REST_ENABLED.key}: false for this one"
                )
                raise ConfigurationError(option.key, shown_value(option.key, str(wanted)), reason)
