"""Hides secrets in output: it recognizes secrets by their keys, by their form, and by known values.

All output for people (logs, REST, archives, messages) passes through `shown_value` if it has a key, and through
`shown_text` if it has none. The process learns its secrets from the configurations of its jobs: a password that an
exception cites is hidden, although nothing about that text looks like one.

Text that users write themselves, to their own log or into records, is not changed.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final, cast

import yaml

from penstock._errors.text import clean_name
from penstock.common.config_values import LIST, flow_yaml, load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

HIDDEN: Final = "******"

#: The key for more words, which mark the program's own secret keys.
WORDS_KEY: Final = "penstock.sensitive-words"

#: Words of secret keys. Only letters and digits are compared: "private key" finds `private-key` as well.
_WORDS: Final = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "credential", "api key", "service key"),
    *("private key", "signing key", "encryption key", "account key", "auth params", "basic auth", "authorization"),
    *("jaas config", "http headers", "access key", "storage key", "shared key", "customer key", "master key"),
)
#: A word of secret keys that counts only where it stands alone, as in ``db_pw``: its letters are in others, too.
_ALONE: Final = "pw"
_STANDS_ALONE: Final = rf"(?<![^\W_]){_ALONE}(?![^\W_])"
#: Keys that look secret, but name files.
_NO_SECRETS: Final = frozenset({"penstock.rest.private-key", WORDS_KEY})

#: The longest text that is searched in a name, which is cut off earlier.
_LOOKED_AT: Final = 10_000
#: Shorter values, and values of letters only, occur in ordinary texts and are not hidden there.
_LEAST_LENGTH: Final = 8

_PRIVATE_KEY: Final = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
_FRAME: Final = re.compile(r"-----(?:BEGIN|END) [A-Z ]+-----")
#: The part of a URL before the @: a name with a password, or a token if it is long enough.
_USER_INFO: Final = re.compile(
    r"(?i)\b([a-z][a-z0-9+.-]{0,20}://)(?:[^\s/@:'\"]*:(?!\d+/)(?:[^\s/'\"]*|[^\s@'\"]{0,1024}+)|[^\s/@:'\"]{16,})@"
)
_KEY: Final = re.compile(r"[\w.-]+")
_VALUE: Final = (
    r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|(?:Bearer|Basic|Digest)\s+[^\s,;'"]+|[^\s,;&'"()\[\]{}<>]+)"""
)
#: Values that mean no secret, or name the type of one.
_NO_VALUES: Final = frozenset({"none", "null", "true", "false", "str", "bytes", "int", HIDDEN})
#: Followed by a colon and a space, this word is in ordinary sentences as well.
_IN_PROSE: Final = frozenset({"token"})


class Redaction:
    """The secrets that a process knows, and the words that mark secret keys.

    Example:
        >>> redaction = Redaction()
        >>> redaction.value("s3.secret-key", "abc"), redaction.value("env", "{db: {password: abc}, region: eu}")
        ('******', "{db: {password: '******'}, region: eu}")
        >>> redaction.text("cannot reach postgres://joe:abc@db/sales with -Ddb.passphrase=abc")
        'cannot reach postgres://******@db/sales with -Ddb.passphrase=******'
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        self._words: tuple[str, ...] = ()
        self._values: tuple[str, ...] = ()
        self._add_words((*_WORDS, *words))

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Redaction:
        """Return the redaction of one configuration, with the words that it adds."""
        return cls(_more_words(settings))

    def learn(self, settings: Mapping[str, str], words: Iterable[str] = ()) -> None:
        """Add words, and the secrets of a configuration, which are then hidden in all texts."""
        self._add_words(words)
        found = {
            secret
            for key, value in settings.items()
            for secret in self._secrets(key, value)
            if len(secret) >= _LEAST_LENGTH and not secret.isalpha()
        }
        # The longest first: one may be a part of another.
        self._values = tuple(sorted(found.union(self._values), key=lambda secret: (-len(secret), secret)))

    def value(self, key: str, value: str) -> str:
        """Return the value of a key as it may be shown."""
        if self._is_secret(key):
            return HIDDEN
        content = self._nested(value)
        if content is None:
            return self.text(value)
        shown = self._shown(content)
        return value if shown == content else flow_yaml(shown)

    def text(self, text: str) -> str:
        """Return a text for display, without known secrets and without parts that have the form of a secret."""
        text = _PRIVATE_KEY.sub(HIDDEN, text)  # first: no secret is told by its frame any more where a part is gone
        for secret in self._values:
            text = text.replace(secret, HIDDEN)
        text = _USER_INFO.sub(rf"\1{HIDDEN}@", text)
        return self._assigned.sub(_without_value, text)

    def _add_words(self, words: Iterable[str]) -> None:
        self._words = tuple(dict.fromkeys((*self._words, *filter(None, map(_letters, words)))))
        # Nothing of a name is given back (?>): a text of nothing but such words would take a time of its square.
        # Between the letters of a word there may be what keys have between words.
        name = "|".join([*("[-_. ]?".join(map(re.escape, word)) for word in self._words), _STANDS_ALONE])
        self._assigned: re.Pattern[str] = re.compile(
            rf"""(?i)(?<![\w.-])(?P<dashes>--?(?=\w))?(?P<name>(?>[\w.-]*?(?:{name})[\w.-]*))(?P<quote>["']?)"""
            rf"""(?P<sign>\s?[=:]\s?|(?(dashes)\s+|(?!)))(?P<value>{_VALUE})"""
        )

    def _is_secret(self, key: str) -> bool:
        letters = _letters(key)
        is_alone = _ALONE in letters and re.search(_STANDS_ALONE, key.lower()) is not None
        return key not in _NO_SECRETS and (is_alone or any(word in letters for word in self._words))

    def _nested(self, value: str) -> object:
        """Return the maps and lists that a value is made of; None where it is a plain text."""
        if not value.lstrip().startswith(("{", "[")):
            pairs = [entry.partition(":") for entry in value.split(",")]
            is_map = all(colon and _KEY.fullmatch(key.strip()) for key, colon, _ in pairs) and any(
                self._is_secret(key) for key, _, _ in pairs
            )
            return {key.strip(): each.strip() for key, _, each in pairs} if is_map else None
        try:
            content = load_yaml(value)
        except yaml.YAMLError:
            return None
        return content if isinstance(content, (dict, list)) else None  # pyright: ignore[reportUnknownVariableType]

    def _shown(self, content: object) -> object:
        """Return nested maps and lists with their secrets hidden."""
        if isinstance(content, dict):
            entries = cast("dict[str, object]", content).items()
            return {key: HIDDEN if self._is_secret(key) else self._shown(value) for key, value in entries}
        if isinstance(content, list):
            return [self._shown(each) for each in cast("list[object]", content)]
        return self.value("", str(content))

    def _secrets(self, key: str, value: object) -> Iterator[str]:
        """Yield the secrets of a value: itself, or parts of it."""
        content = self._nested(value) if isinstance(value, str) and not self._is_secret(key) else None
        nested = value if content is None else content
        if isinstance(nested, dict):
            for name, each in cast("dict[str, object]", nested).items():
                yield from self._secrets(f"{key}.{name}" if self._is_secret(key) else name, each)
        elif isinstance(nested, list):
            for each in cast("list[object]", nested):
                yield from self._secrets(key, each)
        elif self._is_secret(key):
            yield from {str(nested), *_FRAME.sub(" ", str(nested)).split()}  # some keys take several
        else:
            yield from (
                line for match in _PRIVATE_KEY.finditer(str(nested)) for line in _FRAME.sub("", match[0]).split()
            )
            yield from (match["value"].strip("\"'") for match in self._assigned.finditer(str(nested)))
            yield from (part for match in _USER_INFO.finditer(str(nested)) for part in _user_info(match[0]))


def _more_words(settings: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return LIST.parse(settings.get(WORDS_KEY, ""))
    except ValueError:  # the check of the key says so
        return ()


def _letters(key: str) -> str:
    return "".join(filter(str.isalnum, key.lower()))


def _user_info(url: str) -> Iterator[str]:
    info = url.partition("://")[2].removesuffix("@")
    yield info.partition(":")[2] or info


def _without_value(match: re.Match[str]) -> str:
    name, sign, value = match["name"], match["sign"], match["value"]
    is_prose = name.lower() in _IN_PROSE and not match["quote"] and sign[-1:].isspace() and "=" not in sign
    if value.lower() in _NO_VALUES or (is_prose and not match["dashes"]):
        return match[0]
    mark = value[0] if value[0] in "\"'" else ""
    return f"{match['dashes'] or ''}{name}{match['quote']}{sign}{mark}{HIDDEN}{mark}"


#: The secrets that this process knows.
_PROCESS: Final = Redaction()
#: A redaction without known secrets.
_BY_FORM: Final = Redaction()


def learn_secrets(settings: Mapping[str, str], words: Iterable[str] = ()) -> None:
    """Hide the secrets of a configuration in all texts of this process from now on.

    Args:
        settings: The configuration.
        words: Words of keys that hold secrets, beside those known to.
    """
    _PROCESS.learn(settings, words)


def shown_value(key: str, value: str) -> str:
    """Return the value of a key for display."""
    return _PROCESS.value(key, value)


def shown_text(text: str) -> str:
    """Return a text, such as that of an exception, for display."""
    return _PROCESS.text(text)


def shown_name(name: str, key: str = "") -> str:
    r"""Return a name for display: on one line, of limited length, without parts that have the form of a secret.

    It is the same in each process, as jobs are found by their names.

    Args:
        name: The name.
        key: The key of which it is the value, such as a label's.

    Example:
        >>> shown_name("to smtp://joe:abc@host\n"), shown_name("abc", "password")
        ('to smtp://******@host\\n', '******')
    """
    name = name[:_LOOKED_AT]
    return clean_name(_BY_FORM.value(key, name) if key else _BY_FORM.text(name))


def hiding(logger: logging.Logger) -> logging.Logger:
    """Return a logger that hides secrets in its lines, for modules that log exceptions of user code.

    Example:
        >>> log = logging.getLogger("an.example")
        >>> hiding(log) is log
        True
    """
    if _hide not in logger.filters:
        logger.addFilter(_hide)
    return logger


def _hide(record: logging.LogRecord) -> bool:
    record.msg, record.args = shown_text(record.getMessage()), ()
    if record.exc_info is not None and record.exc_info[1] is not None:
        # Formatters take the text in place of the exception, which they would write out themselves.
        record.exc_text = shown_text(logging.Formatter().formatException(record.exc_info))
    return True
