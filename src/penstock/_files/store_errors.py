"""Summarizes the errors of ``obstore`` in a clause; their own text has the whole answer and its inner structure."""

from __future__ import annotations

import re
from html import unescape
from typing import Final
from urllib.parse import urlsplit

#: The codes of S3, Google Cloud Storage and Azure for a missing object.
_MISSING: Final = frozenset({"NoSuchKey", "BlobNotFound"})
#: The address at which machines in a cloud get credentials.
_METADATA_SERVER: Final = "169.254.169.254"
#: Fragments of the inner structure, each with its meaning.
_CAUSES: Final = (
    ("ConnectionRefused", "the connection is refused"),
    ("failed to lookup", "its name is not known"),
    ("TimedOut", "it takes too long"),
    ("Certificate", "its certificate is not trusted"),
)


def is_missing(error: FileNotFoundError) -> bool:
    """Tell whether an error means a missing file; a missing bucket and other errors have the same status, 404."""
    return _code(str(error)) in {None, *_MISSING}


def reason_of(error: Exception) -> str:
    """Return why a request failed, without a full stop."""
    text = str(error)
    if _METADATA_SERVER in text:
        return (
            "there are no credentials; set s3.access-key and s3.secret-key, or the variables AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        )
    if (code := _code(text)) is not None:
        message = re.search("<Message>(.*?)</Message>", text, re.DOTALL)
        return f"the store answers {code}" + (f": {unescape(message.group(1)).rstrip('.')}" if message else "")
    first = (text.splitlines() or [type(error).__name__])[0].rstrip(".")
    request = re.search(r"Error performing [A-Z]+ (\S+) in .*HTTP error: (.*)", first)
    if request is None:
        return first
    server = urlsplit(request.group(1))
    cause = next((meaning for sign, meaning in _CAUSES if sign in text), request.group(2))
    return f"{server.scheme}://{server.netloc} does not answer: {cause}"


def _code(text: str) -> str | None:
    found = re.search("<Code>(.*?)</Code>", text)
    return None if found is None else found.group(1)
