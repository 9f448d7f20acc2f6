"""The REST server of a process: its socket, its thread, and its end.

Only the socket is made at the start. The thread waits for the first client, and then loads and starts the HTTP server:
so a job without clients pays a millisecond. At the end of the process the server stays until the outcome of each
operation was read once, as Flink's does; otherwise a client that stopped the job would never learn the outcome.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import secrets
import selectors
import socket
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from penstock._engine.processes.registry import JobRegistry, RegistryEntry
from penstock._engine.protocol.clocks import Moment
from penstock._engine.rest.access import OneTimeCodes
from penstock._engine.rest.address import listen
from penstock._engine.rest.context import Jobs, Operations, RestContext
from penstock._engine.rest.directories import Disposals
from penstock._engine.rest.local_executor import local_executor
from penstock.common import option_table
from penstock.common.job_status import JobStatus
from penstock.common.process import at_exit, is_on_terminal, report
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    import uvicorn

    from penstock._engine.gateway.executor_view import ExecutorView
    from penstock._engine.gateway.job_control import JobControl
    from penstock._engine.gateway.job_view import JobView
    from penstock._engine.gateway.progress import JobFailure, JobProgress
    from penstock._engine.rest.directories import JobPlaces
    from penstock._engine.rest.metric_history import MetricHistory
    from penstock._engine.rest.settings import RestSettings
    from penstock.common.configuration import Configuration

_log = logging.getLogger(__name__)

#: The time for the last answers of the server, in seconds.
_CLOSING_S = 2.0
_OPEN = f"{option_table.REST_TOKEN.key}: none"


class RestServer:
    """Serves Flink's REST API for the jobs of this process: a `JobStatusListener` of each.

    Args:
        settings: The settings of the server.
        dispose: Deletes a savepoint, by its path, directories of jobs that may need it, and options of object stores.

    Raises:
        ConfigurationError: It cannot listen at the configured address.
    """

    def __init__(
        self, settings: RestSettings, *, dispose: Callable[[str, Iterable[str], Mapping[str, str]], object]
    ) -> None:
        self._settings = settings
        self._socket = listen(settings.bind_address)
        self._metrics_socket = _listen_for_metrics(settings)
        self._sockets = [one for one in (self._socket, self._metrics_socket) if one is not None]
        self._wakeup, self._waker = socket.socketpair()
        self._server: uvicorn.Server | None = None
        self._closing = False
        self._lingers = True
        self._has_said = False
        self._thread: threading.Thread | None = None
        self._at_exit: Callable[[], None] | None = None
        self._registry = JobRegistry(settings.registry_directory)
        self.jobs = Jobs(settings.job_store_ms, Moment.now)
        self._disposals = Disposals(dispose, settings.directories, self.jobs.lists)
        self.operations = Operations(settings.store_ms, Moment.now)
        self._codes = OneTimeCodes(Moment.now)
        port: int = self._socket.getsockname()[1]
        #: The URL of the server.
        self.address = settings.url(port)

    def start(
        self,
        slots: int,
        executors: Callable[[], Sequence[ExecutorView]] | None = None,
        no_executors_since: Callable[[], int | None] | None = None,
    ) -> None:
        """Begin to serve on a thread of its own; does nothing if the server is running.

        Args:
            slots: Tasks that run in this process at the same time.
            executors: Returns the processes in which tasks run; this process by default.
            no_executors_since: Returns since when there are none, in epoch milliseconds; None while there are some.
        """
        if self._thread is not None:
            return
        context = RestContext(
            jobs=self.jobs,
            operations=self.operations,
            clock=Moment.now,
            executors=executors or (lambda: (local_executor(slots, self._running_tasks(slots)),)),
            configuration=self._settings.configuration,
            directories=self._settings.directories,
            dispose=self._begin_disposal,
            codes=self._codes,
            token=self._settings.access.token,
            shut_down=self._do_not_linger,
            no_executors_since=no_executors_since or (lambda: None),
        )
        self._thread = threading.Thread(target=self._run, args=(context,), name="penstock-rest", daemon=True)
        self._thread.start()
        self._at_exit = at_exit(self.close)
        if self._settings.access.token is None:
            _log.warning("REST asks for no token (%s): every user of this machine can steer the jobs", _OPEN)

    def _running_tasks(self, slots: int) -> int:
        return slots if any(not control.view.is_over for control in self.jobs.all()) else 0

    def _report_address(self) -> None:
        """Tell the user the server's address; a link with a code goes to a terminal only, because others read logs."""
        link = self.address
        if self._settings.access.token is not None and is_on_terminal():
            link = f"{self.address}/#code={self._codes.new()}"
        report(f"Penstock dashboard and REST API: {link}")
        if self._metrics_socket is not None:
            address = self._settings.metrics_url(self._metrics_socket.getsockname()[1])
            report(f"Metrics for Prometheus: {address}")

    def check_same(self, configuration: Configuration) -> None:
        """Refuse a further job whose settings contradict those of the server; raises ConfigurationError."""
        self._settings.shared.check_same(configuration)

    def add(self, control: JobControl, places: JobPlaces | None = None, figures: MetricHistory | None = None) -> None:
        """Serve one more job.

        Args:
            control: The job.
            places: Its directories; if left out, clients cannot delete its savepoints.
            figures: Its metrics over time; if left out, there are no charts.
        """
        self.jobs.add(control, figures)
        if places is not None:
            self._disposals.add(places)

    @contextlib.contextmanager
    def starting(self, name: str) -> Generator[None]:
        """List a job as starting during the block: Spark may take minutes to bring a cluster's executors."""
        entry = RegistryEntry.of_this_process("", name, self.address, Moment.now().now_ms, run_id=secrets.token_hex(8))
        self._registry.add(entry)
        try:
            yield
        finally:
            self._registry.remove(entry)

    def job_named(self, job: JobView) -> None:
        """Add a job to the registry of this user's jobs, now that it has its id."""
        self._registry.add(self._entry(job))

    def on_status(self, status: JobStatus) -> None:
        """Say where the server is once its first job is there, which is after its takeover; else there is its error."""
        if status is JobStatus.CREATED and not self._has_said:
            self._has_said = True
            self._report_address()

    def on_progress(self, progress: JobProgress) -> None:
        """List the job again after each epoch if its entry in the registry was deleted."""
        self._registry.restore()

    def on_failure(self, failure: JobFailure) -> None:
        """Do nothing: clients ask for failures."""

    def job_ended(self, job: JobView) -> None:
        """Remove a job from the registry."""
        self._registry.remove(self._entry(job))

    def _entry(self, job: JobView) -> RegistryEntry:
        tls = self._settings.tls
        return RegistryEntry.of_this_process(
            job.job_id,
            job.name,
            self.address,
            job.started.now_ms,
            self._settings.access.token,
            run_id=job.run_id,
            certificate=None if tls is None else tls.certificate,
            client_files=None if tls is None else tls.client_files,
        )

    def close(self) -> None:
        """Stop serving, once the outcomes of all operations have been read or are too old."""
        if self._closing:
            return
        if self._at_exit is not None:
            atexit.unregister(self._at_exit)
        if self._lingers and self.operations.unread:
            _log.info("The REST server stays until a client has read how the last operations ended")
            with contextlib.suppress(KeyboardInterrupt):
                self.operations.wait_until_read(self._settings.store_ms / 1000)
        self._closing = True
        self._waker.send(b"x")
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSING_S)
        self._registry.clear()
        for one in (*self._sockets, self._wakeup, self._waker):
            one.close()

    # ---------------------------------------------------------------------------------------------------- its thread

    def _run(self, context: RestContext) -> None:
        with selectors.DefaultSelector() as selector:
            for one in (*self._sockets, self._wakeup):
                selector.register(one, selectors.EVENT_READ)
            selector.select()
        if not self._closing:
            from penstock._engine.rest.app import make_app
            from penstock._engine.rest.http import serve

            serve(make_app(context), self._settings, self._socket, self._metrics_socket, self._started)

    def _started(self, server: uvicorn.Server) -> None:
        self._server = server
        server.should_exit = self._closing

    def _begin_disposal(self, path: str) -> Future[None]:
        future: Future[None] = Future()

        def work() -> None:
            try:
                self._disposals.dispose(path)
            except Exception as error:  # noqa: BLE001 - whatever the store raises is what the client gets to know
                future.set_exception(error)
            else:
                future.set_result(None)

        threading.Thread(target=work, name="penstock-disposal", daemon=True).start()
        return future

    def _do_not_linger(self) -> None:
        self._lingers = False


def _listen_for_metrics(settings: RestSettings) -> socket.socket | None:
    """Return a socket for metrics only; None if no port is free, as in Flink."""
    if settings.metrics_bind_address is None:
        return None
    try:
        return listen(settings.metrics_bind_address)
    except ConfigurationError as error:
        _log.warning("Metrics have no port of their own and are only at /metrics of the REST server: %s", error)
        return None
