from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

import pytest

from penstock._engine.spark import installation
from penstock.errors import LoopbackError, PySparkVersionError

if TYPE_CHECKING:
    from pathlib import Path


def spark_at(path: Path, version: str) -> Path:
    """A directory with the jar that names a Spark."""
    (path / "jars").mkdir(parents=True)
    (path / "jars" / f"spark-core_2.13-{version}.jar").touch()
    return path


def test_pyspark_from_pip_brings_its_own_spark(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    package = spark_at(tmp_path / "pyspark", "4.3.0")
    assert installation.spark_home(package, "4.3.0", {}) == package
    assert not caplog.records


def test_old_spark_home_is_not_used_and_named_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    package, old = spark_at(tmp_path / "pyspark", "4.3.0"), spark_at(tmp_path / "spark-3.5", "3.5.1")
    assert installation.spark_home(package, "4.3.0", {"SPARK_HOME": str(old)}) == package
    assert [record.getMessage() for record in caplog.records] == [
        f"SPARK_HOME={old} (Spark 3.5.1) is not used: the imported PySpark 4.3.0 brings its own Spark."
    ]


def test_pyspark_inside_an_unpacked_spark_takes_its_jars_from_spark_home(tmp_path: Path) -> None:
    home = spark_at(tmp_path / "spark", "4.3.0")
    assert installation.spark_home(home / "python" / "pyspark", "4.3.0", {"SPARK_HOME": str(home)}) == home


def test_spark_home_of_another_version_than_the_imported_pyspark_is_an_error(tmp_path: Path) -> None:
    home = spark_at(tmp_path / "spark", "4.1.0")
    with pytest.raises(PySparkVersionError, match=r"PySpark 4\.3\.0 is imported .* are version 4\.1\.0"):
        installation.spark_home(tmp_path / "pyspark", "4.3.0", {"SPARK_HOME": str(home)})


def test_pyspark_without_jars_and_without_spark_home_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PySparkVersionError, match="without Spark's jars"):
        installation.spark_home(tmp_path, "4.3.0", {})


@pytest.mark.parametrize("version", ["3.5.8", "4.0.1", "5.0.0"])
def test_unsupported_pyspark_is_an_error_in_one_line(tmp_path: Path, version: str) -> None:
    with pytest.raises(PySparkVersionError, match=r"needs PySpark 4\.1 or newer, below 5") as caught:
        installation.spark_home(tmp_path, version, {})
    assert "\n" not in str(caught.value)


def test_preview_of_a_supported_version_is_accepted(tmp_path: Path) -> None:
    package = spark_at(tmp_path, "4.4.0.dev1")
    assert installation.spark_home(package, "4.4.0.dev1", {}) == package


def test_second_pyspark_is_named_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for place in ("site-packages", "spark/python"):
        package = tmp_path / place / "pyspark"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
    first, second = tmp_path / "site-packages", tmp_path / "spark" / "python"
    path = [str(first), str(tmp_path), str(second), str(second)]
    installation.warn_of_second_pyspark(first / "pyspark", path, [])
    (record,) = caplog.records
    assert f"a second PySpark in {second / 'pyspark'}" in record.getMessage()


def test_one_pyspark_is_nothing_to_speak_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    path = [str(tmp_path), str(tmp_path / "link")]
    installation.warn_of_second_pyspark(tmp_path / "pyspark", path, ["pyspark", "pandas"])
    assert not caplog.records


def test_distribution_that_overwrites_pyspark_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    installation.warn_of_second_pyspark(tmp_path, [], ["pyspark", "databricks-connect"])
    (record,) = caplog.records
    assert "databricks-connect overwrites files of pyspark" in record.getMessage()


def test_loopback_that_cannot_be_bound_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_address: object) -> socket.socket:
        raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(LoopbackError, match=r"127\.0\.0\.1.*Cannot assign requested address"):
        installation.require_loopback()


def test_loopback_of_this_machine_can_be_bound() -> None:
    installation.require_loopback()
