"""The command ``penstock port``: converts programs of PyFlink to Penstock."""

from __future__ import annotations

import difflib
import os
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from penstock._engine.cli.output import count_text, say
from penstock._engine.cli.porting import lines_of, ported
from penstock._engine.processes.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock._engine.cli.port_findings import Finding
    from penstock._engine.cli.porting import Ported

#: Folders that hold no programs of the user.
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    text: str
    charset: str
    ported: Ported

    @property
    def changed(self) -> bool:
        return self.ported.text != self.text


@click.command("port")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="PATH...")
@click.option("--write", is_flag=True, help="Change the files in place; without it, the changes are shown as a diff.")
@click.option("--check", is_flag=True, help="Change and show nothing; end with code 1 if a file would be changed.")
def port(paths: tuple[Path, ...], *, write: bool, check: bool) -> int:
    """Change the imports of PyFlink programs from pyflink to penstock.

    PATH is a program, or a folder with programs. Layout and comments stay as they are. What cannot work then is listed
    on standard error with its line, the reason and what to do; the exit code is 1 if there is any. What has no effect,
    and may stay, is listed behind it.
    """
    if write and check:
        raise click.UsageError("--write and --check exclude each other.")
    files: list[_File] = []
    unread = 0
    for path in _programs(paths):
        try:
            files.append(_read(path))
        except (SyntaxError, ValueError) as error:  # a UnicodeError is a ValueError
            say(f"{path} is no Python: {error}.")
            unread += 1
        except OSError as error:
            say(f"{path} cannot be read: {error.strerror}.")
            unread += 1
    changed = [file for file in files if file.changed]
    for file in changed:
        if write:
            file.path.write_bytes(file.ported.text.encode(file.charset))
        elif not check:
            sys.stdout.writelines(_diff(file))
    by_hand = _tell("To be changed by hand:", files, may_stay=False)
    may_stay = _tell("Without effect, or with a newer name; it may stay:", files, may_stay=True)
    done = "Changed" if write else "Would change"
    uses = count_text(sum(file.ported.changes for file in files), "use")
    say(
        f"{done} {uses} of pyflink in {len(changed)} of {count_text(len(files), 'file')}; "
        f"{by_hand} to be changed by hand, {may_stay} may stay."
    )
    return ExitCode.FAILED if unread or by_hand or (check and changed) else ExitCode.OK


def _programs(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files, and those with Python in the folders, each once."""
    seen: set[Path] = set()
    for path in paths:
        for file in _below(path) if path.is_dir() else (path,):
            if (real := file.resolve()) not in seen:
                seen.add(real)
                yield file


def _below(folder: Path) -> Iterator[Path]:
    for name, folders, files in os.walk(folder):
        here = Path(name)
        folders[:] = sorted(
            one
            for one in folders
            if one not in _SKIPPED and not one.startswith(".") and not (here / one / "pyvenv.cfg").exists()
        )
        yield from (here / file for file in sorted(files) if file.endswith(".py"))


def _read(path: Path) -> _File:
    with path.open("rb") as file:
        charset, _ = tokenize.detect_encoding(file.readline)
    text = path.read_bytes().decode(charset)  # with the ends of its lines, which may be those of Windows
    return _File(path, text, charset, ported(text))


def _diff(file: _File) -> Iterator[str]:
    before, after = lines_of(file.text), lines_of(file.ported.text)
    for line in difflib.unified_diff(before, after, str(file.path), str(file.path)):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _tell(heading: str, files: Iterable[_File], *, may_stay: bool) -> int:
    """List findings, those for one reason in one line; return how many there are."""
    places: dict[str, list[tuple[Path, Finding]]] = {}
    for file in files:
        for finding in file.ported.findings:
            if finding.may_stay == may_stay:
                places.setdefault(finding.reason, []).append((file.path, finding))
    if places:
        say(heading)
    for reason, found in places.items():
        names = ", ".join(dict.fromkeys(finding.what for _, finding in found))
        path, first = found[0]
        times = f" ({len(found)} times{_also(found)})" if len(found) > 1 else ""
        say(f"{path}:{first.line}: {names}: {reason}{times}.")
    return sum(map(len, places.values()))


def _also(found: list[tuple[Path, Finding]]) -> str:
    """Return the places behind the first, each once, as a clause: those of a file behind its name."""
    lines: dict[Path, list[int]] = {}
    for path, line in list(dict.fromkeys((path, finding.line) for path, finding in found))[1:]:
        lines.setdefault(path, []).append(line)
    shown = (f"{path}:{', '.join(map(str, numbers))}" for path, numbers in lines.items())
    return f"; also {'; '.join(shown)}" if lines else ""
