"""The class data archive: made once, used only where it is whole and this user's own, never in the way."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock._engine.spark import archive_maker
from penstock._engine.spark.class_data import ClassDataArchive, find_archive, quoted
from penstock._engine.spark.java import Java

if TYPE_CHECKING:
    from collections.abc import Callable

#: Stands for Java: it notes how it was called, and writes what it was given into the archive that it is to make.
JAVA = """\
#!{python} -IS
import sys
from pathlib import Path

options = [word for word in sys.argv[1:] if word != "@class-path"]
with Path({calls!r}).open("a") as calls:
    calls.write(options[0] + "\\n")
named = dict(option.partition("=")[::2] for option in options)
draft = Path(named["-XX:SharedArchiveFile"])
if "-Xshare:dump" in options:
    draft.write_text(Path(named["-XX:SharedClassListFile"]).read_text() + Path("class-path").read_text())
elif {fails!r}:
    print("Error: the archive cannot be mapped")
    sys.exit({fails!r})
"""


def fake_java(folder: Path, *, fails: int = 0) -> Java:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(JAVA.format(python=sys.executable, calls=str(folder / "calls"), fails=fails))
    program.chmod(0o700)
    return Java(folder, (17, 0, 15), "PATH")


def spark_home(folder: Path) -> Path:
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / "spark-core_2.13-4.3.0.jar").touch()
    return folder


class Machine:
    """A Java and a Spark, and this user's cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.java, self.spark = fake_java(folder / "java"), spark_home(folder / "spark")

    @property
    def archive(self) -> ClassDataArchive:
        found = find_archive(self.java, self.spark, {"XDG_CACHE_HOME": str(self.folder / "cache")})
        assert found is not None
        return found

    def make(self, class_path: str = '/a "b".jar') -> ClassDataArchive:
        archive = self.archive
        classes = archive.new_list()
        classes.write_text("a/Class\n")
        archive_maker.make(archive.directory, str(self.java.home / "bin" / "java"), classes.name, class_path)
        return archive

    def calls(self) -> list[str]:
        calls = self.java.home / "calls"
        return calls.read_text().split() if calls.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_archive_is_made_of_the_listed_classes_and_tried_before_it_is_used(machine: Machine) -> None:
    archive = machine.archive
    assert not archive.is_ready
    assert machine.make() == archive
    assert archive.is_ready
    assert archive.path.read_text() == 'a/Class\n-cp "/a \\"b\\".jar"\n'
    assert machine.calls() == ["-Xshare:dump", "-Xshare:on"]
    assert {path.name for path in archive.directory.iterdir()} == {"classes.jsa", "class-path", "stamp.json", "lock"}
    for path in (archive.directory, *archive.directory.iterdir()):
        assert path.stat().st_mode & 0o077 == 0 or path.name not in {"classes.jsa", "class-path"}


def test_runs_get_the_class_path_of_the_archive_in_which_each_entry_is_once(machine: Machine) -> None:
    archive = machine.make(f"/conf{os.pathsep}/jars/slf4j.jar{os.pathsep}/jars/a.jar{os.pathsep}/jars/slf4j.jar")
    options = [word for word in archive.use() if word.startswith("@")]
    assert [Path(word[1:]).read_text() for word in options] == [
        f'-cp "/conf{os.pathsep}/jars/slf4j.jar{os.pathsep}/jars/a.jar"\n'
    ]


def test_another_class_path_has_an_archive_of_its_own(machine: Machine, tmp_path: Path) -> None:
    cache, conf = str(machine.folder / "cache"), tmp_path / "conf"
    conf.mkdir()
    environ = {"XDG_CACHE_HOME": cache, "SPARK_CONF_DIR": str(conf)}
    found = [
        machine.archive,
        find_archive(machine.java, machine.spark, {"XDG_CACHE_HOME": cache, "HADOOP_CONF_DIR": "/h"}),
    ]
    found.append(find_archive(machine.java, machine.spark, environ))
    (conf / "spark-defaults.conf").write_text("spark.driver.extraClassPath /x.jar")
    found.append(find_archive(machine.java, machine.spark, environ))
    assert len({archive and archive.directory for archive in found}) == 4


def test_archive_that_is_there_is_not_made_again(machine: Machine) -> None:
    machine.make()
    assert machine.make().is_ready
    assert len(machine.calls()) == 2


def change_the_class_path(archive: ClassDataArchive) -> None:
    (archive.directory / "class-path").write_text('-cp "/theirs.jar"')


def truncate(archive: ClassDataArchive) -> None:
    os.truncate(archive.path, 3)


def flip_a_bit(archive: ClassDataArchive) -> None:
    content, times = archive.path.read_bytes(), archive.path.stat()
    archive.path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    os.utime(archive.path, ns=(times.st_atime_ns, times.st_mtime_ns))


def put_another_in_its_place(archive: ClassDataArchive) -> None:
    other = archive.path.with_name("other")
    other.write_bytes(archive.path.read_bytes())
    other.chmod(0o600)
    times = archive.path.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(archive.path)


def let_others_write(archive: ClassDataArchive) -> None:
    archive.path.chmod(0o622)


def put_a_link(archive: ClassDataArchive) -> None:
    archive.path.rename(archive.path.with_name("target"))
    archive.path.symlink_to("target")


def tear_the_stamp(archive: ClassDataArchive) -> None:
    (archive.directory / "stamp.json").write_text("[17")


def lose_the_archive(archive: ClassDataArchive) -> None:
    archive.path.unlink()


@pytest.mark.parametrize(
    "harm",
    [
        change_the_class_path,
        truncate,
        flip_a_bit,
        put_another_in_its_place,
        let_others_write,
        put_a_link,
        tear_the_stamp,
        lose_the_archive,
    ],
)
def test_archive_that_was_touched_is_not_used_and_is_replaced(
    machine: Machine, harm: Callable[[ClassDataArchive], None]
) -> None:
    archive = machine.make()
    harm(archive)
    assert not archive.is_ready
    assert machine.make().is_ready


def test_archive_of_another_user_is_not_used(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = machine.make()
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert not archive.is_ready
    environ = {"XDG_CACHE_HOME": str(machine.folder / "cache")}
    assert find_archive(machine.java, machine.spark, environ) is None


def test_another_java_or_spark_has_an_archive_of_its_own(machine: Machine, tmp_path: Path) -> None:
    before = machine.archive
    machine.java = Java(machine.java.home, (17, 0, 16), "PATH")
    newer = machine.archive
    os.utime(machine.spark / "jars", (1, 1))  # installed again
    again = machine.archive
    machine.spark = spark_home(tmp_path / "second")
    assert len({archive.directory for archive in (before, newer, again, machine.archive)}) == 4


def test_failure_is_remembered_with_its_words(machine: Machine) -> None:
    machine.java = fake_java(machine.java.home, fails=1)
    archive = machine.make()
    assert not archive.is_ready
    assert archive.failure == "Error: the archive cannot be mapped"
    assert not list(archive.directory.glob("draft*"))
    assert not list(archive.directory.glob("loaded-*"))


def test_failure_of_long_ago_is_forgotten(machine: Machine) -> None:
    failure = machine.archive.directory / "failure"
    failure.touch()
    assert machine.archive.failure == ""
    os.utime(failure, (1, 1))
    assert machine.archive.failure is None


def test_list_of_a_run_that_is_not_over_stays_and_a_lost_one_is_no_failure(machine: Machine) -> None:
    archive = machine.archive
    running = archive.new_list()
    running.touch()
    archive_maker.make(archive.directory, "/no/such/java", archive.new_list().name, "")
    assert (archive.is_ready, archive.failure) == (False, None)
    assert machine.make().is_ready
    assert running.exists()


def test_java_that_was_killed_is_tried_again(machine: Machine) -> None:
    machine.java = fake_java(machine.java.home, fails=143)
    archive = machine.make()
    assert (archive.is_ready, archive.failure) == (False, None)


def test_java_that_cannot_be_started_is_a_failure(machine: Machine) -> None:
    archive = machine.archive
    classes = archive.new_list()
    classes.touch()
    archive_maker.make(archive.directory, "/no/such/java", classes.name, "")
    assert archive.failure is not None
    assert "/no/such/java" in archive.failure


def test_what_killed_processes_left_goes_when_an_archive_is_made(machine: Machine) -> None:
    directory = machine.archive.directory
    (directory / "draft.jsa").write_text("half an arch")
    (directory / "loaded-by-one-that-was-killed").touch()
    os.utime(directory / "loaded-by-one-that-was-killed", (1, 1))
    unused = directory.with_name("classes-unused")
    unused.mkdir()
    os.utime(unused, (1, 1))
    used = directory.with_name("classes-used")
    used.mkdir()
    assert machine.make().is_ready
    assert {path.name for path in directory.iterdir()} == {"classes.jsa", "class-path", "stamp.json", "lock"}
    assert (unused.exists(), used.exists()) == (False, True)


def test_of_several_at_the_same_time_one_makes_it(machine: Machine) -> None:
    threads = [threading.Thread(target=machine.make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert machine.archive.is_ready
    assert machine.calls() == ["-Xshare:dump", "-Xshare:on"]


def test_disk_without_room_is_no_failure_to_remember(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_maker, "_FREE_BYTES", 1 << 62)
    archive = machine.make()
    assert (archive.is_ready, archive.failure, machine.calls()) == (False, None, [])


def test_place_that_cannot_be_written_to_means_no_archive(machine: Machine) -> None:
    (machine.folder / "cache").touch()
    assert find_archive(machine.java, machine.spark, {"XDG_CACHE_HOME": str(machine.folder / "cache")}) is None


#: Stands for the maker: it tells how it was started.
MAKER = """
import os, sys
from pathlib import Path

print("noise")
print("noise", file=sys.stderr)
told = Path(sys.argv[1], "draft")
seen = [sys.argv[2:], sys.stdin.read(), os.getsid(0) == os.getpid()]
told.write_text(f"{seen} {os.getpid()}")
told.rename(told.with_name("told"))
"""


def test_it_is_made_by_a_process_that_is_not_waited_for_prints_nothing_and_leaves_no_zombie(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "maker.py").write_text(MAKER)
    monkeypatch.setattr(archive_maker, "__file__", str(tmp_path / "maker.py"))
    archive, before = machine.archive, set(threading.enumerate())
    archive.make("/some/java", "/some.jar", archive.new_list().with_name("loaded-1"))
    reapers = set(threading.enumerate()) - before
    told, deadline = archive.directory / "told", time.monotonic() + 20
    while not told.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    seen, _, pid = told.read_text().rpartition(" ")
    assert seen == "[['/some/java', 'loaded-1'], '/some.jar', True]"
    assert capfd.readouterr() == ("", "")
    for reaper in reapers:
        reaper.join(timeout=20)
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOHANG)


def test_maker_imports_nothing_of_penstock() -> None:
    program = (
        f"import runpy, sys; runpy.run_path({archive_maker.__file__!r}); print([m for m in sys.modules if 'pens' in m])"
    )
    done = subprocess.run([sys.executable, "-IS", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_options_survive_blanks_and_quotes() -> None:
    options = ["-XX:+UseParallelGC", '-XX:SharedArchiveFile=/a "b"\\c/classes.jsa']
    assert shlex.split(quoted(options)) == options


def test_stamp_is_not_taken_from_json_of_another_shape(machine: Machine) -> None:
    archive = machine.make()
    (archive.directory / "stamp.json").write_text(json.dumps({"size": 1}))
    assert not archive.is_ready
