"""What travels to the tasks, and the name of what cannot."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import traceback
from pathlib import Path
from types import CodeType
from typing import Any

import cloudpickle
import pytest

from penstock._engine.graph.pickling import describe, dumps_members
from penstock.datastream import MapFunction
from penstock.errors import UnpicklableFunctionError

SOURCES = Path(__file__).parents[3] / "src"
LOCK = threading.Lock()


@functools.cache
def cached(value: int) -> int:
    return value


class Client:
    def __init__(self) -> None:
        self.session = {"pool": [1, threading.Lock()]}


class Slotted:
    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()


def failure(function: object) -> UnpicklableFunctionError:
    with pytest.raises(UnpicklableFunctionError) as caught:
        dumps_members("Map", {"function": function})
    return caught.value


def in_main(function: Any) -> Any:
    """Pickle a function by value, as one of the main script."""
    function.__module__ = "__main__"
    return function


def test_a_closure_variable_is_named() -> None:
    lock = threading.Lock()
    error = failure(lambda value: (lock, value))
    assert error.path == "closure variable 'lock'"
    assert error.function.startswith("Map function <lambda> at test_pickling.py:")
    assert "cannot pickle '_thread.lock' object" in str(error)


def test_an_attribute_is_named_with_its_path() -> None:
    client = Client()
    assert failure(lambda value: (client, value)).path == "closure variable 'client'.session['pool'][1]"


def test_a_slot_is_named() -> None:
    slotted = Slotted()
    assert failure(lambda value: (slotted, value)).path == "closure variable 'slotted'.lock"


def test_a_global_variable_of_the_script_is_named() -> None:
    assert failure(in_main(lambda value: (LOCK, value))).path == "global variable 'LOCK'"


def test_a_function_that_the_function_calls_is_followed() -> None:
    lock = threading.Lock()

    def helper() -> object:
        return lock

    assert failure(lambda value: helper()).path == "closure variable 'helper' > closure variable 'lock'"


def test_a_default_is_named() -> None:
    lock = threading.Lock()
    assert failure(lambda value, guard=lock: value).path == "default of parameter 'guard'"


def test_a_partial_is_looked_into() -> None:
    error = failure(functools.partial(max, key=threading.Lock()))
    assert error.path == "partial's argument 'key'"
    assert failure(functools.partial(max, threading.Lock())).path == "partial's argument 0"


def test_an_attribute_of_a_function_object_is_named() -> None:
    class Enrich(MapFunction):
        def __init__(self) -> None:
            self.client = Client()

        def map(self, value: object) -> object:
            return value

    error = failure(Enrich())
    assert error.path == "attribute client.session['pool'][1]"
    assert error.function == "Map function Enrich"


def test_a_bound_method_is_looked_into() -> None:
    class Holder:
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def method(self, value: object) -> object:
            return value

    assert failure(Holder().method).path == "self.lock"


def test_an_object_that_refuses_by_itself_is_named_with_its_own_words() -> None:
    class Context:
        def __reduce__(self) -> str:
            msg = "only on the driver"
            raise RuntimeError(msg)

    context = Context()
    error = failure(lambda value: (context, value))
    assert (error.path, error.reason) == ("closure variable 'context'", "only on the driver")


def test_cause_shows_the_users_lines_and_none_of_the_pickling() -> None:
    class Refuses:
        def __reduce__(self) -> str:
            message = "not me"
            raise RuntimeError(message)

    lock, refuses = threading.Lock(), Refuses()
    plain = failure(lambda value: (lock, value))
    assert (plain.__context__ is plain.__cause__, plain.__cause__ and plain.__cause__.__traceback__) == (True, None)
    assert plain.__cause__ is not None
    assert plain.__cause__.__context__ is None
    cause = failure(lambda value: (refuses, value)).__cause__
    assert cause is not None
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["__reduce__"]


def test_a_cycle_ends() -> None:
    ring: list[object] = [threading.Lock()]
    ring.append(ring)
    assert failure(lambda value: (ring, value)).path == "closure variable 'ring'[0]"


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (str.upper, "method_descriptor"),
        (
            functools.partial(functools.partial(in_main), 1),
            f"in_main at test_pickling.py:{in_main.__code__.co_firstlineno}",
        ),
        (Client, "Client"),
    ],
)
def test_functions_are_described_by_name_and_line(function: object, text: str) -> None:
    assert describe(function) == text


def run_script(folder: Path, program: str) -> str:
    script = folder / "job.py"
    script.write_text(textwrap.dedent(program), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_classes_of_the_script_are_the_same_in_every_payload(tmp_path: Path) -> None:
    """A task loads functions, main_classes and plainly pickled records in any order, and isinstance must hold."""
    run_script(
        tmp_path,
        """
        import dataclasses, enum, pickle
        from penstock._engine.graph.pickling import dumps_members, dumps_value, main_classes

        @dataclasses.dataclass(frozen=True)
        class Point:
            x: int

        class Color(enum.Enum):
            RED = 1

        class Child(Point):
            pass

        def make(x): return Point(x)
        payloads = [
            dumps_members("Map", {"function": make}),
            dumps_members("Map", {"function": lambda value: (isinstance(value, Point), Color.RED)}),
            dumps_value("records", [Point(1), Child(2), Color.RED]),
            main_classes(),
        ]
        record = pickle.dumps(Point(5))
        open("payloads.pickle", "wb").write(pickle.dumps((payloads, record)))
        """.replace("payloads.pickle", str(tmp_path / "payloads.pickle")),
    )
    loader = tmp_path / "task.py"
    loader.write_text(
        textwrap.dedent(f"""
        import pickle, sys
        payloads, record = pickle.load(open({str(tmp_path / "payloads.pickle")!r}, "rb"))
        make = pickle.loads(payloads[0])["function"]
        check = pickle.loads(payloads[1])["function"]
        point, child, red = pickle.loads(payloads[2])
        classes = pickle.loads(payloads[3])
        vars(sys.modules["__main__"]).update(classes)
        assert check(make(1)) == (True, red), check(make(1))
        assert check(point) == (True, red) and check(child) == (True, red)
        assert type(point) is classes["Point"] and red is classes["Color"].RED
        plain = pickle.loads(record)
        assert plain == make(5) and type(plain) is classes["Point"] and check(plain)[0]
        print("same")
        """),
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, str(loader)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    assert done.stdout == "same\n", done.stderr


def test_functions_with_a_cache_and_new_types_of_the_script_travel_with_it(tmp_path: Path) -> None:
    """Also where they call themselves, are methods, or are made inside of a function; each copy has its own cache."""
    payload = tmp_path / "payload"
    run_script(
        tmp_path,
        f"""
        import functools, pathlib, textwrap, typing
        from penstock._engine.graph.pickling import dumps_members

        Number = typing.NewType("Number", int)

        @functools.lru_cache(maxsize=7, typed=True)
        def fibonacci(n: Number) -> Number:
            return Number(n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2))

        class Rates:
            @functools.cache
            def rate(self, name): return len(name)

        def local():
            @functools.cache
            def twice(n): return 2 * n
            return lambda n: twice(n)

        fibonacci(30)
        members = {{
            "known": lambda n: fibonacci(n), "itself": fibonacci, "rates": Rates(), "local": local(),
            "wrap": textwrap.fill,
        }}
        pathlib.Path({str(payload)!r}).write_bytes(dumps_members("Map", members))
        """,
    )
    members = pickle.loads(payload.read_bytes())
    itself = members["itself"]
    assert itself.cache_parameters() == {"maxsize": 7, "typed": True}
    assert itself.cache_info().currsize == 0
    assert members["known"](10) == 55
    assert itself.cache_info().currsize == 7, "it calls itself by its cache, and the other function calls the same one"
    assert members["rates"].rate("abc") == 3
    assert members["local"](4) == 8
    assert members["wrap"] is textwrap.fill


def test_cached_functions_of_modules_travel_by_name() -> None:
    assert pickle.loads(dumps_members("Map", {"function": functools.cache(len), "known": cached}))["known"] is cached


def test_code_keeps_its_file_whatever_cloudpickle_makes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 3.1.3 puts another name into its place, and tasks could not show the user's line."""
    table = cloudpickle.Pickler.dispatch_table
    reduce = table[CodeType]

    def nameless(code: CodeType) -> Any:
        make, parts = reduce(code)
        return make, tuple("<dynamic-code>" if part == code.co_filename else part for part in parts)

    monkeypatch.setitem(table, CodeType, nameless)
    function = pickle.loads(dumps_members("Map", {"function": lambda value: [lambda: value]}))["function"]
    assert function.__code__.co_filename == function(1)[0].__code__.co_filename == __file__


def test_classes_that_cannot_travel_are_left_out_and_imported_ones_too(tmp_path: Path) -> None:
    output = run_script(
        tmp_path,
        """
        import pickle, threading
        from decimal import Decimal
        from penstock._engine.graph.pickling import main_classes

        assert main_classes() is None

        class Fine: pass
        class Stuck:
            lock = threading.Lock()

        print(*pickle.loads(main_classes()))
        """,
    )
    assert output == "Fine\n"


def test_user_modules_are_what_is_loaded_from_below_the_script(tmp_path: Path) -> None:
    package = tmp_path / "helpers"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "text.py").write_text("", encoding="utf-8")
    (tmp_path / "single.py").write_text("", encoding="utf-8")
    (tmp_path / "unused.py").write_text("", encoding="utf-8")
    installed = tmp_path / ".venv" / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "library.py").write_text("", encoding="utf-8")
    output = run_script(
        tmp_path,
        """
        import sys
        sys.path.insert(0, "SITE")
        import helpers.text, single, library, json
        from penstock._engine.graph.pickling import user_modules
        for name, path in user_modules().items():
            print(name, path.name)
        """.replace("SITE", str(installed)),
    )
    assert output == "helpers helpers\nsingle single.py\n"


def test_members_come_back_as_they_were() -> None:
    payload = dumps_members("Window", {"function": None, "allowed_lateness_ms": 5, "late_tag": "late"})
    assert pickle.loads(payload) == {"function": None, "allowed_lateness_ms": 5, "late_tag": "late"}


def test_classes_travel_by_name_where_the_program_did_not_import_their_public_module() -> None:
    program = (
        "import pickle, sys\n"
        "from penstock._engine.graph.pickling import dumps_members\n"
        "from penstock.datastream.window import CountTumblingWindowAssigner\n"
        "assert 'penstock.datastream.state' not in sys.modules\n"
        "sys.stdout.write(str(b'_make_skeleton_class' in dumps_members('', {'a': CountTumblingWindowAssigner(3)})))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False"


def test_classes_that_name_a_wrong_module_of_their_own_travel_by_the_right_one(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        textwrap.dedent("""
            import pickle, sys
            from confluent_kafka import Consumer, KafkaException
            from penstock._engine.graph.pickling import dumps_members, main_classes

            class Lookup:
                def find(self, key):
                    try:
                        raise KafkaException(key)
                    except KafkaException:
                        return Consumer

            members = {"function": lambda key: Lookup().find(key)}
            sys.stdout.buffer.write(pickle.dumps((dumps_members("Map", members), main_classes())))
        """)
    )
    told = subprocess.run(
        [sys.executable, script], check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(SOURCES)}
    )
    there = """
        import pickle, sys
        members, classes = pickle.load(sys.stdin.buffer)
        function = pickle.loads(members)["function"]
        found = [function("a"), pickle.loads(classes)["Lookup"]().find("b")]
        from confluent_kafka import Consumer, KafkaException
        assert found == [Consumer, Consumer], found
    """
    code = [sys.executable, "-c", textwrap.dedent(there)]
    ended = subprocess.run(code, input=told.stdout, check=False, capture_output=True)
    assert ended.returncode == 0, ended.stderr.decode()
