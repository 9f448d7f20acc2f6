"""Why a server cannot be asked, and what to do: TLS on one side alone, an unknown certificate, nothing there."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from penstock.errors import JobUnreachableError

if TYPE_CHECKING:
    import httpx

_WITH_TLS: Final = "https://"
_OTHER_NAME: Final = 62, 64  # X509_V_ERR_HOSTNAME_MISMATCH, …_IP_ADDRESS_MISMATCH
#: What OpenSSL calls the first bytes of an answer without TLS, by version.
_PLAIN: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})
_WANTED: Final = frozenset({"TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE"})


def unreachable(address: str, error: httpx.HTTPError | httpx.InvalidURL, *, is_pinned: bool) -> JobUnreachableError:
    """Return the error for a request that had no answer.

    Args:
        address: The server.
        error: What happened.
        is_pinned: Whether the server's very certificate was known, from this user's list of jobs.
    """
    reason, way_out = _explanation(address, error, is_pinned=is_pinned)
    return JobUnreachableError(address, reason) if way_out is None else JobUnreachableError(address, reason, way_out)


def _explanation(address: str, error: Exception, *, is_pinned: bool) -> tuple[str, str | None]:
    import httpx

    cause = _of_tls(error)
    said = str(error).rstrip(".") or type(error).__name__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _of_certificate(cause, said, is_pinned=is_pinned)
    plain = address.removeprefix(_WITH_TLS).join(("http://", ""))
    if cause is not None and cause.reason in _PLAIN:
        return f"it does not speak TLS ({said})", f"Where it is meant to be without TLS, its address is {plain}."
    if cause is not None and cause.reason in _WANTED:
        return (
            f"it refuses clients without a certificate of their own ({said})",
            "Only the user who started the job has such a certificate here: by penstock list, without --address.",
        )
    if isinstance(error, httpx.RemoteProtocolError) and not address.startswith(_WITH_TLS):
        with_tls = f"{_WITH_TLS}{address.partition('://')[2]}"
        return (
            "it has closed the connection without an answer, as a server does that speaks TLS alone",
            f"Give its address as {with_tls}, and with --cacert the file that its certificate comes from.",
        )
    return said, None


def _of_certificate(cause: ssl.SSLCertVerificationError, said: str, *, is_pinned: bool) -> tuple[str, str]:
    why = str(cause.verify_message or said).rstrip(".")
    if is_pinned:
        return (
            f"its certificate is not the one with which the job has started ({why})",
            "Another server may have its port now: see penstock list.",
        )
    if cause.verify_code in _OTHER_NAME:
        return f"its certificate is for another name ({why})", "Give --address with the name in the certificate."
    return (
        f"its certificate is not known here ({why})",
        "Give the PEM file with it, or with the authority that has signed it, by --cacert or PENSTOCK_CACERT.",
    )


def _of_tls(error: BaseException | None) -> ssl.SSLError | None:
    """Return the error of TLS that is behind another one."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error
