"""What holds for all of the source: no long module, no block twice, and one place where a name is shown."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.alike import blocks_alike

PACKAGE = Path(__file__).parents[2] / "src" / "penstock"
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 500
BLOCK = 6

#: Pairs of modules that may have the same block, with the reason.
TWICE = {
    ("testing/async_harness.py",): "the parameters of ordered and of unordered calls, as AsyncDataStream has them",
    ("_api/functions/async_retry.py",): "a strategy is made by its class or by a method of PyFlink's name",
    ("_builders/async_data_stream.py",): "four methods with PyFlink's signatures",
    ("_api/connectors/committer.py", "_api/connectors/sink.py"): "a committer is told of its place as a writer is",
    ("_api/functions/co.py", "_api/functions/process.py"): "each kind of function has contexts of its own, as in Flink",
    ("_api/windows/counting_triggers.py", "_api/windows/triggers.py"): "triggers ask each kind of time, as in Flink",
    ("_builders/keyed_stream.py", "_builders/outputs.py"): "a keyed stream is collected with its keys, as in PyFlink",
    (
        "_builders/windows/windowed.py",
        "_builders/windows/windowed_all.py",
    ): "the same calls with other classes of functions, as in Flink",
    (
        "_connectors/postgres/sink.py",
        "_connectors/postgres/source.py",
    ): "the builders of a source and of a sink are told of a table alike",
    ("_builders/data_stream.py", "_builders/keyed_stream.py"): "a keyed stream has the signatures of a stream",
    ("_builders/pipeline.py",): "the arguments of an operator, declared and handed on",
    ("_engine/coordinator/checkpoints/snapshots.py",): "a record's fields, while a job runs and when it ends",
    ("_engine/driver/client/job_client.py", "common/job_client.py"): "an interface and its implementation",
    ("_engine/rest/handlers/checkpoints.py",): "Flink's answers have the same fields in several places",
    ("common/_typeinfo/composite.py",): "rows and tuples, which are read in one way and written in another",
    (
        "_connectors/hybrid/enumerator.py",
        "testing/connector_contexts.py",
    ): "two contexts of enumerators",
}
#: Pairs of modules that may have blocks of one shape, with other names, beside those that have them line by line.
ALIKE = {
    ("_builders/async_data_stream.py",): "four methods with PyFlink's signatures",
    (
        "_api/connectors/reader_base/threaded.py",
        "_engine/operators/sources/source_output.py",
    ): "outputs that hand calls on",
    ("_api/state/ttl.py",): "a builder has a method for each setting",
    ("_api/state/ttl.py", "_engine/operators/context.py"): "methods that give a field",
    ("_api/windows/triggers.py",): "as in Flink, there is a trigger for each kind of time; each sees the other's calls",
    ("_api/windows/triggers.py", "_api/windows/unaligned_windows.py"): "triggers ask each kind of time, as in Flink",
    ("_connectors/kafka/serializing.py", "_connectors/kafka/source.py"): "builders with a method for each setting",
    ("_api/slot_sharing_group.py", "_connectors/postgres/jdbc.py"): "methods that give a field, as in PyFlink",
    ("_connectors/postgres/jdbc.py",): "builders with a method for each setting, as in PyFlink",
    (
        "_connectors/postgres/change_source.py",
        "_connectors/postgres/source.py",
    ): "builders with a method for each setting",
    ("_engine/operators/functions/broadcast.py", "_engine/state/kinds/typed.py"): "maps that hand calls on",
    ("common/_typeinfo/basic.py",): "a predicate for each type, as in PyFlink",
    ("common/execution_config.py",): "settings that are enabled and disabled by methods, as in PyFlink",
    ("common/restart_strategy.py",): "each strategy lists its options",
    ("common/typeinfo.py",): "a method for each type, as in PyFlink",
    ("testing/sink_contract.py",): "a contract calls its checks",
    ("testing/sink_contract.py", "testing/source_contract.py"): "a contract calls its checks",
}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_no_module_is_longer_than_500_lines() -> None:
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    too_long = {name: length for name, length in lengths.items() if length > LONGEST}
    assert too_long == {}, "give the second subject of such a module a module of its own beside it"


class Module(NamedTuple):
    """What the tests look at in a module, which is parsed once."""

    #: The lines without layout, comments, docstrings and imports.
    lines: list[str]
    #: All imports, those inside functions and behind TYPE_CHECKING as well.
    imports: list[ast.Import | ast.ImportFrom]
    #: The number of parameters of each function that a caller may give.
    parameters: list[tuple[str, int]]
    #: The number of methods of each class.
    methods: list[tuple[str, int]]


@cache
def module_of(text: str) -> Module:
    left_out: set[int] = set()
    imports: list[ast.Import | ast.ImportFrom] = []
    counted: list[tuple[str, int]] = []
    methods: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            counted.append((node.name, len(names) - (names[:1] in (["self"], ["cls"]))))
            continue
        elif isinstance(node, ast.ClassDef):
            methods.append(
                (node.name, sum(isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) for one in node.body))
            )
            continue
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    kept = (line for number, line in enumerate(text.splitlines(), 1) if number not in left_out)
    bare = (re.sub(r"(^|\s+)# .*$|^#$", "", line).strip() for line in kept)
    return Module([line for line in bare if line], imports, counted, methods)


#: Functions of the engine with more parameters than others, with the reason.
MANY_PARAMETERS = {
    "_engine/cli/run_command.py:run": "click passes each option of a command",
    "_engine/cli/clean_command.py:clean": "click passes each option of a command",
}
MOST_PARAMETERS = 8


def test_no_function_of_the_engine_takes_more_than_8_parameters_without_a_reason() -> None:
    engine = {name_of(path): path for path in FILES if name_of(path).startswith("_engine/")}
    found = {
        f"{name}:{function}"
        for name, path in engine.items()
        for function, number in module_of(path.read_text(encoding="utf-8")).parameters
        if number > MOST_PARAMETERS
    }
    assert found == MANY_PARAMETERS.keys()


#: Classes of the engine with more methods than others, with the reason.
MANY_METHODS = {
    "_engine/coordinator/life/start.py:JobStart": "a start has a step for each answer that it waits for",
    "_engine/runtime/subtask.py:SubtaskRuntime": "a subtask from its first epoch to its last, call by call",
}
MOST_METHODS = 25


def test_no_class_of_the_engine_has_more_than_25_methods_without_a_reason() -> None:
    found = {
        f"{name_of(path)}:{owner}"
        for path in FILES
        if name_of(path).startswith("_engine/")
        for owner, number in module_of(path.read_text(encoding="utf-8")).methods
        if number > MOST_METHODS
    }
    assert found == MANY_METHODS.keys()


def blocks_twice(texts: dict[str, str]) -> set[tuple[str, ...]]:
    """Return the modules, or pairs of them, that have a block of lines twice."""
    places: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, text in texts.items():
        lines = module_of(text).lines
        for start in range(len(lines) - BLOCK + 1):
            places[tuple(lines[start : start + BLOCK])].append(name)
    return {
        tuple(sorted({one, other}))
        for names in places.values()
        for index, one in enumerate(names)
        for other in names[index + 1 :]
    }


def test_no_block_of_six_lines_stands_twice_without_a_reason() -> None:
    found = blocks_twice({name_of(path): path.read_text(encoding="utf-8") for path in FILES})
    assert found - TWICE.keys() == set()
    assert TWICE.keys() - found == set(), "these reasons are not needed any more"


def test_a_block_that_stands_twice_is_found_whatever_its_comments() -> None:
    block = "".join(f"    line_{number} = {number}\n" for number in range(BLOCK))
    other = block.replace("\n", "  # a remark\n", 1)
    assert blocks_twice({"a": f"def a():\n{block}", "b": f"if b:\n{other}"}) == {("a", "b")}
    assert (
        blocks_twice({"a": f"def a():\n{block}", "b": block.replace("line_3", "other")[4:].replace("\n    ", "\n")})
        == set()
    )


def test_no_block_of_six_lines_has_the_shape_of_another_without_a_reason() -> None:
    found = blocks_alike({name_of(path): path.read_text(encoding="utf-8") for path in FILES}, BLOCK)
    unexplained = {pair: places for pair, places in found.items() if pair not in ALIKE and pair not in TWICE}
    assert unexplained == {}
    assert ALIKE.keys() - found.keys() == set(), "these reasons are not needed any more"


def test_a_block_of_the_same_shape_is_found_whatever_its_names_and_texts() -> None:
    lines = ["total = 0", "for one in many:", "    if one.size > 3:", "        total += one.size", "    one.close()"]
    one = "def add(many):\n" + "".join(f"    {line}\n" for line in lines)
    renamed = one.replace("one", "other").replace("total", "sum_of_all").replace("3", '"x"').replace("add", "plus")
    assert blocks_alike({"a": one, "b": f'"""A remark."""\n{renamed}'}, BLOCK) == {
        ("a", "b"): [(("a", 1, 6), ("b", 2, 7))],
    }
    mixed = one.replace("one.close()", "total.close()")
    assert blocks_alike({"a": one, "b": mixed}, BLOCK) == {}


#: The only circles of modules that name each other, TYPE_CHECKING included: each module, with what holds it there.
CIRCLES = (
    {
        "_api.functions.basic": "a Function is opened with a RuntimeContext",
        "_api.runtime_context": "a RuntimeContext is a KeyedStateStore",
        "_api.state.kinds": "a KeyedStateStore takes a ReducingStateDescriptor, which has a ReduceFunction",
    },
    {
        "_api.windows.triggers": "an EventTimeTrigger decides about TimeWindows",
        "_api.windows.window": "a WindowAssigner has a default Trigger; a TimeWindow merges for a WindowAssigner",
    },
    {
        "_builders.data_stream": "DataStream makes all that is below, which makes DataStreams",
        "_builders.keyed_stream": "KeyedStream is a DataStream",
        "_builders.cached_stream": "CachedDataStream is a DataStream",
        "_builders.environment": "StreamExecutionEnvironment makes DataStreams",
        "_builders.connected": "ConnectedStreams and BroadcastStreams have DataStreams and make some",
        "_builders.interval_join": "IntervalJoin has two KeyedStreams, and makes a DataStream",
        "_builders.partitions": "PartitionWindowedStream makes DataStreams",
        "_builders.windows.windowed": "WindowedStream has a KeyedStream, and makes DataStreams",
        "_builders.windows.windowed_all": "AllWindowedStream has a DataStream, and makes some",
        "_builders.windows.joined": "JoinedStreams and CoGroupedStreams have DataStreams and make some",
    },
)


def named_by(texts: dict[str, str]) -> dict[str, set[str]]:
    """Return the modules that each module names.

    Args:
        texts: By dotted name; that of a package is of its __init__.
    """
    named: dict[str, set[str]] = {}
    for name, text in texts.items():
        found: set[str] = set()
        for node in module_of(text).imports:
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif node.module is not None:
                wanted = ((node.module, f"{node.module}.{alias.name}") for alias in node.names)
                found.update(whole if whole in texts else module for module, whole in wanted)
        named[name] = (found & texts.keys()) - {name}
    return named


def circles_in(named: dict[str, set[str]]) -> list[set[str]]:
    """Return the circles, each with all modules that can be reached from each other."""

    def reached(start: str, edges: dict[str, set[str]], among: set[str]) -> set[str]:
        found, waiting = {start}, [start]
        while waiting:
            new = (edges[waiting.pop()] & among) - found
            found |= new
            waiting += new
        return found

    naming: dict[str, set[str]] = {name: set() for name in named}
    for name, others in named.items():
        for other in others:
            naming[other].add(name)
    left, circles = set(named), list[set[str]]()
    while left:  # what neither names nor is named by any other module that is left is in no circle
        ends = {name for name in left if not (named[name] & left and naming[name] & left)}
        if ends:
            left -= ends
            continue
        start = next(iter(left))
        circle = reached(start, named, left) & reached(start, naming, left)
        left -= circle
        circles += [circle] if len(circle) > 1 else []
    return circles


def test_modules_that_name_each_other_are_public_classes_with_a_reason() -> None:
    paths = {path: path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".") for path in FILES}
    texts = {name.removesuffix(".__init__"): path.read_text(encoding="utf-8") for path, name in paths.items()}
    found = circles_in(named_by(texts))
    short = sorted(sorted(name.removeprefix("penstock.") for name in circle) for circle in found)
    assert short == sorted(sorted(circle) for circle in CIRCLES)


def test_a_circle_is_found_whatever_the_import() -> None:
    head = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "
    texts = {
        "p": "",
        "p.a": f"{head}from p.b import B",
        "p.b": "def b():\n    from p import c",
        "p.c": "import p.a\nimport p.d",
        "p.d": "from p.e import E",
        "p.e": '"""from p.d import D"""',
    }
    assert circles_in(named_by(texts)) == [{"p.a", "p.b", "p.c"}]
    assert circles_in(named_by({**texts, "p.a": ""})) == []


ROOT = PACKAGE.parents[1]
#: Below these each folder has a line of its own; what is deeper elsewhere follows from its parent.
MAPPED = ("src/penstock", "tests", "benchmarks", "docs", "examples")


def named_in_the_map(text: str) -> set[str]:
    """Return the folders that a table names: in each cell the first, or what begins as they do, and those below it."""
    found: set[str] = set()
    for line in text.splitlines():
        if line.startswith("| `"):
            first, *below = line.split("|")[1].split(", with ")
            folders = re.findall(r"`([^`]+)`", first)
            found.update(folders)
            found.update(f"{folders[-1]}/{name}" for cell in below for name in re.findall(r"`([^`]+)`", cell))
    return found


def folders_of_the_repository() -> set[str]:
    """Return the folders that have files; those of tests one level deep."""
    found = (path for top in MAPPED for path in (ROOT / top).rglob("*") if path.is_dir() and path.name != "__pycache__")
    names = (path.relative_to(ROOT) for path in found if any(part.is_file() for part in path.iterdir()))
    return {name.as_posix() for name in names if name.parts[0] != "tests" or len(name.parts) == 2}


def test_map_of_contributing_names_every_folder() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = named_in_the_map(text[text.index("### Every folder") :])
    assert folders_of_the_repository() - named == set()
    assert {name for name in named if not (ROOT / name).is_dir()} == set()


def test_fragments_of_the_changelog_have_a_kind() -> None:
    """Another file would be left out of the changelog without a word."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in config["type"])
    names = {path.name for path in (ROOT / config["directory"]).iterdir()} - {"README.md"}
    assert {name for name in names if not re.fullmatch(rf"\+[a-z0-9-]+\.({kinds})\.md", name)} == set()
    assert (ROOT / config["filename"]).read_text(encoding="utf-8").count(config["start_string"]) == 1


SHELF = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in (PACKAGE / "datastream").rglob("*.py")
]
MODULES = sorted(name for name in SHELF if not name.endswith("__init__"))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_the_shelf_only_shows(module: str) -> None:
    """What is defined there is private; it names the public module, by which pickles find it."""
    tree = ast.parse((PACKAGE.parent / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
    assert {type(node) for node in tree.body} <= {ast.Expr, ast.ImportFrom, ast.Assign}
    shelf = importlib.import_module(module)
    for name in shelf.__all__:
        shown = getattr(shelf, name)
        if isinstance(shown, type):
            home = importlib.import_module(shown.__module__)
            assert home.__name__ in MODULES
            assert getattr(home, name) is shown
            assert name in home.__all__
