"""One spelling for each path, absolute where it is given: a table of what people write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.common.paths import absolute_path, file_url, plain_path, real_path, scheme_of
from penstock.errors import PathError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; the home of this user is beside it."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


SPELLINGS = {
    "plain": "{here}/out",
    "relative": "out",
    "dot": "./out",
    "slash-behind": "out/",
    "two-slashes": "{here}//out//",
    "two-slashes-in-front": "/{here}/out",
    "dot-between": "{here}/./out/.",
    "step-up": "sub/../out",
    "step-up-first": "../here/out",
    "hadoop": "file:{here}/out",
    "url": "file://{here}/out",
    "url-many-slashes": "file:///{here}/out",
    "localhost": "file://localhost{here}/out",
    "capitals": "FILE://LOCALHOST{here}/out",
    "escaped": "file:{here}/%6Fut",
    "url-slash-behind": "file:{here}//out/",
    "home": "~/../here/out",
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings_of_one_place_become_one_text(here: Path, spelling: str) -> None:
    assert absolute_path(spelling.format(here=here)) == f"{here}/out"


@pytest.mark.parametrize("given", [Path("out"), Path("./out/"), Path("file:///x/../out")], ids=str)
def test_path_objects_are_taken_as_their_text(here: Path, given: Path) -> None:
    expected = "/out" if str(given).startswith("file:") else f"{here}/out"
    assert absolute_path(given) == expected


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("100%", "100%"),
        ("a b", "a b"),
        ("a%20b", "a%20b"),
        ("a#b?c=d", "a#b?c=d"),
        ("a:b", "a:b"),
        ("2024-01-01T10:00", "2024-01-01T10:00"),
        ("./~", "~"),
        ("./$HOME", "$HOME"),
        ("a$b", "a$b"),
        ("file:{here}/a%20b", "a b"),
        ("file:{here}/100%", "100%"),
        ("file:{here}/a%2520b", "a%20b"),
        ("file:{here}/a#b?c=d", "a#b?c=d"),
        ("file:{here}/%C3%BC", "ü"),
        ("file:{here}/%FF", "\udcff"),
        ("file:{here}/end%20", "end "),
        ("*/[ab]?.txt", "*/[ab]?.txt"),
        ("file:{here}/*.t?t", "*.t?t"),
    ],
)
def test_signs_of_names_stay_and_only_file_urls_have_escapes(here: Path, given: str, name: str) -> None:
    assert absolute_path(given.format(here=here)) == f"{here}/{name}"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("s3://bucket/a", "s3://bucket/a"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("s3n://bucket/a/", "s3://bucket/a"),
        ("S3A://bucket//a///b/./c", "s3://bucket/a/b/c"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a%20b", "s3://bucket/a%20b"),
        ("s3://bucket/a b#c?d", "s3://bucket/a b#c?d"),
        ("gs://bucket/*.csv", "gs://bucket/*.csv"),
        ("abfss://box@account.dfs.core.windows.net/a/", "abfss://box@account.dfs.core.windows.net/a"),
        ("memory:///chk/", "memory:///chk"),
        ("https://host/a//b?c=../d", "https://host/a//b?c=../d"),
    ],
)
def test_urls_of_stores_have_one_spelling_whatever_the_working_directory(given: str, expected: str) -> None:
    assert absolute_path(given) == plain_path(given) == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("", "empty"),
        (" /data", "white space"),
        ("/data\n", "white space"),
        ("a\0b", "NUL"),
        ("file:out", "no absolute path"),
        ("file://", "names the host ''"),
        ("file://server/share", "names the host 'server'"),
        ("file://out", "names the host 'out'"),
        ("file://C:/data", "names the host 'C:'"),
        ("$HOME/out", "variables are not filled in"),
        ("${OUT}", "variables are not filled in"),
        ("~nobody-of-that-name/out", "no user of that name"),
        ("s3:/bucket/a", "names no bucket; write s3://bucket"),
        ("s3:///a", "names no bucket"),
        ("s3a://bucket/../other", "a step up"),
        ("gs://[", "no URL"),
    ],
)
@pytest.mark.usefixtures("here")
def test_path_that_leads_nowhere_is_refused_with_the_way_out(given: str, reason: str) -> None:
    with pytest.raises(PathError, match="cannot be used") as caught:
        absolute_path(given)
    assert reason in str(caught.value)


def test_path_object_that_has_lost_a_slash_of_its_url_is_refused() -> None:
    with pytest.raises(PathError, match=r"pathlib\.Path takes one of the slashes away"):
        absolute_path(Path("s3://bucket/out"))


def test_bytes_are_no_path() -> None:
    with pytest.raises(TypeError, match=r"b'/data'"):
        absolute_path(b"/data")  # pyright: ignore[reportArgumentType]


def test_relative_path_without_a_working_directory_is_refused(here: Path) -> None:
    here.rmdir()
    with pytest.raises(PathError, match="working directory is gone"):
        absolute_path("out")
    assert absolute_path("/data") == "/data"


def test_links_stay_but_before_a_step_up(here: Path) -> None:
    (here / "real" / "deep").mkdir(parents=True)
    (here / "link").symlink_to("real/deep")
    assert absolute_path("link/out") == f"{here}/link/out"
    assert absolute_path("link/../out") == f"{here}/real/out"  # where the operating system would go
    assert real_path(absolute_path("link/out")) == f"{here}/real/deep/out"
    assert absolute_path("*/../out") == f"{here}/*/../out"


@pytest.mark.parametrize("given", [*SPELLINGS.values(), "a b", "100%", "s3a://bucket/a/", "./~", "./$A/b"])
def test_what_was_made_absolute_once_stays_what_it_is(here: Path, given: str) -> None:
    once = absolute_path(given.format(here=here))
    assert absolute_path(once) == plain_path(once) == once


@pytest.mark.parametrize("name", ["a b", "100%", "%20", "a%2520", "ü", "\udcff", "a#b?c"])
def test_url_of_a_local_path_leads_back_to_it(name: str) -> None:
    assert plain_path(file_url(f"/data/{name}")) == f"/data/{name}"
    assert plain_path(Path(f"/data/{name}").as_uri()) == f"/data/{name}"


def test_only_what_begins_as_a_url_has_a_scheme() -> None:
    assert [scheme_of(path) for path in ("/a/s3://b", "a:b/c", "C:/data", "s3://b", "file:x")] == [
        "",
        "",
        "",
        "s3",
        "file",
    ]
    assert os.sep == "/" or scheme_of("C:\\data") == ""
