"""What docs/supervise.md gives to systemd and Kubernetes, as data."""

from __future__ import annotations

import re
import shlex
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import yaml

DOCUMENT = Path(__file__).parents[2] / "docs" / "supervise.md"


def blocks(language: str) -> list[str]:
    """Return the examples in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


class Unit:
    """The systemd unit."""

    def __init__(self) -> None:
        (self.text,) = blocks("ini")
        # Of a key that stands more than once, all values count; systemd has comments at the start of a line alone.
        parser = ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"))
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        once = "\n".join(line for line in self.text.splitlines() if not line.startswith("Environment="))
        parser.read_string(once)
        self.service = dict(parser["Service"])
        self.sections = parser.sections()
        given = re.findall(r"^Environment=(.*)$", self.text, re.MULTILINE)
        self.environment = dict(one.split("=", 1) for line in given for one in shlex.split(line))
        self.command = shlex.split(self.service["ExecStart"])


def manifests() -> dict[str, dict[str, Any]]:
    """Return the Kubernetes manifests by their kinds."""
    found = [yaml.safe_load(text) for text in blocks("yaml")]
    return {manifest["kind"]: manifest for manifest in found}


def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of a manifest's pods."""
    return manifest["spec"]["template"]["spec"]


def container_environment(manifest: dict[str, Any]) -> dict[str, str]:
    """Return the variables of the driver's container."""
    (container,) = pod(manifest)["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"]}
