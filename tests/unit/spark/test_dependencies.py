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
