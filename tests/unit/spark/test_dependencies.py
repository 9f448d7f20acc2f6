"""What cannot be brought to the tasks is refused by the key that names it."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.spark.dependencies import TaskPlaces, bring
from penstock._engine.spark.jvm import launch_environment
from penstock.common import Configuration
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def local() -> Any:
    return SimpleNamespace(
        session=SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", pythonExec="python"))
    )


def test_a_session_of_ours_runs_tasks_with_the_python_that_is_set() -> None:
    with launch_environment({}):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
    with launch_environment({"PYSPARK_PYTHON": "/opt/python"}):
        assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


def test_a_job_that_brings_nothing_changes_nothing() -> None:
    assert bring(local(), Configuration()) == TaskPlaces()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("python.files", "/no/such/a.py", "does not exist"),
        ("python.files", "{}/text.txt", "no module, zip, egg, wheel or folder"),
        ("python.archives", "{}/text.txt", "cannot be unpacked"),
        ("python.requirements", "/no/such/requirements.txt", "does not exist"),
        ("pipeline.cached-files", "name:a", "each entry is name:NAME,path:PATH"),
    ],
)
def test_what_cannot_be_brought_names_the_key(key: str, value: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("no archive")
    with pytest.raises(ConfigurationError, match=said) as refused:
        bring(local(), Configuration().set_string(key, value.format(tmp_path)))
    assert refused.value.key == key


def test_pip_says_what_it_could_not_install(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("no-such-package-at-all==1\n")
    entry = f"{tmp_path}/requirements.txt#{tmp_path}"
    with pytest.raises(ConfigurationError, match="no-such-package-at-all"):
        bring(local(), Configuration().set_string("python.requirements", entry))


def test_an_archive_that_leads_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    import io
    import tarfile

    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        member = tarfile.TarInfo("../outside.txt")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(ConfigurationError, match="cannot be unpacked"):
        bring(local(), Configuration().set_string("python.archives", f"{tmp_path}/bad.tar"))


def cluster(application: str) -> Any:
    """A session on a cluster, which takes whatever it is given."""
    given: list[str] = []
    context = SimpleNamespace(
        master="spark://host:7077",
        pythonExec="python",
        applicationId=application,
        addArchive=given.append,
        addFile=given.append,
    )
    return SimpleNamespace(session=SimpleNamespace(sparkContext=context))


@pytest.mark.parametrize(
    ("key", "value"), [("python.archives", "{}/data.zip"), ("pipeline.cached-files", "name:data.zip,path:{}/data.zip")]
)
def test_file_that_has_changed_between_two_jobs_of_a_session_is_refused_as_old_executors_would_keep_the_old_one(
    key: str, value: str, tmp_path: Path
) -> None:
    session, configuration = cluster(f"app-{key}"), Configuration().set_string(key, value.format(tmp_path))
    file = tmp_path / "data.zip"
    file.write_text("one")
    for _ in range(2):
        bring(session, configuration)
    file.write_text("another")
    with pytest.raises(ConfigurationError, match="already have another") as refused:
        bring(session, configuration)
    assert refused.value.key == key
    bring(cluster(f"new-{key}"), configuration)


def test_two_archives_of_one_name_are_refused_as_spark_keeps_one_of_them(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.zip").write_text(folder)
    archives = f"{tmp_path}/a/data.zip#one,{tmp_path}/b/data.zip#two"
    with pytest.raises(ConfigurationError, match="already have another"):
        bring(cluster("same-names"), Configuration().set_string("python.archives", archives))
