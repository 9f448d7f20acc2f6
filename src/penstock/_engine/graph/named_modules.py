"""Finds the modules that pickles name, without loading anything.

Functions of modules travel by name, so a task must be able to import these modules.
"""

from __future__ import annotations

import pickletools
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._engine.graph.job_graph import JobGraph

#: The function by which cloudpickle imports a module that a function uses as a global variable.
_IMPORTS: Final = ("cloudpickle.cloudpickle", "subimport")
#: Modules that every worker has: Python's, ours and what ours import.
_EVERYWHERE: Final = sys.stdlib_module_names | {"__main__", "cloudpickle", "penstock", "pyarrow", "pyspark"}


def modules_of(graph: JobGraph) -> tuple[str, ...]:
    """Return the modules that the functions of a job name, without those that each worker has."""
    payloads = [node.payload for node in graph.operators.values()]
    payloads += [edge.payload for edge in graph.edges if edge.payload]
    return tuple(sorted({name for payload in payloads for name in named_modules(payload)}))


def named_modules(pickled: bytes) -> Iterator[str]:
    """Yield the modules that a pickle names, without those that each worker has.

    Example:
        >>> import pickle, email.message, pygments.lexer
        >>> list(named_modules(pickle.dumps([email.message.Message, pygments.lexer.Lexer])))
        ['pygments.lexer']
    """
    for module in _names(pickled):
        if module.partition(".")[0] not in _EVERYWHERE:
            yield module


def _names(pickled: bytes) -> Iterator[str]:
    """Yield the modules of a pickle's global names, which are the two texts that it has read last."""
    #: What was read: texts, and None for all else but cloudpickle's function.
    read: list[str | tuple[str, str] | None] = []
    memo: dict[int, str | tuple[str, str] | None] = {}
    argument: Any
    for opcode, argument, _ in pickletools.genops(pickled):
        name = opcode.name
        if name == "MEMOIZE" or name.endswith("PUT"):
            memo[len(memo) if argument is None else int(argument)] = read[-1]
            continue
        item = None
        if name.endswith("UNICODE") or name == "BINUNICODE8":
            item = argument
        elif name.endswith("GET"):
            item = memo.get(int(argument))
        elif name.endswith("GLOBAL"):
            named = tuple(read[-2:]) if argument is None else tuple(argument.split(" ", 1))
            item = _IMPORTS if named == _IMPORTS else None
            if isinstance(named[0], str):
                yield named[0]
        if isinstance(item, str) and read and read[-1] is _IMPORTS:
            yield item
        read.append(item)
