"""The command as a whole: help, versions, completion, and calls that it does not know."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from penstock import __version__
from penstock._engine.cli.main import cli
from penstock._engine.processes.exit_codes import MEANINGS, ExitCode
from penstock._engine.processes.registry import JobRegistry, RegistryEntry, default_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.cli.conftest import Command

SOURCES = Path(__file__).parents[3] / "src"


def commands(group: click.Group = cli, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*above, name))
        else:
            yield (*above, name), command


@pytest.mark.parametrize(
    ("words", "command"), list(commands()), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_every_command_and_option_says_what_it_is_for(
    penstock: Command, words: tuple[str, ...], command: click.Command
) -> None:
    assert penstock(*words, "--help").code == 0
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_version(penstock: Command) -> None:
    assert penstock("--version").out == f"penstock {__version__}\n"


@pytest.mark.parametrize("words", [("runn",), ("stop",), ("stop", "a", "b"), ("stop", "a", "--timeout", "soon")])
def test_unknown_call_is_one_line_with_the_way_to_help(penstock: Command, words: tuple[str, ...]) -> None:
    done = penstock(*words)
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert len(done.err.splitlines()) == 1
    assert "--help" in done.err


@pytest.mark.parametrize("words", [(), ("savepoint",)])
def test_call_without_a_command_prints_the_help_and_nothing_else(penstock: Command, words: tuple[str, ...]) -> None:
    done = penstock(*words)
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert done.err == penstock(*words, "--help").out


def test_each_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_calls_the_command(penstock: Command, shell: str) -> None:
    assert "_PENSTOCK_COMPLETE" in penstock("completion", shell).out


def test_names_of_running_jobs_are_completed() -> None:
    registry = JobRegistry(default_directory())
    registry.add(RegistryEntry.of_this_process("ab" * 16, "prices", "http://127.0.0.1:9", 1))
    environ = {"_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": "penstock stop pri", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "penstock"],
        env={**os.environ, **environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    registry.clear()
    assert "prices" in done.stdout


def test_help_loads_neither_spark_nor_http() -> None:
    program = "import sys; from penstock._engine.cli.main import main; main(['--help']); print(*sys.modules)"
    environ = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert not {"pyspark", "pyarrow", "httpx", "obstore"} & set(done.stdout.split())
