"""JobID: the id of a job (``pyflink.common.job_id``)."""

from __future__ import annotations

import re
import uuid

__all__ = ["JobID"]


class JobID:
    """The id of a job: 32 hexadecimal digits.

    Args:
        text: The digits, lower case; left out for a random id.

    Raises:
        ValueError: The text is something else.

    Source: ``pyflink.common.JobID``.

    Example:
        >>> str(JobID("0123456789abcdef0123456789abcdef"))
        '0123456789abcdef0123456789abcdef'
        >>> JobID() == JobID()
        False
    """

    __slots__ = ("_text",)

    def __init__(self, text: str | None = None) -> None:
        self._text = uuid.uuid4().hex if text is None else text
        if not re.fullmatch("[0-9a-f]{32}", self._text):
            msg = f"A job id has 32 hexadecimal digits in lower case, not {text!r}."
            raise ValueError(msg)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"JobID({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)
