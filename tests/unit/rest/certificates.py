"""Certificates for a server on 127.0.0.1, made with openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Files:
    """PEM files of an authority and of what it has signed."""

    authority: Path
    certificate: Path
    key: Path
    #: Certificate and key in one file; the same with its key behind the password.
    both: Path
    locked: Path
    password: str
    #: A certificate of the same authority that is not the server's.
    other: Path


def made(place: Path) -> Files:
    """Make them."""

    def openssl(*arguments: object) -> None:
        subprocess.run(["openssl", *map(str, arguments)], cwd=place, check=True, capture_output=True)

    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", 2)
    openssl("req", "-x509", *kind, "-noenc", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    for name in ("server", "other"):
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1")
        files = ("-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")
        openssl("req", "-x509", *kind, "-noenc", *signed, "-addext", "basicConstraints=critical,CA:FALSE", *files)
    openssl("pkey", "-in", "server.key", "-aes128", "-passout", "pass:open sesame", "-out", "locked.key")
    certificate = (place / "server.pem").read_text()
    (place / "both.pem").write_text(certificate + (place / "server.key").read_text())
    (place / "locked.pem").write_text(certificate + (place / "locked.key").read_text())
    return Files(
        authority=place / "ca.pem",
        certificate=place / "server.pem",
        key=place / "server.key",
        both=place / "both.pem",
        locked=place / "locked.pem",
        password="open sesame",
        other=place / "other.pem",
    )
