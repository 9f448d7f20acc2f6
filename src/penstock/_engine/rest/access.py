"""Who may do what: tokens and their roles, as the configuration has them, and one-time codes for a token."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from penstock.common import option_table
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._engine.protocol.clocks import Moment
    from penstock.common.config_options import ConfigOption
    from penstock.common.configuration import Configuration

_READING: Final = option_table.REST_READ_ONLY_TOKEN
#: The value that switches tokens off, so that every client is an operator.
_OPEN: Final = "none"
_SHORTEST_TOKEN: Final = 16

#: A code is valid for this time; its link is used right after the start of the program.
_CODE_MS: Final = 3_600_000
_CODES: Final = 16


class Role(IntEnum):
    """The rights of a client; each role includes the rights of the lower ones."""

    #: Load the pages, which hold no figures.
    ANYBODY = 0
    #: Read about jobs.
    READER = 1
    #: Steer them.
    OPERATOR = 2


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The names of the server, and the tokens of its clients."""

    #: Names accepted in the Host header, in lower case, in addition to numeric addresses and localhost.
    hosts: frozenset[str] = frozenset()
    #: The bearer token of operators; None where every client is an operator.
    token: str | None = field(default=None, repr=False)
    #: The bearer token of readers; None where there are none.
    read_only_token: str | None = field(default=None, repr=False)


class OneTimeCodes:
    """One-time codes in links: each returns the token once, for a short time. Safe to use from any thread.

    Args:
        clock: Returns the moment.
    """

    def __init__(self, clock: Callable[[], Moment]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._made: OrderedDict[str, Moment] = OrderedDict()

    def new(self) -> str:
        """Return a new code; beyond the maximum number, the oldest code becomes invalid."""
        code = secrets.token_urlsafe(16)
        with self._lock:
            self._made[code] = self._clock()
            if len(self._made) > _CODES:
                self._made.popitem(last=False)
        return code

    def redeem(self, code: str) -> bool:
        """Tell whether a code is valid, and make it invalid."""
        now = self._clock()
        with self._lock:
            known = [one for one in self._made if hmac.compare_digest(one.encode(), code.encode())]
            made = [self._made.pop(one) for one in known]
        return any(now.since(one) <= _CODE_MS for one in made)


def read_access(configuration: Configuration, hosts: frozenset[str]) -> AccessPolicy:
    """Return the access policy of the configuration; if it sets no token, one is made, unless tokens are switched off.

    Raises:
        ConfigurationError: A token is too short, or gives no more than clients without it have.
    """
    token, reading = (_token(configuration, option) for option in (option_table.REST_TOKEN, _READING))
    if reading is not None and token in {_OPEN, reading}:
        reason = "it opens no more than is open to everybody" if token == _OPEN else "it is the operators' token"
        raise ConfigurationError(_READING.key, "******", reason)
    return AccessPolicy(hosts, None if token == _OPEN else token or secrets.token_urlsafe(32), reading)


def _token(configuration: Configuration, option: ConfigOption[str | None]) -> str | None:
    token = configuration.get(option)
    if token is None or (token == _OPEN and option is not _READING):
        return token
    if len(token) < _SHORTEST_TOKEN or not all("!" <= character <= "~" for character in token):
        reason = (
            f"a token has at least {_SHORTEST_TOKEN} printable characters of ASCII and no blanks, such as `openssl "
            "rand -hex 16` prints"
        )
        made = "" if option is _READING else "; leave the key out to have one made, or set none to ask for none"
        raise ConfigurationError(option.key, "******" if token else "", reason + made)
    return token
