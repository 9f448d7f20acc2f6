"""What docs/supervise.md gives to systemd and Kubernetes, as data."""

from __future__ import annotations

import re
import shlex
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import yaml

DOCUMENT = Path(__file__).parents[2] / "docs" / "supervise.md"
OF_CLUSTERS = DOCUMENT.with_name("cluster.md")


def blocks(language: str, document: Path = DOCUMENT) -> list[str]:
    """Return the examples in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


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


def manifests(document: Path = DOCUMENT) -> dict[str, dict[str, Any]]:
    """Return the Kubernetes manifests by their kinds."""
    found = [manifest for text in blocks("yaml", document) for manifest in yaml.safe_load_all(text)]
    return {manifest["kind"]: manifest for manifest in found if "kind" in manifest}


def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of a manifest's pods."""
    return manifest["spec"]["template"]["spec"]


def container_environment(manifest: dict[str, Any]) -> dict[str, str]:
    """Return the variables of the driver's container."""
    (container,) = pod(manifest)["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"]}
