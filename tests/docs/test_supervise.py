"""The examples for systemd and Kubernetes: they are well formed, and what they name of Penstock exists and fits."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.supervised import Unit, blocks, container_environment, manifests, pod

from penstock._engine.cli.main import cli
from penstock._engine.processes.exit_codes import MEANINGS, SIGNALLED, ExitCode
from penstock._engine.processes.supervisor import is_final
from penstock.common import option_table
from penstock.common.config_check import checked
from penstock.common.config_loading import environment_settings

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.common.configuration import Configuration

#: After these another start does not help; the supervisor of `penstock run --supervise` decides alike.
FOR_GOOD = {ExitCode.USAGE} | {code for code, text in MEANINGS.items() if code and "`run`" in text and is_final(code)}
SIGTERM = 15


def configuration(environment: dict[str, str]) -> Configuration:
    """Return what variables set, each of which has to be a key of Penstock with a value that it can have."""
    assert all(name.startswith("PENSTOCK_") for name in environment)
    found = checked(environment_settings(environment))
    assert len(found.to_dict()) == len(environment)
    assert set(found.to_dict()) <= set(option_table.OPTIONS)
    return found


def understood(words: list[str], place: Path) -> dict[str, Any]:
    """Return what the command line makes of a call of `penstock run`, with a program that is there."""
    assert words[1] == "run"
    assert words[-1].endswith("prices.py")
    (place / "prices.py").touch()
    return cli.commands["run"].make_context("run", [*words[2:-1], str(place / "prices.py")]).params


def test_exit_codes_are_those_that_the_supervisor_takes_for_the_end() -> None:
    assert all(is_final(code) for code in FOR_GOOD)
    assert not is_final(ExitCode.TEMPORARY)


def test_the_unit_names_keys_options_and_exit_codes_that_exist(tmp_path: Path) -> None:
    unit = Unit()
    assert unit.sections == ["Unit", "Service", "Install"]
    found = configuration(unit.environment)
    assert unit.command[0].endswith("/bin/penstock")
    assert understood(unit.command, tmp_path)["settings"] == (("penstock.log.format", "json"),)
    assert found.get(option_table.RECOVERY_PATH) == "latest"
    assert found.get(option_table.CHECKPOINT_DIRECTORY) is not None
    assert found.get(option_table.CHECKPOINTING_INTERVAL) is not None  # else a job that fails is not restarted
    assert found.get(option_table.SAVEPOINT_DIRECTORY) is not None  # else SIGTERM cancels
    assert {int(code) for code in unit.service["RestartPreventExitStatus"].split()} == FOR_GOOD
    assert unit.service["SuccessExitStatus"] == str(SIGNALLED + SIGTERM)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = Unit()
    # The program and its user are on nobody's machine.
    text = unit.text.replace(unit.command[0], sys.executable).replace(f"User={unit.service['User']}\n", "")
    (tmp_path / "prices.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "prices.service"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(("kind", "savepoints"), [("StatefulSet", True), ("Job", False)])
def test_the_manifests_name_keys_and_options_that_exist(tmp_path: Path, kind: str, *, savepoints: bool) -> None:
    manifest = manifests()[kind]
    found = configuration(container_environment(manifest))
    (container,) = pod(manifest)["containers"]
    assert not understood(container["command"], tmp_path)["detached"]
    assert found.get(option_table.RECOVERY_PATH) == "latest"
    assert found.get(option_table.CHECKPOINTING_INTERVAL) is not None
    assert (found.get(option_table.SAVEPOINT_DIRECTORY) is not None) == savepoints
    assert ("terminationGracePeriodSeconds" in pod(manifest)) == savepoints  # the 30 s of others do for a cancel
    assert pod(manifest)["shareProcessNamespace"]
    mounts, volumes = ({one["name"] for one in each} for each in (container["volumeMounts"], pod(manifest)["volumes"]))
    assert mounts == volumes


def test_the_manifests_fit_together() -> None:
    stateful, job = manifests()["StatefulSet"]["spec"], manifests()["Job"]["spec"]
    assert stateful["selector"]["matchLabels"] == stateful["template"]["metadata"]["labels"]
    assert stateful["replicas"] == 1
    assert pod(manifests()["Job"])["restartPolicy"] == "Never"  # what podFailurePolicy asks for
    moved, ended = job["podFailurePolicy"]["rules"]
    assert moved["action"] == "Ignore"  # the first one that fits counts
    assert ended["action"] == "FailJob"
    assert set(ended["onExitCodes"]["values"]) == FOR_GOOD
    assert ended["onExitCodes"]["containerName"] == pod(manifests()["Job"])["containers"][0]["name"]


def test_the_supervisors_command_is_understood(tmp_path: Path) -> None:
    (text,) = blocks("sh")
    params = understood(shlex.split(text), tmp_path)
    assert (params["supervise"], params["detached"]) == (True, True)
