"""What tables of both kinds need of stores: a job's access to S3, and the error of one that takes no more."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock._files.job_options import store_options
from penstock._files.s3 import SCHEMES, is_s3_setting, s3_access
from penstock.common.paths import scheme_of
from penstock.errors import CheckpointStorageError, LakeTableError, PathError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Where S3 is, and the keys; None where the library's own defaults count."""

    endpoint: str | None
    region: str | None
    virtual_hosted: str | None
    access_key: str | None
    secret_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


def s3_of(url: str) -> S3Settings | None:
    """Return the job's settings for a URL; None where it is not in S3, or the job has none.

    Raises:
        PathError: The settings contradict each other.
    """
    settings = {key: value for key, value in store_options().items() if is_s3_setting(key)}
    if scheme_of(url) not in SCHEMES or not settings:
        return None
    try:
        access = s3_access(url, {**settings, "s3.path.style.access": settings.get("s3.path.style.access", "true")})
    except CheckpointStorageError as error:
        raise PathError(url, error.reason) from None
    keys = access.credentials() if access.credentials is not None else None
    return S3Settings(
        access.config.get("aws_endpoint"),
        access.config.get("aws_region"),
        access.config.get("aws_virtual_hosted_style_request"),
        keys["access_key_id"] if keys else None,
        keys["secret_access_key"] if keys else None,
        (keys.get("token") or None) if keys else None,
    )


@contextmanager
def refused_by_the_store(what: str, *errors: type[Exception]) -> Generator[None]:
    """Tell what was being written where a disk or a store refuses it.

    Args:
        what: What is done, with the place.
        errors: What a library raises for its store, beside OSError.

    Raises:
        LakeTableError: It was refused.
    """
    try:
        yield
    except (OSError, *errors) as error:
        looks = "see whether it is a folder, the disk has room, and who may write there"
        reason = " ".join(f"{str(error) or type(error).__name__}; {looks}".split())
        raise LakeTableError(what, reason) from error


def types_in(arrow_type: Any) -> list[Any]:
    """Return a type and all that it contains."""
    parts: list[Any] = [arrow_type.field(place).type for place in range(arrow_type.num_fields)]
    if not parts and hasattr(arrow_type, "value_type"):  # a dictionary's, which is no field
        parts.append(arrow_type.value_type)
    return [arrow_type, *(one for part in parts for one in types_in(part))]


def rows_of_file(open_file: Callable[[], Any]) -> Iterator[Any] | None:
    """Return the rows of a Parquet file as dicts; None if there is no such file."""
    import pyarrow.parquet as pq

    try:
        file: Any = pq.ParquetFile(open_file())
    except FileNotFoundError:
        return None
    return (row for batch in file.iter_batches() for row in batch.to_pylist())
