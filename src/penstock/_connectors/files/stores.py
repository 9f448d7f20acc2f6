"""Opens object stores by the job's options and the environment, with timeouts that depend on the bytes of a request.

A store that joins the parts of an upload, or copies an object, answers when it is done, which takes minutes for some
GiB. A client that gives up earlier does not know the outcome.
"""

from __future__ import annotations

import math
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from penstock._files.job_options import store_options
from penstock._files.s3 import SCHEMES, is_s3_setting
from penstock._files.stores import open_store
from penstock.common.paths import scheme_of
from penstock.errors import CheckpointStorageError, PathError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore.store import ClientConfig, RetryConfig

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
    given: Mapping[str, str] = store_options() if scheme_of(root) in SCHEMES else {}
    settings = tuple(sorted(item for item in given.items() if is_s3_setting(item[0])))
    doubled = math.ceil(math.log2(1 + size / _SLOWEST_BYTES / _USUAL_S))  # few, because each store has connections
    return _opened(root, _USUAL_S * 2**doubled, settings)


@lru_cache(maxsize=64)
def _opened(root: str, timeout_s: float, settings: tuple[tuple[str, str], ...]) -> Any:
    timeouts: ClientConfig = {"timeout": timedelta(seconds=timeout_s)}
    retries: RetryConfig = {"retry_timeout": timedelta(seconds=_RETRIED_S + timeout_s)}
    try:
        return open_store(root, dict(settings), timeouts, retries)
    except CheckpointStorageError as error:
        raise PathError(root, error.reason) from None
