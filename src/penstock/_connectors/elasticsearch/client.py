"""One request to a cluster: what it says, or why it has to be sent again."""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

import msgspec

from penstock.common.libraries import library_of
from penstock.common.redaction import shown_text
from penstock.errors import ElasticsearchConnectorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from penstock._connectors.elasticsearch.options import ConnectionOptions

#: What a cluster, or a proxy before it, says when another try may succeed.
TRY_AGAIN: Final = frozenset({408, 425, 429, 502, 503, 504})
_DONE: Final = 200
_NOT_FOUND: Final = 404
_TOO_LARGE: Final = 413
#: Longest pause that a cluster may ask for, and what is shown of an answer that is no answer.
_LONGEST_PAUSE_S: Final = 60.0
_SHOWN: Final = 300
_PATH: Final = "/_bulk?filter_path=errors,error,status,items.*._id,items.*.status,items.*.error"


class UnsureError(Exception):
    """A request has to be sent again: it may have been carried out, in part or not at all.

    Args:
        reason: What happened.
        pause_s: How long the cluster asks to wait.
    """

    def __init__(self, reason: str, pause_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.pause_s = reason, pause_s


class TooLargeError(Exception):
    """A request has more bytes than the cluster takes; nothing of it was carried out."""


class ElasticsearchClient:
    """Sends bulk requests to one of the hosts, and to the next one when it does not answer.

    Args:
        options: How the cluster is reached.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        options.hide_secrets()
        self._options = options
        self._client: httpx.Client | None = None
        self._host = 0

    @property
    def address(self) -> str:
        """The host that is asked."""
        return self._options.hosts[self._host]

    def bulk(self, body: bytes, ids: list[str | None]) -> list[dict[str, Any]]:
        """Send a bulk request, and return what became of each of its actions.

        Args:
            body: The lines.
            ids: Of the documents, with which the answer has to agree.

        Raises:
            UnsureError: It has to be sent again.
            TooLargeError: It has to be sent in parts.
            ElasticsearchConnectorError: It is refused.
        """
        return self._items(self._asked("POST", _PATH, body), ids)

    def exists(self, target: str) -> bool:
        """Tell whether there is an index, alias or data stream; true where the cluster does not say it.

        Raises:
            UnsureError: It has to be asked again.
        """
        return self._asked("HEAD", f"/{quote(target, safe='')}").status_code != _NOT_FOUND

    def present(self, target: str, ids: Sequence[str]) -> set[str] | None:
        """Return which documents there are in all indices of a target; None where the cluster does not say it.

        Args:
            target: An index, alias or data stream.
            ids: Of the documents, at most 10,000.

        Raises:
            UnsureError: It has to be asked again.
        """
        place = f"/{quote(target, safe='')}"
        refreshed = self._asked("POST", f"{place}/_refresh")
        if refreshed.status_code == _NOT_FOUND:
            return set()
        question = {"query": {"ids": {"values": list(ids)}}, "size": len(ids), "_source": False}
        found = self._asked("POST", f"{place}/_search?filter_path=hits.hits._id", msgspec.json.encode(question))
        if refreshed.status_code != _DONE or found.status_code != _DONE:
            return None
        try:
            return {hit["_id"] for hit in msgspec.json.decode(found.content).get("hits", {}).get("hits", ())}
        except (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError):
            raise UnsureError(f"{self.address} answers with what is no answer to a search ({_said(found)})") from None

    def _asked(self, method: str, path: str, body: bytes | None = None) -> httpx.Response:
        self._client = client = self._client or self._connected()
        import httpx

        kind = {} if path is _PATH else {"Content-Type": "application/json"}
        try:
            answer = client.request(method, f"{self.address}{self._options.prefix}{path}", content=body, headers=kind)
        except httpx.RequestError as error:
            asked = self.address
            self._host = (self._host + 1) % len(self._options.hosts)
            reason = f"{asked} does not answer ({_why(error)})"
            if isinstance(_root(error), ssl.SSLCertVerificationError):
                raise self._error(f"the certificate of {asked} is not trusted ({_why(error)})") from None
            raise UnsureError(reason) from None
        if answer.status_code in TRY_AGAIN:
            raise UnsureError(
                f"{self.address} answers with status {answer.status_code} ({_said(answer)})", _pause_s(answer)
            )
        return answer

    def _connected(self) -> httpx.Client:
        httpx = library_of("elasticsearch")

        options = self._options
        headers = {"Content-Type": "application/x-ndjson"}
        if options.api_key is not None:
            key = options.api_key
            headers["Authorization"] = f"ApiKey {base64.b64encode(key.encode()).decode() if ':' in key else key}"
        login = None if options.username is None else httpx.BasicAuth(options.username, options.password or "")
        connect_s, answer_s, request_s = options.connect_ms / 1000, options.answer_ms / 1000, options.request_ms / 1000
        return httpx.Client(
            headers=headers,
            auth=login,
            verify=self._trusted(),
            timeout=httpx.Timeout(answer_s, connect=connect_s, pool=request_s),
            trust_env=False,  # the proxies of the environment are for the internet
        )

    def _trusted(self) -> ssl.SSLContext:
        if not any(host.startswith("https:") for host in self._options.hosts):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading the system's certificates takes 0.1 s
        try:
            return ssl.create_default_context(cafile=self._options.certificates)
        except OSError as error:
            reason = f"the certificates in {self._options.certificates} cannot be read ({error.strerror or error})"
            raise self._error(reason) from None

    def _items(self, answer: httpx.Response, ids: list[str | None]) -> list[dict[str, Any]]:
        status = answer.status_code
        if status == _TOO_LARGE:
            raise TooLargeError
        if status != _DONE:
            way_out = {401: "; check the user and the password, or the API key", 403: "; the user lacks a right"}
            more = way_out.get(status, "; check the address and the path prefix" if status in {301, 302, 404} else "")
            raise self._error(f"it answers with status {status} ({_said(answer)}){more}")
        try:
            content = msgspec.json.decode(answer.content)
            items = [next(iter(item.values())) for item in content["items"]]
            fits = [item["_id"] for item in items] == ids and all(type(item["status"]) is int for item in items)
        except (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError, StopIteration):
            fits, items = False, []
        if not fits:
            raise UnsureError(f"{self.address} answers with what is no answer to a bulk request ({_said(answer)})")
        return items

    def _error(self, reason: str) -> ElasticsearchConnectorError:
        return ElasticsearchConnectorError(f"Writing into {self.address}", reason)

    def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def reason_of(error: Any) -> str:
    """Return what a cluster says about an error, with its cause.

    Example:
        >>> reason_of({"type": "mapper_parsing_exception", "reason": "failed", "caused_by": {"reason": "no number"}})
        'mapper_parsing_exception: failed: no number'
    """
    if not isinstance(error, dict):
        return shown_text(str(error))
    given = cast("dict[str, Any]", error)
    parts = [str(given[key]) for key in ("type", "reason") if given.get(key)]
    if isinstance(given.get("caused_by"), dict) and given["caused_by"].get("reason"):
        parts.append(str(given["caused_by"]["reason"]))
    return shown_text(": ".join(parts) or str(given)).removesuffix(".")


def _said(answer: httpx.Response) -> str:
    try:
        return reason_of(msgspec.json.decode(answer.content)["error"])
    except (msgspec.DecodeError, ValueError, TypeError, KeyError):
        text = answer.content[:_SHOWN].decode(errors="replace")
        return shown_text(" ".join(text.split())) or "without a text"


def _pause_s(answer: httpx.Response) -> float:
    text = answer.headers.get("Retry-After", "")
    return min(float(text), _LONGEST_PAUSE_S) if text.isdigit() else 0.0


def _root(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _why(error: Exception) -> str:
    return shown_text(str(error)).removesuffix(".") or type(error).__name__
