"""Signs existing savepoints: those from before a key was configured, and those of a writer whom the user trusts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock._engine.coordinator.checkpoints.snapshots import map_handles
from penstock._engine.protocol.paths import METADATA
from penstock._engine.protocol.signing import file_digest
from penstock._engine.savepoints.located import locate
from penstock._engine.storage.checkpoint_storage import document_of
from penstock._engine.storage.opening import open_storage
from penstock.common import option_table
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engine.protocol.state_handle import StateHandle

_KEY: Final = option_table.STATE_SIGNING_KEY.key


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """The result of signing."""

    path: str
    job_id: str
    job_name: str
    checkpoint_id: int
    #: Files whose digests the signature covers.
    files: int


def sign(path: str, options: Mapping[str, str]) -> SignedCheckpoint:
    """Sign an existing savepoint or checkpoint of any writer; its files are read, and nothing is unpickled.

    Args:
        path: Its directory or its metadata file.
        options: Options of the storage, the key among them.

    Raises:
        ConfigurationError: There is no key.
        UnknownStateError: There is no savepoint or checkpoint at that path.
        CorruptCheckpointError: A file of it is damaged or gone.
    """
    keys = open_storage(path, options).keys
    if not keys:
        raise ConfigurationError(_KEY, "", "there is no key to sign with")
    located = locate(path, {key: value for key, value in options.items() if key != _KEY})

    def with_digest(handle: StateHandle) -> StateHandle:
        data = located.read(handle)
        return handle if handle.path is None else replace(handle, digest=file_digest(data))

    entry, files = located.entry, 0
    if entry.snapshot is not None:
        digests: dict[StateHandle, StateHandle] = {}  # after a rescale several subtasks name one file
        entry = replace(
            entry,
            snapshot=map_handles(
                entry.snapshot, lambda handle: digests.get(handle) or digests.setdefault(handle, with_digest(handle))
            ),
        )
        files = len({handle.path for handle in digests if handle.path is not None})
    target = open_storage(located.path, options)
    target.put(METADATA, document_of(target, entry))
    return SignedCheckpoint(located.path, entry.job_id, entry.job_name, entry.checkpoint_id, files)
