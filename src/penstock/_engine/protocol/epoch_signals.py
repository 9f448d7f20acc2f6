"""What the driver and the workers of a run tell each other while an epoch runs, on a connection for each worker.

There are three messages: something waits for the end of the epoch, such as a reader for a split; a function has failed,
so the epoch is void; and an epoch ends early. All are seals of a few bytes under a secret of the run, over a number
that the receiver has made up for the connection. So nothing that comes from the network is decoded, and nothing sent to
another one, or of another epoch, counts.
"""

from __future__ import annotations

import secrets
from typing import Final

from penstock._engine.protocol.signing import SEAL_BYTES, seal_of

#: The bytes of a message, and of the numbers that both sides make up.
SIGNAL_BYTES: Final = SEAL_BYTES

#: A worker shows that it knows the secret.
KNOWS: Final = "knows"
WANTS: Final = "wants"
FAILS: Final = "fails"
ENDS: Final = "ends"


def epoch_name(checkpoint_id: int, attempt: int, job_attempt: int) -> str:
    """Return the name of an attempt at an epoch, which no other one of the run has."""
    return f"{checkpoint_id} {attempt} {job_attempt}"


def new_nonce() -> bytes:
    """Return a random number, as bytes: it is another one each time."""
    return secrets.token_bytes(SIGNAL_BYTES)


def signal(kind: str, epoch: str, nonce: bytes, key: bytes) -> bytes:
    """Return a message.

    Args:
        kind: `KNOWS`, `WANTS`, `FAILS` or `ENDS`.
        epoch: Names the attempt at the epoch that it is about.
        nonce: The number that the receiver has made up.
        key: A secret of the run.

    Example:
        >>> nonce = new_nonce()
        >>> signal(ENDS, "7 1 0", nonce, b"k" * 32) == signal(ENDS, "7 2 0", nonce, b"k" * 32)
        False
    """
    return seal_of(nonce, key, f"{kind} {epoch}")
