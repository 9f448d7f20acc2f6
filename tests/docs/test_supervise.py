"""The examples for systemd and Kubernetes: they are well formed, and what they name of Penstock exists and fits."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.docs.supervised import DOCUMENT, OF_CLUSTERS, Unit, blocks, container_environment, manifests, pod
from tests.release.image import DOCKERFILE, instructions, user, words_of

from penstock._engine.cli.main import cli
from penstock._engine.processes.exit_codes import MEANINGS, SIGNALLED, ExitCode
from penstock._engine.processes.supervisor import is_final
from penstock.common import option_table
from penstock.common.config_check import checked
from penstock.common.config_loading import environment_settings

if TYPE_CHECKING:
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


def understood_words(words: list[str]) -> bool:
    """Tell whether the command line takes a call of `penstock`; it is not carried out."""
    assert words[0] == "penstock"
    cli.commands[words[1]].make_context(words[1], words[2:])
    return True


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
    assert found.get(option_table.JOB_ID) is not None  # else an empty directory is a first start
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
    assert not understood(["penstock", *container["args"]], tmp_path)["detached"]
    assert found.get(option_table.RECOVERY_PATH) == "latest"
    assert found.get(option_table.CHECKPOINTING_INTERVAL) is not None
    assert (found.get(option_table.SAVEPOINT_DIRECTORY) is not None) == savepoints
    assert (found.get(option_table.JOB_ID) is not None) == savepoints  # each Job has a directory of its own
    assert ("terminationGracePeriodSeconds" in pod(manifest)) == savepoints  # the 30 s of others do for a cancel
    mounts, volumes = ({one["name"] for one in each} for each in (container["volumeMounts"], pod(manifest)["volumes"]))
    assert mounts == volumes


def test_docker_and_the_cluster_have_the_settings_of_the_unit() -> None:
    wanted = configuration(Unit().environment).to_dict().keys()
    given = dict(re.findall(r"^(PENSTOCK_\w+)=(.+)$", "\n".join(blocks("sh")), re.MULTILINE))
    assert configuration(given).to_dict().keys() == wanted
    (container,) = pod(manifests(OF_CLUSTERS)["StatefulSet"])["containers"]
    given = {one["name"]: one["value"] for one in container["env"] if one["name"].startswith("PENSTOCK_")}
    assert configuration(given).to_dict().keys() == wanted
    settings, *_ = blocks("yaml", OF_CLUSTERS)
    assert yaml.safe_load(settings).keys() == wanted


@pytest.mark.parametrize("document", [DOCUMENT, OF_CLUSTERS])
def test_the_manifests_are_those_of_the_dockerfile(document: Path, tmp_path: Path) -> None:
    entrypoint, (number, _) = words_of("ENTRYPOINT"), user()
    assert entrypoint[:2] == ["tini", "--"]  # passes signals on, and stands in no program's way
    pods = [pod(manifest) for manifest in manifests(document).values() if "template" in manifest.get("spec", {})]
    assert pods
    for each in pods:
        (container,) = each["containers"]
        assert "command" not in container  # it would take the place of the entrypoint
        program = f"{tmp_path}/{Path(container['args'][-1]).name}"
        Path(program).touch()
        assert understood_words([*entrypoint[2:], *container["args"][:-1], program])
        assert each["securityContext"]["runAsNonRoot"]
        assert int(number) > 0
        probe = container.get("readinessProbe")
        assert probe is None or probe["exec"]["command"] == words_of("HEALTHCHECK")
        if container.get("securityContext", {}).get("readOnlyRootFilesystem"):
            assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}
            (sticky,) = each["initContainers"]  # an emptyDir has no sticky bit
            assert sticky["command"] == ["chmod", "+t", "/tmp"]
            assert sticky["volumeMounts"] == container["volumeMounts"]


def test_the_dockerfile_takes_the_wheel_and_names_commands_that_exist() -> None:
    assert "COPY dist/*.whl" in DOCKERFILE.read_text()  # where `make package` puts it
    assert understood_words(words_of("HEALTHCHECK"))
    assert understood_words(["penstock", *words_of("CMD")])
    (path,) = (text for text in instructions()["ENV"] if text.startswith("PATH="))
    (copied,) = (text for text in instructions()["COPY"] if text.startswith("--from=build"))
    assert path.removeprefix("PATH=").startswith(f"{copied.split()[-1]}/bin:")


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
    text = blocks("sh")[0]
    params = understood(shlex.split(text), tmp_path)
    assert (params["supervise"], params["detached"]) == (True, True)
