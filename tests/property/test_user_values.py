"""Whatever user code fills in crosses a process: every text, and every number that it may give."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
from typing import TYPE_CHECKING, Any

import msgspec
import msgspec.inspect as ms
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._engine import processes, protocol, rest
from penstock._engine.protocol.control import LogLine, SubtaskAck, TaskFailure, decode, encode
from penstock._engine.protocol.decoders import json_decoder
from penstock._engine.rest.routing import json_of
from penstock.common.user_values import LONGEST_TEXT, encoded

if TYPE_CHECKING:
    from types import ModuleType

#: All of Unicode, with lone surrogates, which hypothesis leaves out by itself.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=())) | st.just("\ud83d broken")
#: What MessagePack takes; `figures` and the log bring others into this range.
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def message_types(*packages: ModuleType) -> list[type[Any]]:
    """Return all classes of some packages that msgspec can read: messages, documents, answers, and parts of them."""
    found: dict[type[Any], None] = {}
    for package in packages:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            members = vars(importlib.import_module(module.name)).values()
            found.update(dict.fromkeys(kind for kind in members if inspect.isclass(kind) and _is_message(kind)))
    return list(found)


def _is_message(kind: type[Any]) -> bool:
    if issubclass(kind, BaseException) or not (dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)):
        return False
    try:
        info = repr(ms.type_info(kind))
    except (TypeError, NameError):  # not of data alone, or its types are not loaded: it goes nowhere
        return False
    return "RawType" not in info and "CustomType" not in info


LEAVES: dict[type[Any], st.SearchStrategy[Any]] = {
    ms.StrType: ANY_TEXT,
    ms.IntType: INTEGERS,
    ms.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    ms.BoolType: st.booleans(),
    ms.NoneType: st.none(),
    ms.BytesType: st.binary(max_size=3),
    ms.AnyType: ANY_TEXT,
}


def values_of(info: ms.Type) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one for each kind of type
    """Return what a type of msgspec's inspection takes."""
    if type(info) in LEAVES:
        return LEAVES[type(info)]
    match info:
        case ms.EnumType() | ms.LiteralType():
            return st.sampled_from(list(info.cls if isinstance(info, ms.EnumType) else info.values))
        case ms.UnionType():
            return st.one_of([values_of(each) for each in info.types])
        case ms.ListType() | ms.VarTupleType():
            items = st.lists(values_of(info.item_type), max_size=1)
            return items if isinstance(info, ms.ListType) else items.map(tuple)
        case ms.TupleType():
            return st.tuples(*map(values_of, info.item_types))
        case ms.DictType():
            return st.dictionaries(values_of(info.key_type), values_of(info.value_type), max_size=1)
        case ms.NamedTupleType() | ms.DataclassType() | ms.StructType():
            fields = {field.name: values_of(field.type) for field in info.fields}
            return st.fixed_dictionaries(fields).map(lambda given, kind=info.cls: kind(**given))
        case _:
            raise NotImplementedError(info)


def escaped(value: Any) -> Any:
    """Return plain data with all texts as they may cross."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [escaped(item) for item in value]
    if isinstance(value, dict):
        return {escaped(name): escaped(item) for name, item in value.items()}
    return value


CROSSING = message_types(protocol)
ANSWERS = [kind for kind in message_types(rest, processes) if issubclass(kind, msgspec.Struct)]


def test_the_walk_finds_what_user_code_fills() -> None:
    assert {LogLine, TaskFailure, SubtaskAck} < set(CROSSING)
    assert len(CROSSING) > 30
    assert len(ANSWERS) > 50


@settings(max_examples=250)
@given(st.data())
def test_every_message_crosses_with_any_text(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(CROSSING))
    message = data.draw(values_of(ms.type_info(kind)))
    wanted = escaped(msgspec.to_builtins(message))
    assert escaped(msgspec.to_builtins(decode(encode(message), kind))) == wanted
    document = encoded(message, msgspec.json.encode)
    assert escaped(msgspec.to_builtins(json_decoder(kind).decode(document))) == wanted


@settings(max_examples=250)
@given(st.data())
def test_every_answer_is_given_with_any_text(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(ANSWERS))
    answer = data.draw(values_of(ms.type_info(kind)))
    assert escaped(json.loads(json_of(answer))) == escaped(json.loads(json.dumps(escaped(msgspec.to_builtins(answer)))))


@given(st.sampled_from([LogLine, TaskFailure]), st.text(st.sampled_from("a\n\u00e9\u20ac\U0001f600\ud83d"), min_size=1))
def test_every_text_of_a_log_line_and_a_failure_is_cut_at_64_kb(kind: type[Any], pattern: str) -> None:
    text = pattern * (3_000_000 // len(pattern))
    types = {field.name: field.type for field in ms.type_info(kind).fields}
    texts = [name for name, info in types.items() if "StrType" in repr(info)]
    rest = {name: None if "NoneType" in repr(info) else 0 for name, info in types.items() if name not in texts}
    message = kind(**dict.fromkeys(texts, text), **rest)
    assert len(texts) > 2
    for name in texts:
        shown = getattr(message, name)
        assert LONGEST_TEXT - 10 < len(shown.encode()) <= LONGEST_TEXT
        assert shown.endswith(f"\u2026 (of {len(text):,} characters)")
