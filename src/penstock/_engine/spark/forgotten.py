"""An application that the master of its standalone cluster has forgotten.

A master without ``spark.deploy.recoveryMode`` knows no application when it is started again. Its workers end their
executors, and Spark's driver waits for ever for a word of that master. Other cluster managers end the application.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_logger = logging.getLogger("penstock")

#: How the address of a standalone cluster begins; several masters follow, of which one is at work.
_SCHEME: Final = "spark://"
#: The name of a master's endpoint, and what the one at work answers about itself.
_ENDPOINT: Final = "Master"
_AT_WORK: Final = "ALIVE"


class MasterWatch:
    """Asks the master of an application, and ends the application once its master does not know it.

    Args:
        is_forgotten: Tells whether the master is at work and does not know it; see `is_forgotten`.
        end: Ends it; see `end_application`.
    """

    def __init__(self, is_forgotten: Callable[[], bool], end: Callable[[], None]) -> None:
        self._is_forgotten, self._end = is_forgotten, end
        self._asking = threading.Lock()

    def ask(self) -> None:
        """Ask in the background: a host that is cut off answers after minutes. Does nothing while it is asked."""
        if self._asking.acquire(blocking=False):
            threading.Thread(target=self._ask, name="penstock-master", daemon=True).start()

    def _ask(self) -> None:
        try:
            if self._is_forgotten():
                self._end()
        except Exception:
            _logger.debug("The master of the cluster could not be asked", exc_info=True)
        finally:
            self._asking.release()


def watch_of(context: Any) -> Callable[[], None] | None:
    """Return what asks the master of a context; None where that is no standalone cluster."""
    if not (context.master or "").startswith(_SCHEME):
        return None
    return MasterWatch(lambda: is_forgotten(context), lambda: end_application(context)).ask


def is_forgotten(context: Any) -> bool:
    """Tell whether the master at work does not know the application of a context; False where none answers."""
    jvm, rpc = context._jvm, context._jsc.sc().schedulerBackend().rpcEnv()
    question = getattr(getattr(jvm.org.apache.spark.deploy, "DeployMessages$RequestMasterState$"), "MODULE$")
    for url in _masters(context.master):
        try:
            master = rpc.setupEndpointRef(jvm.org.apache.spark.rpc.RpcAddress.fromSparkURL(url), _ENDPOINT)
            state = master.askSync(question, jvm.scala.reflect.ClassTag.Any())
        except Exception:  # it is away, and another one may be at work
            _logger.debug("%s does not answer", url, exc_info=True)
            continue
        if state.status().toString() == _AT_WORK:
            return context.applicationId not in {application.id() for application in state.activeApps()}
    return False


def end_application(context: Any) -> None:
    """End the application of a context as Spark does where a master removes it: its job fails, its session stops."""
    said = (
        f"the master {context.master} does not know the application {context.applicationId} any more: without "
        "spark.deploy.recoveryMode a master that is started again knows none"
    )
    _logger.warning("Spark's driver has no executors, and %s. The application is ended.", said)
    context._jsc.sc().schedulerBackend().dead(said)


def _masters(url: str) -> Iterator[str]:
    for address in url.removeprefix(_SCHEME).split(","):
        yield _SCHEME + address
