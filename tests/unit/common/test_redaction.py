"""What is shown of values and texts in which secrets are."""

from __future__ import annotations

import logging
import time

import pytest

from penstock.common import Configuration
from penstock.common.paths import plain_path
from penstock.common.redaction import HIDDEN, Redaction, hiding
from penstock.errors import ConfigurationError, PathError


@pytest.mark.parametrize(
    "key",
    [
        *("db.password", "DB_PASSWD", "keyPassphrase", "x.pwd", "s3.secret-key", "oauthToken", "aws.credentials"),
        *("api_key", "apiKey", "tls.private-key", "privateKey", "penstock.state.signing-key", "basic-auth"),
        *("http-headers", "proxy.Authorization", "fs.azure.account.key.x.blob", "sasl.jaas.config"),
        *("pw", "db.pw", "DB_PW", "s3.access-key", "azure_storage_account_key", "sse-customer-key"),
    ],
)
def test_value_of_a_key_that_names_a_secret_is_hidden(key: str) -> None:
    redaction = Redaction()
    assert redaction.value(key, "any thing, at all") == HIDDEN
    assert redaction.value("parameters", f"{{a: 1, {key}: 'x, y'}}").count("x") == key.count("x")


@pytest.mark.parametrize("key", ["upwards", "key.fields", "state.checkpoints.dir", "penstock.rest.private-key"])
def test_value_of_another_key_stays(key: str) -> None:
    assert Redaction().value(key, "/etc/key.pem") == "/etc/key.pem"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-Djavax.keyStorePassword=a/b+c== -Dx=1", "-Djavax.keyStorePassword=****** -Dx=1"),
        ("jdbc:pg://h/db?user=a&password=b&x=1", "jdbc:pg://h/db?user=a&password=******&x=1"),
        ("{'passwd': 'x y', \"api_key\": \"k\"}", "{'passwd': '******', \"api_key\": \"******\"}"),
        ("run --db-password hunter2 --x y", "run --db-password ****** --x y"),
        ("Authorization: Bearer abc.def, ok", "Authorization: ******, ok"),
        ("at amqp://joe:p@ss@host:5672/v", "at amqp://******@host:5672/v"),
        ("at https://ghp_0123456789abcdefghij@host/v", "at https://******@host/v"),
        ("at https://0123456789abcdef@host/v", "at https://******@host/v"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx", "******\nx"),
    ],
)
def test_secret_within_a_text_is_hidden(text: str, shown: str) -> None:
    assert Redaction().text(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("db.password:a b c,x:y", "{db.password: '******', x: y}"),
        ("{db: {password: [a, b]}, x: y}", "{db: {password: '******'}, x: y}"),
        ("[-Da.pwd=abc, -Dx=1]", "[-Da.pwd=******, -Dx=1]"),
    ],
)
def test_secret_within_a_value_is_hidden(text: str, shown: str) -> None:
    assert Redaction().value("other", text) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("unexpected token: }", "penstock.rest.token: none asks for none", "set s3.access-key and s3.secret-key, or"),
        *("abfss://container@account.dfs.core.windows.net/x", "http://host:80/a@b", "a:1,b:2", "{a: [b, c]}", "key=1"),
        "def connect(token: str) -> None",
    ],
)
def test_text_without_a_secret_stays(text: str) -> None:
    assert Redaction().text(text) == text


def test_known_secret_is_hidden_wherever_it_stands() -> None:
    redaction = Redaction()
    learned = {"a.password": "hush-hush-1", "m": "{token: deep-0123}", "u": "x://u:info-0123@h", "o": "-Dpwd=opts-0123"}
    redaction.learn({**learned, "penstock.state.signing-key": "first-0001 second-0002", "b.secret": "ordinary"})
    known = ("hush-hush-1", "deep-0123", "info-0123", "opts-0123", "first-0001", "second-0002")
    assert redaction.text(", ".join(known)) == ", ".join([HIDDEN] * len(known))
    assert (
        redaction.text("an ordinary word, which is a secret as well") == "an ordinary word, which is a secret as well"
    )


PEM = "-----BEGIN {0}PRIVATE KEY-----\n{1}\n-----END {0}PRIVATE KEY-----\n"


def test_lines_of_a_learned_key_are_hidden_and_its_frame_still_tells_another_key() -> None:
    redaction = Redaction()
    redaction.learn(
        {"tls.private-key": PEM.format("", "line-0001\nline-0002"), "chain": PEM.format("EC ", "line-0003")}
    )
    assert redaction.text("cannot read line-0002, line-0003") == f"cannot read {HIDDEN}, {HIDDEN}"
    assert redaction.text(PEM.format("DSA ", "another")) == f"{HIDDEN}\n"


@pytest.mark.parametrize(
    "part", ["token", "a://:", "a://", "a://x:y", "token=", "--pwd ", "a.", "password='", "-----BEGIN "]
)
def test_no_text_takes_long(part: str) -> None:
    began = time.process_time()
    Redaction().text(part * (40_000 // len(part)))
    assert time.process_time() - began < 4  # the worst took a minute


def test_configuration_adds_words_of_its_own() -> None:
    settings = {"penstock.sensitive-words": "number plate;pin", "card.PIN": "1234", "number_plate": "XY 1"}
    assert str(Configuration.from_dict(settings)).endswith("card.PIN=******, number_plate=******}")


def test_error_about_a_value_does_not_show_a_secret() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Configuration().set_string("retries.token", "hush-hush-2").get_integer("retries.token", 1)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("url", ["s3://key:hush@bucket/x", "hdfs://joe:hush@host/x", "https://joe:hush@host/x"])
def test_path_with_a_password_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(PathError) as caught:
        plain_path(url)
    assert "hush" not in str(caught.value)


def test_logger_writes_no_secret_of_a_line_and_its_exception(caplog: pytest.LogCaptureFixture) -> None:
    log = hiding(logging.getLogger("test.hiding"))
    log.warning("failed with %s", {"token": "hush-hush-4"}, exc_info=ValueError("password=hush-hush-3"))
    assert "ValueError: password=******" in caplog.text
    assert "hush" not in caplog.text
