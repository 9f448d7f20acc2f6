"""What the settings and the environment say about S3, without a server."""

from __future__ import annotations

import pytest

from penstock._engine.storage.opening import open_storage
from penstock._files.s3 import s3_access
from penstock.errors import CheckpointStorageError

URL = "s3://orders/checkpoints"
KEYS = {"s3.access-key": "us", "s3.secret-key": "hush"}


@pytest.mark.parametrize(
    ("endpoint", "server", "is_plain"),
    [
        ("http://minio:9000/", "http://minio:9000", True),
        ("minio:9000", "https://minio:9000", False),
        ("https://[::1]:9000", "https://[::1]:9000", False),
    ],
)
def test_endpoint_is_a_server_with_or_without_a_scheme(endpoint: str, server: str, is_plain: bool) -> None:
    access = s3_access(URL, {"s3.endpoint": endpoint}, {})
    assert access.config == {"aws_endpoint": server}
    assert access.allow_http is is_plain


def test_without_an_endpoint_amazons_is_left_to_the_library() -> None:
    access = s3_access(URL, {"s3.region": "eu-west-1"}, {})
    assert access.config == {"aws_region": "eu-west-1"}
    assert access.credentials is None


def test_bucket_stands_in_the_name_of_the_host_where_that_is_asked_for() -> None:
    access = s3_access(URL, {"s3.endpoint": "http://minio:9000", "s3.path.style.access": "false"}, {})
    assert access.config == {
        "aws_endpoint": "http://orders.minio:9000",
        "aws_virtual_hosted_style_request": "true",
    }


@pytest.mark.parametrize(
    "names",
    [
        ("s3.access.key", "s3.secret.key", "s3.path-style-access"),
        ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.path.style.access"),
    ],
)
def test_other_names_that_flink_takes_mean_the_same(names: tuple[str, str, str]) -> None:
    access = s3_access(URL, dict(zip(names, ("us", "hush", "true"), strict=True)), {})
    assert access.config == {"aws_virtual_hosted_style_request": "false"}
    assert access.credentials is not None
    assert access.credentials()["secret_access_key"] == "hush"


def test_configured_keys_count_alone_although_the_environment_has_a_token_of_others() -> None:
    access = s3_access(URL, KEYS, {"AWS_SESSION_TOKEN": "of others"})
    assert access.credentials is not None
    assert access.credentials()["token"] is None


def test_no_secret_is_shown() -> None:
    access = s3_access(URL, {**KEYS, "aws_secret_access_key": "hush"}, {})
    assert "hush" not in repr(access)


@pytest.mark.parametrize("endpoint", ["http://", "ftp://minio", "http://two words:9000", "http://minio:9000/path"])
def test_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(CheckpointStorageError, match="no address of a server such as https://host:9000"):
        open_storage(URL, {"s3.endpoint": endpoint})


def test_settings_of_s3_say_nothing_to_other_stores() -> None:
    open_storage("gs://orders/checkpoints", {**KEYS, "s3.endpoint": "http://minio:9000"})


def test_setting_that_obstore_does_not_know_is_told() -> None:
    with pytest.raises(CheckpointStorageError, match="'colour' is not valid"):
        open_storage(URL, {"colour": "blue"})
