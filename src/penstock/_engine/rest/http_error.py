"""HTTP errors, as Flink answers them: a status code and a list of texts."""

from __future__ import annotations

import msgspec


class HttpError(Exception):
    """Ends a request with a status code and a short text.

    Args:
        status: The HTTP status code.
        text: What is wrong; Flink's clients search in it, so its words are Flink's where Flink has any.
        headers: Header lines beside the usual ones.
    """

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, text)
        self.status, self.text = status, text
        self.headers = headers or {}


class ErrorResponseBody(msgspec.Struct):
    """The body of every answer about an error."""

    errors: list[str]


def job_not_found(job_id: str) -> HttpError:
    """Return the error for an unknown job."""
    return HttpError(404, f"Job {job_id} not found")
