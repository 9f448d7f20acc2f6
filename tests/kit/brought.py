"""What a program brings to its tasks, made in a folder: a module, a package of an index, an archive and a file."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datastream import StreamExecutionEnvironment

_METADATA = "Metadata-Version: 2.1\nName: brought-package\nVersion: 1.0\n"
_WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"

#: A line for each thing that functions find where they run; they look for it by name, so they can be pickled anywhere.
FINDS = """
def finds(_):
    from importlib import import_module
    from os import access, X_OK
    from pathlib import Path
    return [
        import_module("brought_module").NAME,
        import_module("brought_package").NAME,
        Path("texts/deep/a.txt").read_text(),
        Path("model.bin").read_text(),
        access("tool.sh", X_OK),
    ]
"""
FOUND = ["a module", "a package", "a text", "a model", True]


def make(folder: Path) -> None:
    """Write what is brought into a folder."""
    (folder / "index").mkdir(parents=True)
    (folder / "brought_module.py").write_text("NAME = 'a module'\n")
    name = "brought_package-1.0"
    with zipfile.ZipFile(folder / "index" / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("brought_package/__init__.py", "NAME = 'a package'\n")
        wheel.writestr(f"{name}.dist-info/METADATA", _METADATA)
        wheel.writestr(f"{name}.dist-info/WHEEL", _WHEEL)
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    (folder / "requirements.txt").write_text("brought-package==1.0\n")
    with zipfile.ZipFile(folder / "texts.zip", "w") as archive:
        archive.writestr("deep/a.txt", "a text")
    (folder / "model.bin").write_text("a model")


def bring(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Have an environment bring it."""
    env.add_python_file(str(folder / "brought_module.py"))
    env.set_python_requirements(str(folder / "requirements.txt"), str(folder / "index"))
    env.add_python_archive(str(folder / "texts.zip"), "texts")
    env.register_cached_file(str(folder / "model.bin"), "model.bin")
    env.register_cached_file(str(folder / "model.bin"), "tool.sh", executable=True)
