"""Where clients may have savepoints made, and which they may have deleted: nothing of others, and nothing by a link."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.rest.fakes import JOB, Api, FakeControl
from tests.unit.rest.test_server import PROXIED, settings

from penstock._engine.rest.directories import DirectoryPolicy, Disposals, places
from penstock.common.configuration import Configuration
from penstock.errors import CheckpointStorageError, PathError, SavepointChangeError, UnknownStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

ALLOWED = "penstock.rest.allowed-directories"


# --------------------------------------------------------------------------------------------------------------- making


def asked(api: Api, directory: str, code: int) -> Any:
    bodies = {"stop": "targetDirectory", "savepoints": "target-directory"}
    answers = [api.send("POST", f"/jobs/{JOB}/{path}", code, json={name: directory}) for path, name in bodies.items()]
    return answers[0]


@pytest.mark.parametrize(
    ("directory", "root"),
    [
        ("/data/sp", "/data/sp"), ("/data/sp/below", "/data/sp"), ("file:///data/sp/x", "/data/sp"),
        ("s3a://bucket/a/b", "s3://bucket/a"), ("/sp", "/sp"), ("/sp/more", "/sp"),
    ],
)  # fmt: skip
def test_allowed_directories_and_the_jobs_own_are_open_with_what_is_below(directory: str, root: str) -> None:
    control = FakeControl()
    asked(Api(control, directories=DirectoryPolicy(("/data/sp", "s3://bucket/a"))), directory, 202)
    assert [one[1] for one in control.asked] == [directory, directory]
    assert control.no_links_below == root


@pytest.mark.parametrize(
    "directory",
    ["/data", "/data/sp2", "/data/sp/../other", "/", "relative", "s3://bucket/ab", "~", "http://[", "/data/sp\0", ".."],
)
def test_all_others_are_refused_and_the_answer_tells_of_none(directory: str) -> None:
    control = FakeControl(savepoint_directory="/own/secret")
    answer = asked(Api(control, directories=DirectoryPolicy(("/data/sp", "s3://bucket/a"))), directory, 403)
    assert control.asked == []
    assert "penstock.rest.allowed-directories" in json.dumps(answer)
    assert "/own/secret" not in json.dumps(answer)
    assert "s3://bucket/a'" not in json.dumps(answer)


def test_where_none_are_named_an_operator_names_any_without_links() -> None:
    control = FakeControl()
    asked(Api(control), "/anywhere", 202)
    assert control.no_links_below == "/"


@pytest.mark.parametrize(
    ("keys", "allowed"),
    [
        ({}, None),
        ({ALLOWED: "/a/../b;s3a://bucket/x/"}, ("/b", "s3://bucket/x")),
        ({"penstock.rest.behind-proxy": "true"}, ()),
        ({**PROXIED, "rest.bind-address": "0.0.0.0"}, ()),
        ({**PROXIED, "rest.bind-address": "0.0.0.0", ALLOWED: "/a"}, ("/a",)),
    ],
)
def test_clients_of_other_machines_name_only_what_is_allowed(
    tmp_path: Path, keys: dict[str, str], allowed: tuple[str, ...] | None
) -> None:
    assert settings(tmp_path, **keys).directories.allowed == allowed


# ------------------------------------------------------------------------------------------------------------ disposing


class Store:
    """Stands for the deletion itself, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str], dict[str, str]]] = []
        self.error: Exception | None = None

    def __call__(self, path: str, directories: Iterable[str], options: Mapping[str, str]) -> None:
        self.asked.append((path, list(directories), dict(options)))
        if self.error is not None:
            raise self.error


def disposals(store: Store, *allowed: str) -> Disposals:
    """Two jobs, each with a savepoint and a directory of checkpoints; the second began from another savepoint."""
    made = Disposals(store, DirectoryPolicy(allowed or None), lambda _: True)
    for name in ("a", "b"):
        keys = {"execution.checkpointing.dir": f"/cp/{name}"}
        if name == "b":
            keys["execution.state-recovery.path"] = "/old/sp"
        control = FakeControl(savepoints=frozenset({f"/{name}/sp"}))
        made.add(places(control, Configuration.from_dict(keys), {"s3.region": name}))
    return made


@pytest.mark.parametrize("path", ["/a/sp", "/b/sp", "file:/b/sp", "/b/sp/_metadata", "/b/x/../sp", "/old/sp"])
def test_savepoints_of_all_jobs_are_known_and_all_jobs_are_asked_whether_they_need_them(path: str) -> None:
    store = Store()
    disposals(store).dispose(path)
    place = path.removeprefix("file:").removesuffix("/_metadata").replace("/x/..", "")
    assert store.asked == [(place, ["/cp/a", "/cp/b"], {"s3.region": "a" if place == "/a/sp" else "b"})]


@pytest.mark.parametrize(
    "path", ["/c/sp", "/a", "/a/sp/below", "/cp/a/chk-1", "/allowed", "/allowed2/sp", "/allowed/../x"]
)
@pytest.mark.behaviour(181)
def test_no_others_are_deleted(path: str) -> None:
    store = Store()
    with pytest.raises(SavepointChangeError, match=r"penstock savepoint dispose") as refused:
        disposals(store, "/allowed").dispose(path)
    assert "/cp/b" not in str(refused.value)
    assert store.asked == []


def test_what_is_below_allowed_directories_is_deleted() -> None:
    store = Store()
    disposals(store, "/allowed", "s3://bucket").dispose("/allowed/one")
    disposals(store, "s3://bucket").dispose("s3a://bucket/one")
    assert [(path, options) for path, _, options in store.asked] == [
        ("/allowed/one", {}),
        ("s3://bucket/one", {"s3.region": "b"}),
    ]


def test_deletion_follows_no_link_below_what_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "home" / "sp").mkdir(parents=True)
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "link").symlink_to(tmp_path / "home")
    store = Store()
    for path in ("link/sp", "link"):
        with pytest.raises(CheckpointStorageError, match="leads through a link"):
            disposals(store, str(tmp_path / "allowed")).dispose(str(tmp_path / "allowed" / path))
    assert store.asked == []


@pytest.mark.parametrize(
    "error",
    [UnknownStateError("/a/sp", "savepoint", ("id_rsa", "diary.txt")), SavepointChangeError("/a/sp", "/cp/z/diary")],
)
def test_what_stands_beside_is_told_to_nobody(error: Exception) -> None:
    store = Store()
    store.error = error
    with pytest.raises(SavepointChangeError) as told:
        disposals(store).dispose("/a/sp")
    assert "diary" not in str(told.value)
    assert "id_rsa" not in str(told.value)


def test_jobs_that_are_listed_no_more_are_forgotten() -> None:
    listed: set[int] = set()
    made = Disposals(Store(), DirectoryPolicy(), lambda control: id(control) in listed)
    controls = [FakeControl() for _ in range(5)]
    for control in controls:
        made.add(places(control, Configuration(), {}))
    assert [job.control for job in made._jobs] == [controls[-1]]


def test_path_that_can_be_none_is_an_error_of_ours() -> None:
    with pytest.raises((CheckpointStorageError, PathError)):
        disposals(Store()).dispose("a\0b")
