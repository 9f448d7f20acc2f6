"""The committables of a savepoint or checkpoint that are still to be committed, as far as they can be told."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock._engine.protocol.committables import committable_ids
from penstock._engine.protocol.versioned import unpack
from penstock._engine.state.files.trust import AllowedClasses
from penstock.common.redaction import shown_text
from penstock.common.user_values import short_repr
from penstock.errors import UntrustedClassError

if TYPE_CHECKING:
    from penstock._engine.protocol.metadata import ChainEntry

#: Where the classes of the built-in sinks' committables are.
_OWN: Final = ("penstock._connectors.", "penstock._api.connectors.")


@dataclass(frozen=True, slots=True)
class CommittableInfo:
    """A committable that is not known to be committed; a start from here commits it first."""

    #: The name by which a start option decides about it.
    id: str
    #: The sink's uid.
    uid: str
    checkpoint_id: int
    subtask: int
    #: How often its committer has put it off.
    retries: int
    bytes: int
    #: What it holds, as far as it can be read without the program's classes.
    contents: str


def pending_committables(entry: ChainEntry) -> tuple[CommittableInfo, ...]:
    """Return the committables of an entry that are not known to be committed."""
    commits = entry.commits if entry.snapshot is None else entry.snapshot.commits
    return tuple(
        CommittableInfo(
            *(id_, commit.uid, commit.checkpoint_id, item.subtask, item.retries, len(item.payload)),
            contents=_contents(item.payload),
        )
        for commit in (() if commits is None else commits.outstanding)
        for id_, item in zip(committable_ids(commit), commit.committables, strict=True)
    )


def _contents(payload: bytes) -> str:
    """Return what the bytes of a committable hold; none of the program's code runs for it."""
    version, data = unpack(payload)
    names = set[str]()
    while True:
        try:
            return shown_text(short_repr(AllowedClasses.of(names).load(data)))
        except UntrustedClassError as error:
            if error.name in names or not _is_own(error.name):
                return shown_text(f"a {error.name}")
            names.add(error.name)
        except Exception:  # noqa: BLE001 - another serializer's bytes may be anything
            return f"bytes of version {version} of its serializer"


def _is_own(name: str) -> bool:
    """Tell whether a name is that of plain data of a built-in sink."""
    module, _, own = name.rpartition(".")
    if not name.startswith(_OWN):
        return False
    try:
        return is_dataclass(getattr(import_module(module), own, None))
    except ImportError:
        return False
