"""The client of a job's REST server, with Flink's paths and fields."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

from penstock._engine.cli.unreachable import unreachable
from penstock._engine.processes.registry import default_directory
from penstock.errors import CommandTimeoutError, JobNotFoundError, JobRequestError, JobUnreachableError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from types import TracebackType

    import httpx

#: The timeouts for a connection and for one answer, in seconds.
_PATIENCE_S = 20.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
#: The lease in milliseconds after which a driver no longer stays for this command, which asks each second.
_LEASE_MS = 10_000
_NO_TOKEN, _NOT_FOUND = 401, 404
#: Statuses after which nothing more happens to a job.
ENDED = frozenset({"FINISHED", "CANCELED", "FAILED", "SUSPENDED"})


def full_address(address: str) -> str:
    """Return an address with its scheme, as ``host:port`` is given as well.

    Example:
        >>> full_address("localhost:8081/")
        'http://localhost:8081'
    """
    bare = address.rstrip("/")
    return bare if "://" in bare else f"http://{bare}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials for a server, and its certificate.

    Args:
        token: Its bearer token; None without one.
        certificate: The server's certificate as PEM, where it is known; then only this server is accepted, under any
            name.
        client_files: The files of the client's certificate and of its key, where the server requires one.
        authorities: A PEM file with authorities for the server's certificate; the system's by default.
    """

    token: str | None = field(default=None, repr=False)
    certificate: str | None = None
    client_files: tuple[str, str | None] | None = None
    authorities: str | None = None

    def tls(self) -> ssl.SSLContext | bool:
        """Return the TLS settings for httpx; raise OSError for unreadable files."""
        if self.certificate is None and self.authorities is None:
            return True
        import ssl

        context = ssl.create_default_context(cadata=self.certificate, cafile=self.authorities)
        # Python 3.13 would refuse an authority that does not say what its key is for, as most that people make do not.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.certificate is not None:
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.client_files is not None:
            context.load_cert_chain(*self.client_files, password=str)
        return context


class RestClient:
    """Asks one server.

    Args:
        address: Its address, such as ``http://127.0.0.1:8081``.
        credentials: The credentials for it.
        transport: Takes the place of the network in tests.
        patience_s: How long to wait for a connection and for one answer.
    """

    def __init__(
        self,
        address: str,
        credentials: Credentials | None = None,
        transport: httpx.BaseTransport | None = None,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        import httpx  # a slow import, which shell completion must not wait for

        self.address = full_address(address)
        known = credentials or Credentials()
        self._patience_s = patience_s
        self._has_token, self._is_pinned = bool(known.token), known.certificate is not None
        headers = {"Authorization": f"Bearer {known.token}"} if known.token else {}
        base = f"{self.address}/v1"
        try:
            # trust_env: a proxy for the internet must not be asked for a job on this machine.
            self._client = httpx.Client(
                base_url=base,
                headers=headers,
                timeout=patience_s,
                trust_env=False,
                transport=transport,
                verify=known.tls(),
            )
        except httpx.InvalidURL as error:
            raise JobUnreachableError(self.address, f"that is no address ({error})") from error
        except OSError as error:
            reason = f"its certificate cannot be checked ({error.strerror or error})"
            raise JobUnreachableError(self.address, reason) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._client.close()

    def jobs(self) -> list[dict[str, Any]]:
        """Return the rows of the jobs that the server knows."""
        return cast("list[dict[str, Any]]", self.get("/jobs/overview")["jobs"])

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer of a path.

        Raises:
            JobUnreachableError: Nothing answers.
            JobRequestError: The server refused.
        """
        return self._request("GET", path)

    def find(self, path: str) -> dict[str, Any] | None:
        """Return the answer of a path; None if there is none."""
        answer = self._answer("GET", path)
        return None if answer.status_code == _NOT_FOUND else self._read(answer)

    def link(self) -> str:
        """Return a link to the dashboard with a one-time code; without a code if the server takes no token."""
        answer = self._answer("POST", "/penstock/code", {})
        if answer.status_code == _NOT_FOUND:
            return self.address
        return f"{self.address}/#code={self._read(answer)['code']}"

    def cancel(self, job_id: str) -> None:
        """Request the cancellation of a job."""
        self._request("PATCH", f"/jobs/{job_id}?mode=cancel")

    def operate(self, job_id: str, operation: str, body: dict[str, object], wait: Poller) -> dict[str, Any]:
        """Request an operation, and wait for its outcome.

        At its end the process of a job stays until all waiting clients have read their outcomes. A client that stops
        waiting, after a timeout or Ctrl-C, says so; the lease of a killed client expires.

        Args:
            job_id: The job.
            operation: ``savepoints``, ``stop`` or ``checkpoints``.
            body: The body of the request.
            wait: How long.

        Returns:
            The outcome.

        Raises:
            JobRequestError: The operation was refused, or has failed.
            CommandTimeoutError: It is not done in time.
        """
        trigger = str(self._request("POST", f"/jobs/{job_id}/{operation}?lease={_LEASE_MS}", body)["request-id"])
        # The outcome of a stop is among the savepoints, as in Flink.
        place = "savepoints" if operation == "stop" else operation
        path = f"/jobs/{job_id}/{place}/{trigger}"
        answer: dict[str, Any] = {}

        def done() -> bool:
            nonlocal answer
            answer = self.get(path)
            return answer["status"]["id"] == "COMPLETED"

        try:
            wait.until(done)
        except (CommandTimeoutError, KeyboardInterrupt):
            with suppress(JobUnreachableError, JobRequestError):  # then nothing stays for this client either
                self._request("DELETE", path)
            raise
        outcome = cast("dict[str, Any]", answer.get("operation") or {})
        if "failure-cause" in outcome:
            raise JobRequestError(self.address, _reason(outcome["failure-cause"]))
        return outcome

    def wait_for_end(self, job_id: str, wait: Poller) -> str:
        """Wait until a job has ended, and return its status; empty when its process has ended with it."""
        status = ""

        def ended() -> bool:
            nonlocal status
            try:
                status = str(self.get(f"/jobs/{job_id}")["state"])
            except (JobUnreachableError, JobNotFoundError):
                status = ""
                return True
            return status in ENDED

        wait.until(ended)
        return status

    def _request(self, method: str, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
        return self._read(self._answer(method, path, body))

    def _read(self, answer: httpx.Response) -> dict[str, Any]:
        if (content := _content(answer)) is None or not answer.is_success:
            raise JobRequestError(self.address, _refusal(answer.status_code, content, has_token=self._has_token))
        return content

    def _answer(self, method: str, path: str, body: dict[str, object] | None = None) -> httpx.Response:
        import httpx

        try:
            return self._client.request(method, path, json=body)
        except httpx.TimeoutException as error:
            raise JobUnreachableError(self.address, f"it does not answer within {self._patience_s:.0f} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise unreachable(self.address, error, is_pinned=self._is_pinned) from error


class Poller:
    """Polls a server until a condition holds: first after a short time, then each second.

    Args:
        what: The awaited operation, for the message.
        seconds: How long at most; None waits without end.
        way_out: What to do after the timeout, a sentence.
        clock: Seconds that pass.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        what: str,
        seconds: int | None,
        way_out: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._what, self._seconds, self._way_out = what, seconds, way_out
        self._clock, self._sleep = clock, sleep

    def until(self, done: Callable[[], bool]) -> None:
        """Wait until something is done.

        Raises:
            CommandTimeoutError: It is not done in time.
        """
        started, pause = self._clock(), _FIRST_PAUSE_S
        while not done():
            if self._seconds is not None and self._clock() - started >= self._seconds:
                raise CommandTimeoutError(self._what, self._seconds, self._way_out)
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def _content(answer: httpx.Response) -> dict[str, Any] | None:
    """Return the JSON object of an answer; None for any other content."""
    try:
        content: object = answer.json()
    except ValueError:
        return None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else None


def _refusal(status: int, content: dict[str, Any] | None, *, has_token: bool) -> str:
    if status == _NO_TOKEN:
        wrong = "This is not the server's token" if has_token else "The server wants a token"
        place = default_directory() / "<job's id>-….json"
        return (
            f"{wrong}: give it with --token or PENSTOCK_TOKEN. It is what penstock.rest.token was set to; where it was "
            f'not set, it is "token" in the job\'s entry, for the user who started the job: {place}.'
        )
    if content is not None:
        errors: object = content.get("errors")
        if isinstance(errors, list) and errors:
            return str(cast("list[object]", errors)[-1]).strip().splitlines()[0]
    return f"The answer is no job's (HTTP {status}): is this the address of a Penstock driver?"


def _reason(cause: object) -> str:
    """Return the message of a failure: its first line without the class; Flink appends a Java trace."""
    said = cast("dict[str, object]", cause) if isinstance(cause, dict) else {"stack-trace": str(cause)}
    line = str(said.get("stack-trace") or said.get("class") or "It failed.").strip().splitlines()[0]
    return line.removeprefix(f"{str(said.get('class')).rpartition('.')[2]}: ")
