"""TLS of the REST server, configured by Flink's keys; the files are PEM and not Java keystores."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.common import option_table
from penstock.common.file_modes import warn_of_readers
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.common.config_options import ConfigOption
    from penstock.common.configuration import Configuration

_CERTIFICATE: Final = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
#: The maximum size of a file with certificates and a key.
_LARGEST: Final = 1 << 20
_WAY_OUT: Final = (
    "PEM files are read here: `openssl pkcs12 -in rest.p12 -out rest.pem -noenc` makes one of a PKCS12 keystore, which "
    "`keytool -importkeystore -deststoretype PKCS12` makes of a JKS one"
)


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificates of the server, and the requirements for its clients."""

    context: ssl.SSLContext
    #: The server's certificate as PEM, by which the command line recognizes the server.
    certificate: str
    #: The files with certificate and key for this user's clients, if clients must have a certificate.
    client_files: tuple[str, str | None] | None


def read_tls(configuration: Configuration) -> Tls | None:
    """Read the TLS settings; None if TLS is off.

    Raises:
        ConfigurationError: A file is missing, or is no PEM file.
    """
    if not configuration.get(option_table.REST_TLS_ENABLED):
        return None
    keystore = _pem(configuration, option_table.REST_TLS_KEYSTORE, option_table.REST_TLS_KEYSTORE_TYPE)
    key = configuration.get(option_table.REST_TLS_PRIVATE_KEY)
    certificate = _CERTIFICATE.search(_text(option_table.REST_TLS_KEYSTORE, keystore))
    if certificate is None:
        raise ConfigurationError(option_table.REST_TLS_KEYSTORE.key, keystore, "there is no certificate in it")
    password = configuration.get(option_table.REST_TLS_KEY_PASSWORD) or ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(keystore, key, lambda: password)  # never asks for a password at the terminal
    except (OSError, ValueError) as error:
        named = option_table.REST_TLS_KEYSTORE if key is None else option_table.REST_TLS_PRIVATE_KEY
        reason = (
            f"it and its key cannot be read ({_said(error)}); the key stands in the same file or in that of "
            f"{option_table.REST_TLS_PRIVATE_KEY.key}, its password in {option_table.REST_TLS_KEY_PASSWORD.key}"
        )
        raise ConfigurationError(named.key, key or keystore, reason) from None
    if "ENCRYPTED" not in _text(option_table.REST_TLS_PRIVATE_KEY, key or keystore):
        warn_of_readers(key or keystore, "the private key of the REST server")
    is_mutual = configuration.get(option_table.REST_TLS_AUTHENTICATION)
    if is_mutual:
        _ask_for_certificates(context, configuration)
    return Tls(context, certificate.group(), (keystore, key) if is_mutual else None)


def _ask_for_certificates(context: ssl.SSLContext, configuration: Configuration) -> None:
    truststore = _pem(configuration, option_table.REST_TLS_TRUSTSTORE, option_table.REST_TLS_TRUSTSTORE_TYPE)
    try:
        context.load_verify_locations(truststore)
    except (OSError, ValueError) as error:
        reason = f"its certificates cannot be read ({_said(error)})"
        raise ConfigurationError(option_table.REST_TLS_TRUSTSTORE.key, truststore, reason) from None
    context.verify_mode = ssl.CERT_REQUIRED


def _said(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def _pem(configuration: Configuration, option: ConfigOption[str | None], kind: ConfigOption[str | None]) -> str:
    """Return the path of a PEM file; raise ConfigurationError for another file."""
    path, said = configuration.get(option), configuration.get(kind)
    if path is None:
        raise ConfigurationError(option.key, "", f"it is not set, and TLS of REST needs it. {_WAY_OUT}")
    if said is not None and said.upper() != "PEM":
        raise ConfigurationError(kind.key, said, f"keystores of Java's cannot be read. {_WAY_OUT}")
    if "-----BEGIN " not in _text(option, path):
        raise ConfigurationError(option.key, path, f"it is no PEM file, but perhaps a keystore of Java's. {_WAY_OUT}")
    return path


def _text(option: ConfigOption[str | None], path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(_LARGEST).decode("latin-1")
    except OSError as error:
        raise ConfigurationError(option.key, path, f"it cannot be read ({error.strerror})") from None
