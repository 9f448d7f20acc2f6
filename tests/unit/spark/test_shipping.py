"""What of the user's modules goes to workers on other machines."""

from __future__ import annotations

import logging
import subprocess
import sys
import zipfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engine.spark.shipping import in_workers_of, is_local, ship, zipped

if TYPE_CHECKING:
    from pathlib import Path


class FakeContext:
    """Notes the files that it is given."""

    def __init__(self, master: str = "yarn") -> None:
        self.master = master
        self._python_includes: list[str] = []
        self.added: list[str] = []
        self.archives: list[str] = []
        self.environment: dict[str, str] = {}

    def addPyFile(self, path: str) -> None:
        self._python_includes.append(path.rpartition("/")[2])
        self.added.append(path)

    def addArchive(self, path: str) -> None:
        self.archives.append(path.rpartition("/")[2])

    def fetched(self) -> list[list[str]]:
        """Return what is in the files, as executors find them later."""
        return [sorted(zipfile.ZipFile(path).namelist()) for path in self.added]


def handle(context: FakeContext) -> Any:
    return SimpleNamespace(session=SimpleNamespace(sparkContext=context))


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, Path]:
    package = tmp_path / "shapes"
    (package / "data").mkdir(parents=True)
    (package / "__pycache__").mkdir()
    (package / "__init__.py").write_text("from shapes.square import side")
    (package / "square.py").write_text("import pkgutil\nside = int(pkgutil.get_data('shapes', 'data/side.txt'))")
    (package / "data" / "side.txt").write_text("7")
    (package / "__pycache__" / "square.pyc").write_bytes(b"old")
    (tmp_path / "helpers.py").write_text("def area():\n    import shapes\n    return shapes.side ** 2")
    return {"helpers": tmp_path / "helpers.py", "shapes": package}


def test_modules_and_packages_with_their_data_import_from_the_zip(modules: dict[str, Path], tmp_path: Path) -> None:
    content = zipped(modules)
    assert content is not None
    (tmp_path / "elsewhere").mkdir()
    archive = tmp_path / "elsewhere" / "modules.zip"
    archive.write_bytes(content)
    program = f"import sys; sys.path.insert(1, {str(archive)!r}); import helpers; print(helpers.area())"
    result = subprocess.run([sys.executable, "-c", program], cwd=archive.parent, capture_output=True, check=True)
    assert result.stdout == b"49\n"
    assert b"pyc" not in content


def test_the_same_modules_are_shipped_by_the_same_name_and_changed_ones_by_another(modules: dict[str, Path]) -> None:
    context = FakeContext()
    ship(handle(context), modules)
    ship(handle(context), modules)
    assert context.fetched() == [["helpers.py", "shapes/__init__.py", "shapes/data/side.txt", "shapes/square.py"]]
    modules["helpers"].write_text("def area():\n    return 0")
    ship(handle(context), modules)
    assert len(set(context._python_includes)) == len(context.fetched()) == 2


def test_modules_are_also_unpacked_into_the_folder_that_tasks_import_from(modules: dict[str, Path]) -> None:
    context = FakeContext()
    (folder,) = ship(handle(context), modules)
    assert context.archives == [f"{folder}.zip#{folder}"]
    assert ship(handle(context), modules) == (folder,)


def test_functions_of_other_modules_run_in_other_workers(modules: dict[str, Path]) -> None:
    context, seen = FakeContext(), set[str]()
    for content in ("def area():\n    return 0", "def area():\n    return 1"):
        modules["helpers"].write_text(content)
        with in_workers_of(handle(context), ("/installed/here", *ship(handle(context), modules))):
            seen.add(str(context.environment))
    assert len(seen) == 2
    assert context.environment == {}
    with in_workers_of(handle(context), ("/installed/here",)):  # a job without modules takes the usual workers
        assert context.environment == {}


def test_program_without_modules_of_its_own_ships_nothing() -> None:
    context = FakeContext()
    assert ship(handle(context), {}) == ()
    assert context.fetched() == context.archives == []


def test_compiled_module_is_named_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    library = tmp_path / "fast.cpython-311-x86_64-linux-gnu.so"
    library.touch()
    with caplog.at_level(logging.WARNING):
        assert zipped({"fast": library}) is None
    assert "Module fast is compiled" in caplog.text


@pytest.mark.parametrize(
    ("master", "local"), [("local", True), ("local[2,4]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)]
)
def test_only_workers_of_a_local_master_have_this_machines_files(master: str, *, local: bool) -> None:
    assert is_local(handle(FakeContext(master))) is local
