"""The public surface of a package laid out like PyFlink: how it is recorded, and how another is held against it.

``pyflink_api.json`` was recorded from apache-flink 2.3.0 by ``python -m tests.compat.api.surface pyflink`` in an
environment that has it. A recorded item is met when it exists and a call written for PyFlink, by position or by
keyword, also binds; further parameters are fine when they have defaults.
"""

from __future__ import annotations

import enum
import fnmatch
import importlib
import inspect
import json
import pkgutil
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

Param = dict[str, str]
Entry = dict[str, Any]

ROOTS = ("common", "datastream", "metrics")
SKIPPED_MODULES = ("*.tests*", "*.testing*", "common.constants", "common.io", "common.utils", "datastream.utils")
SKIPPED_CLASSES = (
    *("Internal*", "PassThrough*", "JavaFunctionWrapper", "JavaObjectWrapper", "FunctionWrapper"),
    *("ReduceFunctionWrapper", "AsyncFunctionDescriptor", "WindowOperationDescriptor", "NullByteKeySelector"),
    *("*.AccumulateType", "*.BoundedType", "*.TimeType"),
)
DUNDERS = frozenset(
    (
        *("__iter__", "__next__", "__getitem__", "__setitem__", "__delitem__", "__contains__", "__enter__", "__exit__"),
        *("__len__", "__call__", "__eq__", "__lt__", "__hash__", "__repr__", "__str__"),
    )
)

# Patterns over "module:Class.method"; the first list with a match decides. J: makes sense in a JVM only, or deprecated.
# S: should be there. What matches none must be there: M.
TIERS: dict[str, tuple[str, ...]] = {
    "J": (
        *("*kinesis*", "*pulsar*", "*rabbitmq*", "*cassandra*", "*elasticsearch*", "*dynamic_kafka*", "*:FlinkKafka*"),
        *("*kafka:Semantic*", "*:StreamingFileSink*", "*:SourceFunction*", "*:SinkFunction*", "*:*.get_java_*"),
        *("*:*.to_j_*", "*.add_source", "*.add_sink", "*.create_input", "*.set_uid_hash", "*:Custom*"),
        *("*state_backend:PredefinedOptions*", "*:ExternalTypeInfo*", "*:AssignerWithPeriodicWatermarksWrapper*"),
        *("*:InputDependencyConstraint*", "*.add_jars", "*.add_classpaths", "*:TypeSerializer*", "*WindowSerializer*"),
        *("*.get_window_serializer", "*.set_buffer_timeout", "*:EmbeddedRocksDBStateBackend*", "*:*.has_custom*"),
        *("*kryo*", "*:ExecutionConfig.*generic*", "*:ExecutionConfig.*closure*", "*:ExecutionConfig.*auto_type*"),
        *("*:ExecutionConfig.*object_reuse*", "*:ExecutionConfig.*registered*", "*:ExecutionConfig.register*"),
        *("*:ExecutionConfig.add_default*", "*formats.avro*", "*formats.orc*", "*:AvroParquet*", "*jdbc:*"),
        *("*.get_transformer", "*:SupportsPreprocessing*", "*:StreamTransformer*"),
    ),
    "S": (
        *("*kafka*", "*formats.*", "*hybrid_source*", "*async_*", "*:Async*", "*:SlotSharingGroup*", "*:MemorySize*"),
        *("*state_backend*", "*checkpoint_storage*", "*:CheckpointStorage*", "*:CachedDataStream*", "*.cache"),
        *("*:ExecutionConfig*", "*:ConfigOption*", "*:FileCompact*", "*:BulkFormat*", "*:FileEnumeratorProvider*"),
        *("*:FileSplitAssignerProvider*", "*local_time*", "*:LocalTimeTypeInfo*", "*:Instant*", "*.disable_chaining"),
        *("*.start_new_chain", "*slot_sharing*", "*changelog*", "*unaligned*", "*.add_python_*", "*.set_python_*"),
        *("*cached_file*", "*.get_execution_plan", "*local_parallelism", "*:CompletableFuture*", "*metrics*"),
        *("*watermark_alignment", "*.set_description", "*:StateTtlConfig.CleanupStrategies*", "*:*.cleanup_*"),
        *("*:Time.*", "*:*TypeInfo.*", "*:ByteArraySchema*"),
    ),
}


def tier_of(path: str) -> str:
    """Return the tier of an item: M, S or J."""
    return next((tier for tier, patterns in TIERS.items() if _matches(path, patterns)), "M")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


# ------------------------------------------------------------------------------------------------------------ recording


def record(prefix: str) -> Entry:
    """Return the public surface of a package."""
    modules: Entry = {}
    for relative, module in _modules(prefix):
        exports = set(getattr(module, "__all__", []))
        entry: Entry = {"exports": [], "classes": {}, "functions": {}}
        for name, thing in sorted(vars(module).items()):
            if name.startswith("_"):
                continue
            own = getattr(thing, "__module__", None) == module.__name__
            if inspect.isclass(thing) and own and not _matches(name, SKIPPED_CLASSES):
                entry["classes"][name] = _class_entry(thing)
            elif inspect.isfunction(thing) and own:
                entry["functions"][name] = {"params": params_of(thing)}
            elif inspect.isclass(thing) and hasattr(module, "__path__") and thing.__module__.startswith(f"{prefix}."):
                exports.add(name)
        entry["exports"] = sorted(exports)
        modules[relative] = entry
    version = importlib.import_module(f"{prefix}.version").__version__
    return {"prefix": prefix, "version": version, "modules": modules}


def _modules(prefix: str) -> Iterator[tuple[str, ModuleType]]:
    for root in ROOTS:
        package = importlib.import_module(f"{prefix}.{root}")
        names = [
            package.__name__,
            *(info.name for info in pkgutil.walk_packages(package.__path__, f"{prefix}.{root}.")),
        ]
        for name in names:
            relative = name.removeprefix(f"{prefix}.")
            if not _matches(relative, SKIPPED_MODULES) and not any(
                part.startswith("_") for part in relative.split(".")
            ):
                yield relative, importlib.import_module(name)


def _class_entry(cls: type, depth: int = 0) -> Entry:
    entry: Entry = {
        "bases": [base.__name__ for base in cls.__bases__ if base is not object],
        "methods": {},
        "nested": {},
    }
    if issubclass(cls, enum.Enum):
        entry["members"] = list(cls.__members__)
    seen: set[str] = set()
    for owner in cls.__mro__:
        if owner is not cls and owner.__module__.split(".")[0] != cls.__module__.split(".")[0]:
            continue
        for name, raw in vars(owner).items():
            if name in seen or (
                name.startswith("_") and name not in DUNDERS and (name != "__init__" or owner is not cls)
            ):
                continue
            seen.add(name)
            if inspect.isclass(raw):
                if owner is cls and depth < 3 and not _matches(f"{cls.__name__}.{name}", SKIPPED_CLASSES):
                    entry["nested"][name] = _class_entry(raw, depth + 1)
                continue
            got = member_of(raw)
            over_java = name == "__init__" and got and any(p["name"].startswith("j_") for p in got["params"] or ())
            if got is not None and not over_java:
                entry["methods"][name] = got if owner is cls else {**got, "from": owner.__name__}
    entry["methods"] = dict(sorted(entry["methods"].items()))
    return entry


def member_of(raw: object) -> Entry | None:
    """Return kind and parameters of an attribute as it stands in its class; None for what cannot be called."""
    match raw:
        case staticmethod():
            return {"kind": "static", "params": params_of(raw.__func__)}
        case classmethod():
            return {"kind": "class", "params": (params_of(raw.__func__) or [])[1:]}
        case property():
            return {"kind": "property", "params": None}
        case _ if inspect.isfunction(raw):
            return {"kind": "method", "params": (params_of(raw) or [])[1:]}
        case _:
            return None


def params_of(function: Any) -> list[Param] | None:
    """Return the parameters of a function; None where Python does not know them."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    kinds = {
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
        inspect.Parameter.KEYWORD_ONLY: "kw",
    }
    return [
        {"name": p.name}
        | ({"kind": kinds[p.kind]} if p.kind in kinds else {})
        | ({} if p.default is p.empty else {"default": _default_text(p.default)})
        for p in signature.parameters.values()
    ]


def _default_text(value: object) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    text = repr(value)
    return "..." if " at 0x" in text or "JavaObject" in text or len(text) > 60 else text


# ------------------------------------------------------------------------------------------------------------ comparing


def items(recorded: Entry) -> dict[str, Entry]:
    """Return all items of a record by their path, ``module:Class.method``."""
    flat: dict[str, Entry] = {}

    def walk(path: str, entry: Entry) -> None:
        flat[path] = {"what": "class"}
        flat.update({f"{path}.{name}": {"what": "member"} for name in entry.get("members", ())})
        flat.update({f"{path}.{name}": {"what": "method", **method} for name, method in entry["methods"].items()})
        for name, nested in entry["nested"].items():
            walk(f"{path}.{name}", nested)

    for relative, module in recorded["modules"].items():
        flat.update({f"{relative}:{name}": {"what": "export"} for name in module["exports"]})
        flat.update(
            {f"{relative}:{name}": {"what": "function", **entry} for name, entry in module["functions"].items()}
        )
        for name, entry in module["classes"].items():
            walk(f"{relative}:{name}", entry)
    return flat


def problem_with(prefix: str, path: str, item: Entry) -> str | None:
    """Return what a package lacks of a recorded item; None when nothing."""
    try:
        raw = _find(prefix, path)
    except (ImportError, AttributeError):
        return "missing"
    # Python passes the arguments of operators by position, so their names do not matter.
    by_name = item["what"] in ("method", "function") and path.rpartition(".")[2] not in DUNDERS
    if not by_name or item.get("kind") == "property":
        return None
    got = {"params": params_of(raw)} if item["what"] == "function" else member_of(raw)
    if got is None:
        return None if callable(raw) else "is not callable"
    return _kind_problem(item, got) or _binding_problem(item.get("params"), got.get("params"))


def _kind_problem(wanted: Entry, got: Entry) -> str | None:
    if got.get("kind") == "property":
        return "is a property, not a method"
    if wanted.get("kind") in ("static", "class") and got.get("kind") == "method":
        return "must be callable on the class"
    return None


def _find(prefix: str, path: str) -> object:
    """Return an item as it stands in its module or class, so that a static method is still known as one."""
    relative, _, qualified = path.partition(":")
    found: object = importlib.import_module(f"{prefix}.{relative}")
    for part in qualified.split("."):
        if inspect.isclass(found):
            in_class = [vars(owner)[part] for owner in found.__mro__ if part in vars(owner)]
            found = in_class[0] if in_class else getattr(found, part)
        else:
            found = getattr(found, part)
    return found


def _binding_problem(wanted: list[Param] | None, got: list[Param] | None) -> str | None:
    """Return why a call written for the wanted parameters may not bind to those that are there."""
    if wanted is None or got is None:
        return None
    problems = (*_positional_problems(wanted, got), *_other_problems(wanted, got))
    return next(iter(problems), None)


def _positional_problems(wanted: list[Param], got: list[Param]) -> Iterator[str]:
    wanted_positional = [p for p in wanted if "kind" not in p]
    got_positional = [p for p in got if "kind" not in p]
    takes_any = any(p.get("kind") == "*" for p in got)
    for index, (want, have) in enumerate(zip(wanted_positional, got_positional, strict=False), 1):
        if have["name"] != want["name"]:
            yield f"parameter {index} is {have['name']!r}, not {want['name']!r}"
        if "default" in want and "default" not in have:
            yield f"parameter {want['name']!r} must be optional"
    for want in wanted_positional[len(got_positional) :]:
        if not takes_any:
            yield f"no parameter {want['name']!r}"
    for have in got_positional[len(wanted_positional) :]:
        if "default" not in have and not any(p.get("kind") == "*" for p in wanted):
            yield f"extra required parameter {have['name']!r}"


def _other_problems(wanted: list[Param], got: list[Param]) -> Iterator[str]:
    kinds = {p.get("kind") for p in got}
    for want in wanted:
        if want.get("kind") == "kw" and "**" not in kinds and want["name"] not in {p["name"] for p in got}:
            yield f"no keyword {want['name']!r}"
        if want.get("kind") in ("*", "**") and want["kind"] not in kinds:
            yield f"takes no {want['kind']}{want['name']}"
    for have in got:
        if have.get("kind") == "kw" and "default" not in have and have["name"] not in {p["name"] for p in wanted}:
            yield f"extra required keyword {have['name']!r}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(record(sys.argv[1]), indent=1) + "\n")
