"""Opens object stores through ``obstore``: S3, Google Cloud Storage, Azure, and memory.

The options of a job come first, then the variables that the tools of each store read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, cast

from obstore.store import MemoryStore, from_url

from penstock._files.s3 import SCHEMES, S3Access, is_s3_setting, s3_access
from penstock.common.paths import scheme_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore.store import ClientConfig, ObjectStore, RetryConfig

#: The prefixes of the environment variables of each kind of store.
_VARIABLES: Final = {
    **dict.fromkeys(SCHEMES, "AWS_"),
    "gs": "GOOGLE_",
    **dict.fromkeys(("az", "azure", "adl", "abfs", "abfss"), "AZURE_"),
}
#: Settings of connections that environment variables may have. Explicit options replace all of them, so they are
#: repeated.
_CONNECTION: Final = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "default_content_type",
    "http1_only",
    "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle",
    "http2_max_frame_size",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "randomize_addresses",
    "read_timeout",
    "timeout",
    "user_agent",
)
#: Stores of the scheme ``memory``: shared within the process by their URL, for tests.
_memory: Final[dict[str, MemoryStore]] = {}


def open_store(url: str, options: Mapping[str, str], timeouts: ClientConfig, retries: RetryConfig) -> ObjectStore:
    """Open the store at a URL, rooted there.

    Args:
        url: Of a bucket, or of a directory in it.
        options: Flink's ``s3.…`` keys, for S3 alone, and keys of ``obstore``.
        timeouts: The limits of a request; the environment's come first.
        retries: How long a request is repeated.

    Raises:
        CheckpointStorageError: The options contradict each other, or the endpoint is no URL of a server.
        obstore.exceptions.BaseError: The library refuses an option.
        ValueError: The kind of store is unknown.
    """
    scheme = scheme_of(url)
    if scheme == "memory":
        return _memory.setdefault(url, MemoryStore())
    if scheme in SCHEMES:
        access = s3_access(url, options)
    else:
        access = S3Access({key: value for key, value in options.items() if not is_s3_setting(key)})
    client: dict[str, Any] = {**timeouts, **_of_environment(scheme)}
    if access.allow_http is not None:
        client["allow_http"] = access.allow_http
    return from_url(_quoted(url), client_options=cast("ClientConfig", client), retry_config=retries, **access.arguments)


def bucket_and_key(url: str) -> tuple[str, str]:
    """Split a URL into that of its bucket and the key in it.

    Example:
        >>> bucket_and_key("s3://bucket/a/b"), bucket_and_key("s3://bucket")
        (('s3://bucket', 'a/b'), ('s3://bucket', ''))
    """
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key.strip("/")


def _of_environment(scheme: str) -> dict[str, str]:
    prefix = _VARIABLES.get(scheme)
    if prefix is None:  # a server without variables of its own
        return {}
    found = {option: os.environ.get(prefix + option.upper()) for option in _CONNECTION}
    return {option: value for option, value in found.items() if value is not None}


def _quoted(url: str) -> str:
    """Return a URL for the library, which decodes escapes and drops queries."""
    if url.startswith("http"):
        return url
    return url.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
