from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import penstock.common
import penstock.metrics

ROOT = Path(penstock.common.__file__).parents[2]


def _modules() -> list[str]:
    files = [
        path
        for package in (penstock.common, penstock.metrics)
        for path in Path(package.__file__ or "").parent.rglob("*.py")
    ]
    return sorted(".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files)


def test_no_module_of_the_vocabulary_loads_spark_or_arrow() -> None:
    program = (
        f"import sys, {', '.join(_modules())}\n"
        "print(sorted({'pyspark', 'py4j', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("package", [penstock.common, penstock.metrics])
def test_every_exported_name_is_there(package: object) -> None:
    names: list[str] = package.__all__  # type: ignore[attr-defined]
    assert [name for name in names if not hasattr(package, name)] == []
    assert names == sorted(names)
