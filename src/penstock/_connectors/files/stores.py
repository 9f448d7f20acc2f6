"""Opens object stores by the job's options and the environment, with timeouts that depend on the bytes of a request.

A store that joins the parts of an upload, or copies an object, answers when it is done, which takes minutes for some
GiB. A client that gives up earlier does not know the outcome.
"""

from __future__ import annotations

import math
import os
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from obstore.store import from_url

from penstock.common.paths import scheme_of
from penstock.common.s3 import SCHEMES, S3Access, is_s3_setting, s3_access
from penstock.common.store_options import store_options
from penstock.errors import CheckpointStorageError, PathError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore.store import ClientConfig, RetryConfig

#: The prefixes of the environment variables of each kind of store.
_VARIABLES: Final = {
    "s3": "AWS_",
    "gs": "GOOGLE_",
    **dict.fromkeys(("az", "azure", "adl", "abfs", "abfss"), "AZURE_"),
}
#: Settings of connections that environment variables may have. Explicit options replace all of them, so they are
#: repeated.
_OPTIONS: Final = (
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
#: The timeout of a request in seconds, and the bytes per additional second that the slowest store copies internally.
_USUAL_S: Final = 30.0
_SLOWEST_BYTES: Final = 8 << 20
#: How long a request is tried again, in addition to the timeout of one try.
_RETRIED_S: Final = 180.0


def store_of(root: str, size: int = 0) -> Any:
    """Return the store at a root, opened once.

    Args:
        root: Scheme and bucket.
        size: The bytes that the store copies, or joins from parts, in one request.

    Raises:
        PathError: The job's options contradict each other, or the endpoint is no URL of a server.
    """
    scheme = scheme_of(root)
    if scheme not in _VARIABLES:  # in memory, or a server without environment variables
        return _opened(root, 0)
    given: Mapping[str, str] = store_options() if scheme in SCHEMES else {}
    settings = tuple(sorted(item for item in given.items() if is_s3_setting(item[0])))
    doubled = math.ceil(math.log2(1 + size / _SLOWEST_BYTES / _USUAL_S))  # few, because each store has connections
    return _opened(root, _USUAL_S * 2**doubled, settings)


@lru_cache(maxsize=64)
def _opened(root: str, timeout_s: float, settings: tuple[tuple[str, str], ...] = ()) -> Any:
    if not timeout_s:
        return from_url(root)
    prefix = _VARIABLES[scheme_of(root)]
    said = {option: os.environ.get(prefix + option.upper()) for option in _OPTIONS}
    options: dict[str, Any] = {option: value for option, value in said.items() if value is not None}
    access = _access(root, dict(settings))
    if access.client and "allow_http" in access.client:
        options["allow_http"] = access.client["allow_http"]
    client = cast("ClientConfig", {"timeout": timedelta(seconds=timeout_s), **options})
    retries: RetryConfig = {"retry_timeout": timedelta(seconds=_RETRIED_S + timeout_s)}
    arguments: dict[str, Any] = {**access.arguments, "client_options": client, "retry_config": retries}
    return from_url(root, **arguments)


def _access(root: str, settings: dict[str, str]) -> S3Access:
    """Return the access to a bucket by Flink's keys; without any key, the environment decides."""
    try:
        return s3_access(root, settings) if settings else S3Access()
    except CheckpointStorageError as error:
        raise PathError(root, error.reason) from None
