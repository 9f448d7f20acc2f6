"""What the Dockerfile says, as data, and a stand-in for a container of its image: namespaces and a read-only root."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"
#: The system's Python: all users can read it.
PYTHON = Path("/usr/bin/python3")

#: Mounts the system, an environment, programs and data below a new root, nothing of it writable but /tmp and the data.
_CONTAINER = """
set -e
mount --make-rprivate /
mount -t tmpfs none "$ROOT"
mkdir -p "$ROOT"/{usr,etc,opt/penstock,app,tmp,data,proc,dev}
for name in bin sbin lib lib64; do ln -s "usr/$name" "$ROOT/$name"; done
mount --rbind /dev "$ROOT/dev"
mount -t proc none "$ROOT/proc"
mount -t tmpfs -o mode="$TMP_MODE" none "$ROOT/tmp"
mount --bind "$DATA" "$ROOT/data"
for pair in /usr:usr /etc:etc "$ENVIRONMENT:opt/penstock" "$APP:app" "$PASSWD:etc/passwd"; do
    mount --bind "${pair%%:*}" "$ROOT/${pair##*:}"
    mount -o remount,bind,ro "$ROOT/${pair##*:}"
done
mount -o remount,ro "$ROOT"
exec chroot "$ROOT" "$@"
"""


def instructions() -> dict[str, list[str]]:
    """Return the instructions of the image itself, its last stage, by their names."""
    text = re.sub(r"\\\n", " ", "\n".join(line for line in DOCKERFILE.read_text().splitlines() if line[:1] != "#"))
    last = text[text.rindex("\nFROM ") :]
    found: dict[str, list[str]] = {}
    for name, words in re.findall(r"^([A-Z]+) +(.+)$", last, re.MULTILINE):
        found.setdefault(name, []).append(words.strip())
    return found


def words_of(name: str) -> list[str]:
    """Return the words of an instruction in exec form, such as ENTRYPOINT, without options before them."""
    (text,) = instructions()[name]
    words: list[str] = json.loads(text[text.index("[") :])
    return words


def user() -> list[str]:
    """Return the number of the user and that of the group."""
    (text,) = instructions()["USER"]
    return text.split(":")


class Container:
    """A stand-in for a container of the image: its entrypoint as the first process, its user, its variables.

    Args:
        place: Where it has its files: `app` for programs and `data`, which outlives it.
        environment: The environment of Python that stands for `/opt/penstock`.
        arguments: The arguments of the image.
        tmp_mode: The mode of `/tmp`.
        variables: More variables.
    """

    def __init__(
        self, place: Path, environment: Path, *arguments: str, tmp_mode: str = "1777", **variables: str
    ) -> None:
        number, group = user()
        passwd = place / "passwd"
        passwd.write_text(f"root:x:0:0::/root:/bin/sh\npenstock:x:{number}:{group}::/home/penstock:/bin/sh\n")
        for name in ("root", "app", "data"):
            (place / name).mkdir(exist_ok=True)
        subprocess.run(["chown", f"{number}:{group}", place / "data"], check=True)
        self._inside = [
            *("setpriv", f"--reuid={number}", f"--regid={group}", "--clear-groups", "--no-new-privs"),
            *("--bounding-set=-all", "--inh-caps=-all", "env", "-i", "-C", instructions()["WORKDIR"][0]),
            *("PATH=/opt/penstock/bin:/usr/bin:/bin", "HOME=/home/penstock"),
            *(f"{name}={value}" for name, value in variables.items()),
        ]
        mounts = {
            "ROOT": place / "root",
            "ENVIRONMENT": environment,
            "APP": place / "app",
            "DATA": place / "data",
            "PASSWD": passwd,
            "TMP_MODE": tmp_mode,
        }
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", _CONTAINER, "container"]
        self.log = place / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *self._inside, *words_of("ENTRYPOINT"), *arguments],
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **{key: str(value) for key, value in mounts.items()}},
                stdout=log,
                stderr=log,
            )

    @property
    def first_process(self) -> int:
        """The number, outside, of its first process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as `docker exec` and probes do."""
        enter = ["nsenter", "--target", str(self.first_process), "--mount", "--pid", "--root"]
        return subprocess.run([*enter, *self._inside, *words], capture_output=True, text=True, check=False)

    def stop(self) -> int:
        """Send SIGTERM to the first process, as `docker stop` and Kubernetes do; return the exit code."""
        os.kill(self.first_process, signal.SIGTERM)
        return self.process.wait(300)

    def wait(self, seconds: float = 300) -> int:
        """Wait for its end; return the exit code."""
        return self.process.wait(seconds)

    def attempts(self, seconds: float = 120) -> Generator[None]:
        """Let a caller look again and again, until it breaks off."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            yield
            time.sleep(0.5)
        raise AssertionError(self.log.read_text()[-4000:])


def environment_of(wheel: Path, place: Path, tini: str) -> Path:
    """Make the environment that stands for `/opt/penstock`: the wheel, and the first process of the image."""
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--relocatable", "--python", PYTHON, place], check=True)
    install = [*uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", place / "bin" / "python"]
    subprocess.run([*install, wheel], check=True)
    shutil.copy(tini, place / "bin" / "tini")
    return place
