"""A store whose client asks again where no answer came: the second answer to a conditional put is a refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engine.storage.local import LocalStorage

if TYPE_CHECKING:
    import pytest


def lose_first_answers(monkeypatch: pytest.MonkeyPatch, *paths: str) -> None:
    """Let conditional puts take effect and be refused, as the client of an object store repeats them by itself.

    Args:
        monkeypatch: That of the test.
        *paths: Parts of the paths concerned.
    """
    put = LocalStorage.put_if_absent

    def asked_again(storage: LocalStorage, path: str, data: bytes) -> bool:
        is_first = put(storage, path, data)
        return is_first and not any(part in path for part in paths)

    monkeypatch.setattr(LocalStorage, "put_if_absent", asked_again)
