"""The server of these tests is had once, and who cannot have it is told why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.services import golang, s3
from tests.services.cache import VARIABLE, ServiceError, kept

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.s3


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def test_what_is_kept_is_filled_once(cache: Path) -> None:
    filled: list[Path] = []
    for _ in range(2):
        assert kept("thing-1", filled.append) == cache / "thing-1"
    assert len(filled) == 1


def test_what_was_not_finished_is_not_kept(cache: Path) -> None:
    def fail(place: Path) -> None:
        (place / "half").touch()
        raise ServiceError

    with pytest.raises(ServiceError):
        kept("thing-1", fail)
    assert [path.name for path in cache.iterdir()] == [".thing-1.lock"]


def test_machine_without_go_is_told_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_network(what: str, *_: Any, **__: Any) -> None:
        reason = f"{what} failed: no network"
        raise ServiceError(reason)

    monkeypatch.setattr(golang.shutil, "which", lambda _: None)
    monkeypatch.setattr(golang, "_USUAL", cache / "go")
    monkeypatch.setattr(golang, "run", no_network)
    with pytest.raises(ServiceError, match=r"Install Go 1.25 or newer.*pip failed: no network"):
        s3.binary()
    assert "this once" in capsys.readouterr().out
    assert "--hash=sha256:" in golang._LOCK.read_text()
