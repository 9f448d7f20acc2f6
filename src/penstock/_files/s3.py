"""The access to S3: converts Flink's ``s3.…`` keys and the variables of the AWS tools to options of ``obstore``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from penstock.common import option_table
from penstock.common.configuration import Configuration
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from obstore.store import S3Credential

SCHEMES: Final = frozenset({"s3", "s3a"})
#: The variables in order; the first one that is set counts.
_ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


@dataclass(frozen=True, slots=True)
class S3Access:
    """The options of ``obstore`` for a URL."""

    config: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    #: Whether the endpoint is reached without TLS; None where the environment decides.
    allow_http: bool | None = None
    #: Configured credentials; with them, credentials in the environment are ignored.
    credentials: Callable[[], S3Credential] | None = field(default=None, repr=False)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``from_url``, beside the settings of its connections."""
        named = {"config": self.config, "credential_provider": self.credentials}
        return {name: value for name, value in named.items() if value}


def is_s3_setting(key: str) -> bool:
    """Tell whether a configuration key is about the access to S3; its value may be a secret."""
    return key.startswith(("s3.", "fs.s3a."))


def s3_access(url: str, options: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> S3Access:
    """Return the access to a bucket.

    Args:
        url: Of a directory in it.
        options: Flink's ``s3.…`` keys, and keys of ``obstore``.
        environ: The environment, for missing options; ``obstore`` itself finds credentials and region there.

    Raises:
        CheckpointStorageError: The options contradict each other, or the endpoint is no URL of a server.
    """
    settings = Configuration.from_dict(dict(options))
    config = {key: value for key, value in options.items() if not is_s3_setting(key)}
    if region := settings.get(option_table.S3_REGION):
        config["aws_region"] = region
    is_path_style = settings.get(option_table.S3_PATH_STYLE)
    if is_path_style is not None:
        config["aws_virtual_hosted_style_request"] = str(not is_path_style).lower()
    allow_http = None
    if endpoint := settings.get(option_table.S3_ENDPOINT) or _first(environ, _ENDPOINT_VARIABLES):
        server = _server(url, endpoint)
        allow_http = server.startswith("http:")
        config["aws_endpoint"] = server if is_path_style is not False else _with_bucket(server, url)
    return S3Access(config, allow_http, _credentials(url, settings))


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)


def _server(url: str, endpoint: str) -> str:
    """Return the URL of a server; one that names no scheme means https, as in Flink."""
    server = endpoint.rstrip("/") if "://" in endpoint else f"https://{endpoint.rstrip('/')}"
    # The library aborts the thread if the URL is invalid.
    if not re.fullmatch(r"https?://[\w.\-]+(:\d+)?|https?://\[[\da-fA-F:.]+\](:\d+)?", server):
        reason = f"s3.endpoint is {endpoint!r}, which is no address of a server such as https://host:9000"
        raise CheckpointStorageError(url, reason)
    return server


def _with_bucket(server: str, url: str) -> str:
    """Return the address of a bucket with its own host name."""
    scheme, _, host = server.partition("://")
    return f"{scheme}://{urlsplit(url).netloc}.{host}"


def _credentials(url: str, settings: Configuration) -> Callable[[], S3Credential] | None:
    key, secret = settings.get(option_table.S3_ACCESS_KEY), settings.get(option_table.S3_SECRET_KEY)
    if key is None and secret is None:
        return None
    if key is None or secret is None:
        there, missing = ("s3.secret-key", "s3.access-key") if key is None else ("s3.access-key", "s3.secret-key")
        raise CheckpointStorageError(url, f"{there} is set, and {missing} is not")
    token = settings.get(option_table.S3_SESSION_TOKEN)
    found = {"access_key_id": key, "secret_access_key": secret, "token": token, "expires_at": None}
    return lambda: cast("S3Credential", found)
