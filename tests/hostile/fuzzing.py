"""What the tests with random input share: how much of it there is, odd values, and a watch over what is touched."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Generator

#: How many examples the campaign wants of each test.
_WANTED = os.environ.get("PENSTOCK_FUZZ_EXAMPLES")


def fuzzed(examples: int) -> settings:
    """Return the settings of a test with so many examples; the campaign has as many as it wants."""
    most = examples if _WANTED is None else int(_WANTED)
    return settings(max_examples=most, deadline=None, suppress_health_check=list(HealthCheck))


# ------------------------------------------------------------------------------------------------------ what is touched

_TOUCHES = {"open", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
_COMMANDS = {"os.system", "subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "socket.connect"}
_touched: list[str] | None = None


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _touched is None:
        return
    if event in _COMMANDS:
        _touched.append(event)
    elif event in _TOUCHES:
        _touched.extend(os.fsdecode(one) for one in arguments[:2] if isinstance(one, (str, bytes)) and one != "r")


sys.addaudithook(_hear)  # for good: what it does is switched on and off


@contextmanager
def inside(*roots: Path) -> Generator[None]:
    """Fail where anything but files below some directories is opened, made or removed, or a command is run."""
    global _touched  # noqa: PLW0603 - an audit hook stays for good
    _touched = []
    try:
        yield
    finally:
        touched, _touched = _touched, None
    allowed = (
        *map(str, roots),
        sys.prefix,
        sys.base_prefix,
        str(Path(__file__).parents[2]),
        "/dev/",
        "/proc/",
        "/usr/",
    )
    strange = [path for path in touched if path[:1] in {"/", "."} and not os.path.realpath(path).startswith(allowed)]
    found = [path for path in [*strange, *(_COMMANDS & set(touched))] if not path.startswith(allowed)]
    assert not found, found


# -------------------------------------------------------------------------------------------------------------- inputs

odd_text = st.one_of(
    st.sampled_from(["", ".", "..", "../x", "/etc/passwd", "a/../../b", "\x1b[2J", "\x00", "a" * 300, "\u202e"]),
    st.text(max_size=12),
)
odd_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([-1, 0, 1, 2**31, 2**63, 2**64, 10**30, -(2**63)]),
        st.floats(allow_nan=False, allow_infinity=False),
        odd_text,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=4,
)
