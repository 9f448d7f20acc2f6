from __future__ import annotations

import copy
import pickle

import pytest

from penstock.common import option_table
from penstock.common.config_options import ConfigOptions
from penstock.common.configuration import Configuration
from penstock.common.time import Duration
from penstock.errors import ConfigurationError, PenstockError


def test_typed_values_come_back_and_are_text_inside() -> None:
    config = (
        Configuration()
        .set_string("s", "text")
        .set_integer("i", 7)
        .set_boolean("b", True)
        .set_float("f", 1)
        .set_bytearray("y", bytearray(b"\x00\xff"))
    )
    assert config.get_string("s", "") == "text"
    assert config.get_integer("i", 0) == 7
    assert config.get_boolean("b", False) is True
    assert config.get_float("f", 0.0) == 1.0
    assert config.get_bytearray("y", bytearray()) == bytearray(b"\x00\xff")
    assert config.to_dict() == {"s": "text", "i": "7", "b": "true", "f": "1.0", "y": "AP8="}


def test_defaults_hold_where_nothing_is_set() -> None:
    config = Configuration()
    assert config.get_string("k", "d") == "d"
    assert config.get_integer("k", 3) == 3
    assert config.get_float("k", 3) == 3.0
    assert config.get_boolean("k", True) is True
    assert config.get_bytearray("k", bytearray(b"d")) == bytearray(b"d")


@pytest.mark.parametrize("getter", ["get_integer", "get_boolean", "get_float", "get_bytearray"])
def test_a_getter_of_another_type_names_the_key(getter: str) -> None:
    config = Configuration().set_string("my.key", "no such value!")
    with pytest.raises(ConfigurationError, match=r"my\.key cannot be 'no such value!'"):
        getattr(config, getter)("my.key", bytearray() if getter == "get_bytearray" else 0)


def test_a_value_that_is_no_text_is_refused_where_it_is_set() -> None:
    with pytest.raises(TypeError, match="key 'k'"):
        Configuration().set_string("k", 5)  # pyright: ignore[reportArgumentType]


def test_configurations_are_equal_by_content_and_copied_not_shared() -> None:
    config = Configuration.from_dict({"a": "1"})
    for twin in (Configuration(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert twin == config
        assert hash(twin) == hash(config)
        twin.set_string("a", "2")
        assert config.get_string("a", "") == "1"


def test_add_all_overwrites_and_puts_the_prefix_before_keys() -> None:
    config = Configuration.from_dict({"a": "1", "b": "2"})
    config.add_all(Configuration.from_dict({"b": "3"})).add_all(Configuration.from_dict({"c": "4"}), "x.")
    assert config.to_dict() == {"a": "1", "b": "3", "x.c": "4"}
    target = {"z": "0"}
    config.add_all_to_dict(target)
    assert target == {"z": "0", "a": "1", "b": "3", "x.c": "4"}


def test_keys_are_listed_and_removed() -> None:
    config = Configuration.from_dict({"a": "", "b": "2"})
    assert config.key_set() == {"a", "b"}
    assert config.contains_key("a")
    assert config.remove_config("a") is True
    assert config.remove_config("a") is False
    assert config.key_set() == {"b"}


def test_text_of_a_configuration_hides_secrets() -> None:
    config = Configuration.from_dict({"a": "1", "s3.secret-key": "k", "db.password": "p"})
    assert str(config) == "{a=1, s3.secret-key=******, db.password=******}"


def test_a_dict_gets_values_as_they_were_set_and_texts_of_all_that_was_set_as_text() -> None:
    config = Configuration().set_integer("n", 1).set_float("f", 1).set_boolean("b", True)
    config.set_bytearray("y", bytearray(b"\1")).set_string("t", "1").set_integer("over", 7).set_string("over", "7")
    found: dict[str, object] = {}
    Configuration().add_all(Configuration(config), "x.").add_all_to_dict(found)
    expected = {"x.n": 1, "x.f": 1.0, "x.b": True, "x.y": bytearray(b"\1"), "x.t": "1", "x.over": "7"}
    assert {key: (type(value), value) for key, value in found.items()} == {
        key: (type(value), value) for key, value in expected.items()
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, []),
        ("", []),
        ("a;b", ["a", "b"]),
        ("[a, b]", ["a", "b"]),
        ("a", ["a"]),
        ("- a\n- b", ["a", "b"]),
        ("-a;b", ["-a", "b"]),
    ],
)
def test_list_values_are_yaml_or_separated_by_semicolons(text: str | None, expected: list[str]) -> None:
    assert Configuration.parse_list_value(text) == expected


def test_an_option_is_read_by_its_older_names_too_and_the_newest_wins() -> None:
    config = Configuration().set_string("state.checkpoints.num-retained", "5")
    assert config.get(option_table.CHECKPOINTS_RETAINED) == 5
    config.set_string("execution.checkpointing.num-retained", "3")
    assert config.get(option_table.CHECKPOINTS_RETAINED) == 3


def test_setting_an_option_replaces_its_older_names() -> None:
    config = Configuration().set_string("state.checkpoints.num-retained", "5")
    config.set(option_table.CHECKPOINTS_RETAINED, 4)
    assert config.to_dict() == {"execution.checkpointing.num-retained": "4"}


def test_an_option_without_default_is_unset_by_none() -> None:
    config = Configuration().set(option_table.CHECKPOINTING_INTERVAL, Duration.of_seconds(10))
    assert config.to_dict() == {"execution.checkpointing.interval": "10 s"}
    assert config.set(option_table.CHECKPOINTING_INTERVAL, None).to_dict() == {}


def test_an_option_refuses_a_value_that_it_cannot_have_where_it_is_set() -> None:
    with pytest.raises(
        ConfigurationError, match=r"execution\.checkpointing\.interval cannot be '9 ms'.*at least 10 ms"
    ):
        Configuration().set(option_table.CHECKPOINTING_INTERVAL, Duration.of_millis(9))


def test_a_program_makes_options_of_its_own_keys() -> None:
    key = ConfigOptions.key("myjob.limit")
    config = Configuration().set_string("myjob.limit", "12")
    assert config.get(key.int_type().default_value(1)) == 12
    assert config.get(key.long_type().no_default_value()) == 12
    assert config.get(key.double_type().default_value(0.5)) == 12.0
    assert config.get(key.float_type().default_value(0.5)) == 12.0
    assert config.get(key.string_type().no_default_value()) == "12"
    assert Configuration().get(key.string_type().no_default_value()) is None
    with pytest.raises(PenstockError, match=r"myjob\.limit"):
        config.get(key.boolean_type().default_value(False))


def test_int_options_have_32_bits_and_long_options_64() -> None:
    config = Configuration().set_string("n", str(2**31))
    assert config.get(ConfigOptions.key("n").long_type().default_value(0)) == 2**31
    with pytest.raises(ConfigurationError, match="between"):
        config.get(ConfigOptions.key("n").int_type().default_value(0))
