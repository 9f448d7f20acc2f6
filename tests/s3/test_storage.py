"""The contract of checkpoint storage on a real S3 server, and what only such a one shows."""

from __future__ import annotations

import multiprocessing
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING

import pytest
from tests.services.proxy import UNAVAILABLE, Proxy
from tests.services.s3 import S3Server
from tests.unit.storage.test_storage import (
    test_deleting_leaves_no_empty_checkpoint,
    test_file_is_read_back,
    test_file_that_is_too_short_is_named,
    test_listing_shows_names_below_and_files_at_any_depth,
    test_missing_file_is_named,
    test_probe_leaves_nothing_behind,
    test_second_conditional_put_changes_nothing,
)

from penstock._engine.storage import object_store
from penstock._engine.storage.opening import open_storage
from penstock.errors import CheckpointStorageError
from penstock.savepoint import Savepoint, SavepointWriter

if TYPE_CHECKING:
    from penstock._engine.storage.checkpoint_storage import FileStorage

__all__ = [
    "test_deleting_leaves_no_empty_checkpoint",
    "test_file_is_read_back",
    "test_file_that_is_too_short_is_named",
    "test_listing_shows_names_below_and_files_at_any_depth",
    "test_missing_file_is_named",
    "test_probe_leaves_nothing_behind",
    "test_second_conditional_put_changes_nothing",
]

pytestmark = pytest.mark.s3

#: The longest acceptable time until a wrong address is reported; a busy machine is slow.
SOON_S = 30


@pytest.fixture(params=["", "/checkpoints", "/a b/100%25"])
def storage(request: pytest.FixtureRequest, server: S3Server, bucket: str) -> FileStorage:
    return open_storage(f"s3://{bucket}{request.param}", server.settings)


def test_same_storage_opens_by_its_url(storage: FileStorage, server: S3Server) -> None:
    storage.put("job/x", b"x")
    assert open_storage(storage.url, server.settings).read("job/x") == b"x"
    assert open_storage(storage.url.replace("s3://", "s3a://"), server.settings).read("job/x") == b"x"


# ---------------------------------------------------------------------------------------------------- who writes first


def _put_all(url: str, settings: dict[str, str], mark: bytes, rounds: int) -> list[int]:
    storage = open_storage(url, settings)
    return [number for number in range(rounds) if storage.put_if_absent(f"job/chk-{number}/_metadata", mark)]


def test_of_two_processes_that_put_the_same_names_each_name_has_one_winner(server: S3Server, bucket: str) -> None:
    url, rounds = f"s3://{bucket}", 50
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        calls = [(url, server.settings, mark, rounds) for mark in (b"first", b"second")]
        first, second = pool.starmap(_put_all, calls)
    storage = open_storage(url, server.settings)
    found = {number: storage.read(f"job/chk-{number}/_metadata") for number in range(rounds)}
    assert sorted(first + second) == list(range(rounds))
    assert found == dict.fromkeys(first, b"first") | dict.fromkeys(second, b"second")


@pytest.mark.parametrize("instead", [b"", UNAVAILABLE])
def test_answer_lost_on_a_conditional_put_leaves_what_was_written(
    server: S3Server, bucket: str, instead: bytes
) -> None:
    with Proxy(server.port) as proxy:
        storage = open_storage(f"s3://{bucket}", {**server.settings, "s3.endpoint": proxy.endpoint})
        proxy.lose(lambda head: head.startswith("PUT") and not proxy.lost, instead)
        assert not storage.put_if_absent("job/chk-1/_metadata", b"ours")  # asked again, it says that it is there
        assert len(proxy.lost) == 1
        assert storage.find("job/chk-1/_metadata") == b"ours"


def test_lost_answer_makes_no_store_look_forgetful_and_no_savepoint_that_of_others(
    server: S3Server, bucket: str
) -> None:
    with Proxy(server.port) as proxy:
        settings = {**server.settings, "s3.endpoint": proxy.endpoint}
        proxy.lose(lambda head: head.startswith("PUT") and ".probe" in head and not proxy.lost, UNAVAILABLE)
        open_storage(f"s3://{bucket}", settings).probe()
        assert server.keys(bucket) == []
        proxy.lose(lambda head: head.startswith("PUT") and "/_metadata" in head and len(proxy.lost) == 1, UNAVAILABLE)
        writer = SavepointWriter.new(options=settings).set_keyed_state("totals", "total", {"ada": 3})
        path = writer.write(f"s3://{bucket}/savepoint")
        assert len(proxy.lost) == 2
    [operator] = Savepoint.open(path, server.settings).operators
    assert operator.uid == "totals"


# --------------------------------------------------------------------------------------------------------------- sizes


def test_listing_goes_beyond_a_page_and_one_request_deletes_many(server: S3Server, bucket: str) -> None:
    names = sorted(f"state-{number:05}" for number in range(1100))
    direct = open_storage(f"s3://{bucket}/checkpoints", server.settings)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: direct.put(f"job/shared/{name}", b"x"), names))
    with Proxy(server.port) as proxy:
        storage = open_storage(f"s3://{bucket}/checkpoints", {**server.settings, "s3.endpoint": proxy.endpoint})
        assert storage.names("job/shared") == names
        assert [file.path for file in storage.files("job")] == [f"job/shared/{name}" for name in names]
        deletions: list[str] = []
        proxy.lose(lambda head: bool(deletions.append(head.split()[0])))
        storage.delete(f"job/shared/{name}" for name in [*names, "gone before"])
        assert deletions == ["POST"] * 6
    assert server.keys(bucket) == []


def test_large_files_are_read_back(server: S3Server, bucket: str) -> None:
    storage = open_storage(f"s3://{bucket}", server.settings)
    data = bytes(range(256)) * (64 << 12)
    storage.put("job/shared/large", data)  # in parts
    assert storage.read("job/shared/large") == data
    assert storage.read_range("job/shared/large", (64 << 20) - 3, 3) == b"\xfd\xfe\xff"
    assert storage.put_if_absent("job/blobs/large", data)  # in one request
    assert storage.read("job/blobs/large") == data
    storage.copy_from(storage, "job/shared/large", "job/shared/copy")
    assert storage.read("job/shared/copy") == data


@pytest.mark.parametrize("at", range(1, 6))
def test_answer_lost_on_any_request_of_a_file_in_parts_leaves_it_whole(server: S3Server, bucket: str, at: int) -> None:
    data, requests = bytes(range(256)) * (48 << 10), count(1)  # three parts, what begins and what ends them
    with Proxy(server.port) as proxy:
        storage = open_storage(f"s3://{bucket}", {**server.settings, "s3.endpoint": proxy.endpoint})
        proxy.lose(lambda _: next(requests) == at)
        storage.put("job/shared/large", data)
        assert len(proxy.lost) == 1
        assert storage.read("job/shared/large") == data


def test_copies_within_a_bucket_and_between_two_hold_the_same(server: S3Server, bucket: str) -> None:
    other = f"{bucket}-other"
    server.make_bucket(other)
    source = open_storage(f"s3://{bucket}/checkpoints", server.settings)
    source.put("job/shared/x", b"state")
    for url in (f"s3://{bucket}/savepoints/one", f"s3://{other}", f"s3://{other}/deep/er"):
        target = open_storage(url, server.settings)
        target.copy_from(source, "job/shared/x", "x")
        assert target.read("x") == b"state"


# --------------------------------------------------------------------------------------------------- how it is reached


def assert_works(url: str, settings: dict[str, str]) -> None:
    open_storage(url, settings).probe()


def test_environment_of_the_aws_tools_says_how_s3_is_reached(
    server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    assert_works(f"s3://{bucket}", {})
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")  # that of other services
    assert_works(f"s3://{bucket}", {})


def test_configuration_wins_over_the_environment(
    server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "eu-west-1", "AWS_SESSION_TOKEN": "of others"}
    for name, value in {**wrong, "AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other"}.items():
        monkeypatch.setenv(name, value)
    assert_works(f"s3://{bucket}", server.settings)


def test_names_of_obstore_are_taken_as_well(server: S3Server, bucket: str) -> None:
    keys = {"aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key}
    assert_works(f"s3://{bucket}", {"s3.endpoint": server.endpoint, "aws_region": server.region, **keys})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"s3.secret-key": "wrong"}, "refuses access with the credentials that it was given.*SignatureDoesNotMatch"),
        ({"s3.access-key": "nobody"}, "the store answers XAdminUserNotFound"),
        ({"s3.region": "eu-west-1"}, 'AuthorizationHeaderMalformed: .*expecting "us-east-1"'),
        ({"s3.endpoint": "http://127.0.0.1:1"}, "http://127.0.0.1:1 does not answer: the connection is refused"),
        ({"s3.endpoint": "http://nowhere.invalid:9000"}, "nowhere.invalid:9000 does not answer: its name is not known"),
        ({"s3.endpoint": "http://two words"}, "is no address of a server"),
        ({"s3.endpoint": "127.0.0.1:1"}, "https://127.0.0.1:1 does not answer"),
    ],
)
def test_wrong_settings_are_told_soon(server: S3Server, bucket: str, changes: dict[str, str], reason: str) -> None:
    started = time.monotonic()
    with pytest.raises(CheckpointStorageError, match=re.compile(rf"s3://{bucket}/jobs.*{reason}", re.DOTALL)) as caught:
        open_storage(f"s3://{bucket}/jobs", {**server.settings, **changes}).probe()
    assert time.monotonic() - started < SOON_S
    assert server.secret_key not in str(caught.value)
    assert "<" not in str(caught.value)
    assert server.keys(bucket) == []


@pytest.mark.parametrize("missing", ["s3.access-key", "s3.secret-key"])
def test_half_of_the_keys_is_told(server: S3Server, bucket: str, missing: str) -> None:
    settings = {key: value for key, value in server.settings.items() if key != missing}
    with pytest.raises(CheckpointStorageError, match=f"is set, and {missing} is not"):
        open_storage(f"s3://{bucket}", settings)


def test_missing_bucket_is_told_and_never_taken_for_a_missing_file(server: S3Server) -> None:
    storage = open_storage("s3://no-such-bucket/jobs", server.settings)
    for look in (
        storage.probe,
        lambda: storage.find("x"),
        lambda: storage.read_range("x", 0, 1),
        lambda: storage.names(""),
    ):
        with pytest.raises(CheckpointStorageError, match="NoSuchBucket"):
            look()


def test_server_that_takes_requests_and_never_answers_is_given_up(
    server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(object_store._TIMEOUTS, "read_timeout", "1s")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        storage = open_storage(f"s3://{bucket}", {**server.settings, "s3.endpoint": endpoint})
        started = time.monotonic()
        with pytest.raises(CheckpointStorageError, match="does not answer: it takes too long"):
            storage.probe()
        assert time.monotonic() - started < SOON_S


def test_server_that_has_answered_is_waited_for(bucket: str) -> None:
    del bucket
    with S3Server() as own:
        url = own.make_bucket("kept")
        storage = open_storage(url, own.settings)
        storage.put("job/x", b"1")
        own.kill()
        own.start()
        assert storage.read("job/x") == b"1"
