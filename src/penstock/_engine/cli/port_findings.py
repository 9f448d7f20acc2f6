"""Finds what of a PyFlink program is not supported, has no effect, or has another name.

The reasons for missing names are those of the errors (:mod:`penstock._absent`). The reasons for keys and calls without
effect are those of the log (:mod:`penstock.common.option_table`).
"""

from __future__ import annotations

import ast
import importlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from penstock import _absent
from penstock._api.slot_sharing_group import SLOTS_ARE_TASKS
from penstock.common import option_table
from penstock.common.flink_keys import is_flinks
from penstock.errors import AbsentAttributeError, AbsentImportError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OLD: Final = "pyflink"
_NEW: Final = "penstock"
_JARS: Final = option_table.OPTIONS["pipeline.jars"].no_effect

#: By the name of a call or an attribute that cannot work: what to do.
_REFUSED: Final = {
    "add_source": "it takes a Java object; use from_source(...) with a Source",
    "add_sink": "it takes a Java object; use sink_to(...) with a Sink",
    "get_java_type_info": "there is no Java object behind a type; leave the call out",
    "get_gateway": "there is no JVM of Flink's; leave the call out",
}
#: By the name of a call without effect: why it has none.
_WITHOUT_EFFECT: Final = {
    "add_jars": _JARS,
    "add_classpaths": _JARS,
    "set_state_backend": option_table.OPTIONS["state.backend.type"].no_effect,
    "slot_sharing_group": SLOTS_ARE_TASKS,
    "register_slot_sharing_group": SLOTS_ARE_TASKS,
    **{
        call: option.no_effect
        for call, option in {
            "set_buffer_timeout": option_table.BUFFER_TIMEOUT,
            "set_max_concurrent_checkpoints": option_table.CHECKPOINTING_MAX_CONCURRENT,
            "enable_unaligned_checkpoints": option_table.UNALIGNED_CHECKPOINTS,
            "set_force_unaligned_checkpoints": option_table.FORCE_UNALIGNED_CHECKPOINTS,
            "set_aligned_checkpoint_timeout": option_table.ALIGNED_CHECKPOINT_TIMEOUT,
            "set_alignment_timeout": option_table.ALIGNED_CHECKPOINT_TIMEOUT,
            "enable_changelog_state_backend": option_table.STATE_CHANGELOG,
            "set_latency_tracking_interval": option_table.LATENCY_INTERVAL,
            "set_task_cancellation_interval": option_table.TASK_CANCELLATION_INTERVAL,
            "set_task_cancellation_timeout": option_table.TASK_CANCELLATION_TIMEOUT,
            "set_use_snapshot_compression": option_table.SNAPSHOT_COMPRESSION,
        }.items()
    },
}
_TO_TABLE: Final = (
    "stream.to_dataframe() gives a bounded stream to Spark SQL; what a query did with an unbounded one is written as "
    "functions, windows and joins of streams"
)
_FROM_TABLE: Final = "env.from_dataframe(df) makes a stream of a DataFrame of Spark"
_QUERY: Final = "spark.sql(...) runs a query over DataFrames"
#: In a program with the Table API: what to do in place of a call between tables and streams.
_BRIDGES: Final = {
    "from_data_stream": _TO_TABLE,
    "from_changelog_stream": _TO_TABLE,
    "to_data_stream": _FROM_TABLE,
    "to_append_stream": _FROM_TABLE,
    "to_retract_stream": _FROM_TABLE,
    "to_changelog_stream": _FROM_TABLE,
    "create_temporary_view": "stream.to_dataframe().createOrReplaceTempView(name) names a bounded stream for Spark SQL",
    "execute_sql": _QUERY,
    "sql_query": _QUERY,
}
_JAVA: Final = "there is no Java object behind it; use a method or a key of the configuration"
_JAVA_ERRORS: Final = frozenset({"Py4JJavaError", "Py4JError", "Py4JNetworkError", "java_exception"})
_JAVA_ERROR: Final = (
    "no error comes from Java, so nothing is caught by it; catch penstock.errors.PenstockError, or its "
    "JobExecutionError for a job that failed"
)
_PY4J: Final = "py4j reaches the JVM of Spark here, which has nothing of Flink's in it"
#: Functions whose first argument is the name of a module.
_IMPORTERS: Final = frozenset({"import_module", "__import__", "find_spec", "importorskip"})


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A part of a program that needs to be looked at."""

    line: int
    #: The subject, such as a name.
    what: str
    #: The reason and the alternative, as a clause.
    reason: str
    #: The program runs as it is; the part has no effect, or works by an older name.
    may_stay: bool = False


def findings(tree: ast.Module) -> tuple[Finding, ...]:
    """Return what a program has to be looked at for, in the order of its lines."""
    return tuple(sorted(set(_Program(tree).found())))


def missing(below: str, name: str) -> str | None:
    """Return why a module below the package, or a name in it, is missing; None if it exists."""
    module = ".".join(filter(None, (_NEW, below)))
    try:
        found = importlib.import_module(module)
        if name and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")
    except (AbsentImportError, AbsentAttributeError) as error:
        return error.reason
    except ImportError:
        return "Penstock has no such name; docs/pyflink-compatibility.md lists what it has"
    return None


def _is_module(below: str) -> bool:
    return missing(below, "") is None


class _Program:
    """A program, with what its names stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        #: By a name of the program: the module below the package that it stands for.
        self._modules: dict[str, str] = {}
        #: Modules of which all names were imported.
        self._stars: list[str] = []
        self._imports_flink = self._imports_tables = False

    def found(self) -> Iterator[Finding]:
        """Yield the findings, some more than once."""
        for node in self._nodes:
            if isinstance(node, ast.Import):
                yield from self._of_import(node)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield from self._of_import_from(node)
        for node in self._nodes:
            if isinstance(node, ast.Attribute):
                yield from self._of_attribute(node)
            elif isinstance(node, ast.Name):
                yield from self._of_name(node)
            elif isinstance(node, ast.keyword) and (node.arg or "").startswith("j_"):
                yield Finding(node.value.lineno, f"{node.arg}=", _JAVA)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._of_text(node.value, node.lineno)
            elif isinstance(node, ast.Call):
                yield from _of_call(node)

    def _of_import(self, node: ast.Import) -> Iterator[Finding]:
        for alias in node.names:
            if alias.name.partition(".")[0] == "py4j":
                yield Finding(node.lineno, alias.name, _PY4J)
            below = _below(alias.name)
            if below is None:
                continue
            self._note(below)
            self._modules[alias.asname or alias.name.partition(".")[0]] = below if alias.asname else ""
            if (reason := missing(below, "")) is not None:
                yield Finding(node.lineno, f"{_NEW}.{below}", reason)

    def _of_import_from(self, node: ast.ImportFrom) -> Iterator[Finding]:
        module = node.module or ""
        if module.partition(".")[0] == "py4j":
            for alias in node.names:
                yield Finding(alias.lineno, alias.name, _JAVA_ERROR if alias.name in _JAVA_ERRORS else _PY4J)
        below = _below(module)
        if below is None:
            return
        for alias in node.names:
            name = "" if alias.name == "*" else alias.name
            shown = ".".join(filter(None, (below, name)))
            self._note(shown)
            if not name:
                self._stars.append(below)
            if (reason := missing(below, name)) is not None:
                yield Finding(alias.lineno, f"{_NEW}.{shown}", reason)
            elif name and _is_module(shown):
                self._modules[alias.asname or name] = shown

    def _note(self, below: str) -> None:
        self._imports_flink = True
        self._imports_tables |= below.partition(".")[0] == "table"

    def _of_attribute(self, node: ast.Attribute) -> Iterator[Finding]:
        name = node.attr
        module = self._module_of(node.value)
        if module is not None:
            if not _is_module(".".join(filter(None, (module, name)))) and (reason := missing(module, name)):
                yield Finding(node.lineno, name, reason)
            return
        if (reason := _WITHOUT_EFFECT.get(name)) is not None:
            yield Finding(node.lineno, name, reason, may_stay=True)
            return
        reason = _REFUSED.get(name) or _members().get(name)
        if reason is None and name.startswith("_j_"):
            reason = _JAVA
        elif reason is None and name in _JAVA_ERRORS:
            reason = _JAVA_ERROR
        elif reason is None and self._imports_tables:
            reason = _BRIDGES.get(name)
        if reason is not None:
            yield Finding(node.lineno, name, reason)

    def _module_of(self, node: ast.expr) -> str | None:
        """Return the module below the package that an expression stands for; None if it stands for something else."""
        if isinstance(node, ast.Name):
            return self._modules.get(node.id)
        if isinstance(node, ast.Attribute) and (above := self._module_of(node.value)) is not None:
            module = ".".join(filter(None, (above, node.attr)))
            return module if _is_module(module) else None
        return None

    def _of_name(self, node: ast.Name) -> Iterator[Finding]:
        if node.id in _JAVA_ERRORS:
            yield Finding(node.lineno, node.id, _JAVA_ERROR)
        for below in self._stars:
            if (reason := _absent.table().get((below, node.id))) is not None:
                yield Finding(node.lineno, f"{_NEW}.{below}.{node.id}", reason)

    def _of_text(self, value: str, line: int) -> Iterator[Finding]:
        if value.startswith(f"{_OLD}.") and _is_known(value.removeprefix(f"{_OLD}.")):
            yield _name_in_text(value, line)
        if self._imports_flink and "." in value and (reason := _of_key(value)) is not None:
            yield Finding(line, repr(value), reason, may_stay=True)


def _of_call(node: ast.Call) -> Iterator[Finding]:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in _IMPORTERS and node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == _OLD:
        yield _name_in_text(_OLD, node.args[0].lineno)


def _name_in_text(value: str, line: int) -> Finding:
    new = value.replace(_OLD, _NEW, 1)
    return Finding(line, repr(value), f"names in texts are not changed; write {new!r}")


def _of_key(key: str) -> str | None:
    """Return what is to be said about a key of the configuration; None if it is read by this name, or is no key."""
    if (option := option_table.KNOWN_KEYS.get(key)) is None:
        return "it is a key of Flink's that has no effect here" if is_flinks(key) else None
    older = None if option.key == key else f"it is an older name of {option.key}; both work"
    return f"it has no effect: {option.no_effect}" if option.no_effect else older


@cache
def _members() -> dict[str, str]:
    """Return the reasons for absent methods and attributes, by their names without the class."""
    return {name.rpartition(".")[2]: reason for (_, name), reason in _absent.table().items() if "." in name}


def _is_known(below: str) -> bool:
    """Tell whether a dotted name is one of a module of PyFlink's, or of something in it."""
    module = below.partition(".")[0]
    return below.replace(".", "").replace("_", "").isalnum() and (
        _is_module(module) or _absent.reason_of(module) is not None
    )


def _below(module: str) -> str | None:
    """Return a module's name below the package, by its old name or the new one; None for one of another package."""
    package, _, below = module.partition(".")
    return below if package in (_OLD, _NEW) else None
