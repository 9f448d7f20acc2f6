"""Secrets that are planted in a test, and looked for in what comes out."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Planted:
    """Makes secrets, and remembers where each was planted.

    Args:
        given: Secrets that others have made, by place.
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self.by_place: dict[str, str] = dict(given or {})

    def __call__(self, place: str) -> str:
        """Return a new secret for a place; as long as a token of REST has to be."""
        return self.by_place.setdefault(place, f"hush-{len(self.by_place):02}-xyzzy0815")

    def found_in(self, outputs: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return which secrets stand in which outputs, as they are, or in base64."""
        return [
            (place, name)
            for place, secret in self.by_place.items()
            for name, text in outputs.items()
            if any(form in text for form in (secret, *_in_base64(secret)))
        ]


def _in_base64(secret: str) -> Iterator[str]:
    """Yield what of a secret any base64 text has in which it stands, at each of three offsets."""
    for offset in range(3):
        whole = base64.b64encode(b"\0" * offset + secret.encode()).decode()
        yield whole[4 if offset else 0 : -4]
