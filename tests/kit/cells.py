"""Many small cases in one test: all of them run, and a failure names each case that failed.

A parametrized test costs a millisecond of collecting in each of four processes, and its fixtures; where a case takes
less than that, the cases are better one test.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    import pytest


def cells(names: str, cases: Iterable[Any] | Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test for each case, within one test; each case has its own ``tmp_path`` and ``monkeypatch``.

    Args:
        names: The argument, or several with commas between them, for cases that are tuples.
        cases: The cases; a mapping has their names as well.
    """
    arguments = [name.strip() for name in names.split(",")]
    named = list(cases.items()) if hasattr(cases, "items") else [(str(case), case) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures: list[Exception] = []
            for number, (name, case) in enumerate(named):
                values = dict(zip(arguments, case if len(arguments) > 1 else (case,), strict=True))
                try:
                    _run_one(test, fixtures | values, number)
                except Exception as error:  # noqa: BLE001 - as any test may
                    error.add_note(f"in the case {name}")
                    failures.append(error)
            if failures:
                message = f"{len(failures)} of {len(named)} cases fail"
                raise ExceptionGroup(message, failures) if len(failures) > 1 else failures[0]

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _run_one(test: Callable[..., None], values: dict[str, Any], number: int) -> None:
    if "tmp_path" in values:
        place: Path = values["tmp_path"] / str(number)
        place.mkdir()
        values["tmp_path"] = place
    patch: pytest.MonkeyPatch | None = values.get("monkeypatch")
    if patch is None:
        test(**values)
        return
    with patch.context() as own:
        test(**values | {"monkeypatch": own})
