"""Jars from Maven Central, with all that they need at run time: each set is the one that was pinned, byte for byte."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from tests.services.cache import ServiceError, run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def fetch(what: str, artifacts: Iterable[tuple[str, str, str]], digest: str, place: Path) -> None:
    """Fetch jars into a directory.

    Args:
        what: What messages call them.
        artifacts: Group, name and version of each jar that is asked for by its name.
        digest: Of all jars that come, see `digest_of`.
        place: The directory.

    Raises:
        ServiceError: Maven does not get them, or other ones.
    """
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in artifacts
    )
    pom = place / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>penstock</groupId><artifactId>server</artifactId>"
        f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n"
    )
    maven = ("mvn", "-q", "-B", "-f", pom, _PLUGIN, f"-DoutputDirectory={place}", "-DincludeScope=runtime")
    run(f"Fetching {what}", *maven)
    if (found := digest_of(place)) != digest:
        raise ServiceError(f"{what} are not those that were pinned: their digest is {found}, and not {digest}")


def digest_of(place: Path) -> str:
    """Return the SHA-256 of what ``sha256sum`` prints for the jars of a directory, sorted by their names."""
    jars = sorted(place.glob("*.jar"))
    lines = (f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}\n" for jar in jars)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
