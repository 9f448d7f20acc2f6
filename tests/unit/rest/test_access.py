"""Which tokens there are, where the server may listen with which of them, and how TLS is set up."""

from __future__ import annotations

import contextlib
import io
import shutil
import socket
import ssl
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.unit.rest.certificates import made
from tests.unit.rest.fakes import JOB, FakeControl
from tests.unit.rest.test_server import make, settings

from penstock._engine import launch
from penstock._engine.cli.rest_client import Credentials, RestClient
from penstock._engine.processes.registry import JobRegistry
from penstock._engine.rest import handshakes
from penstock.common.configuration import Configuration
from penstock.common.job_status import JobStatus
from penstock.errors import ConfigurationError, JobRequestError, JobUnreachableError

if TYPE_CHECKING:
    from tests.unit.rest.certificates import Files

TOKEN = "operate-0123456789"
READING = "read-0123456789-read"
KEY, READ_KEY = "penstock.rest.token", "penstock.rest.read-only-token"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return made(tmp_path_factory.mktemp("tls"))


def with_tls(files: Files, **more: str) -> dict[str, str]:
    return {"security.ssl.rest.enabled": "true", "security.ssl.rest.keystore": str(files.both), **more}


# --------------------------------------------------------------------------------------------------------------- tokens


def test_without_a_setting_a_token_is_made_that_is_another_one_each_time(tmp_path: Path) -> None:
    one, other = (settings(tmp_path, **{KEY: None}).access.token for _ in range(2))
    assert one is not None
    assert other is not None
    assert one != other
    assert min(len(one), len(other)) >= 40


def test_none_asks_for_no_token_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = make(tmp_path, **{KEY: "none"})
    made.start(2)
    made.close()
    assert "REST asks for no token (penstock.rest.token: none)" in caplog.text


@pytest.mark.parametrize("token", ["", " ", "t", "fifteen-letters", "sixteen letters-", "pass\nword-0123456", "ü" * 20])
@pytest.mark.parametrize("key", [KEY, READ_KEY])
def test_token_that_is_easily_guessed_or_cannot_be_sent_is_refused_and_shown_nowhere(
    tmp_path: Path, key: str, token: str
) -> None:
    with pytest.raises(ConfigurationError, match="at least 16 printable characters") as refused:
        settings(tmp_path, **{KEY: TOKEN, key: token})
    assert refused.value.key == key
    assert refused.value.value == ("******" if token else "")


@pytest.mark.parametrize("token", ["none", READING])
def test_read_only_token_that_tells_nobody_apart_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(ConfigurationError, match=READ_KEY):
        settings(tmp_path, **{KEY: token, READ_KEY: READING})


def test_tokens_are_hidden_in_what_people_see(tmp_path: Path) -> None:
    found = settings(tmp_path, **{KEY: TOKEN, READ_KEY: READING})
    assert found.configuration[KEY] == found.configuration[READ_KEY] == "******"
    assert TOKEN not in repr(found)
    assert READING not in repr(found)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_link_with_a_code_is_printed_to_a_terminal_alone_and_gives_the_token_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        server = make(tmp_path, **{KEY: TOKEN})
        server.start(2)
        server.on_status(JobStatus.CREATED)
    address, _, code = (
        terminal.getvalue().strip().removeprefix("Penstock dashboard and REST API: ").partition("/#code=")
    )
    assert address == server.address
    assert TOKEN not in terminal.getvalue()
    assert httpx.post(f"{address}/v1/penstock/token", json={"code": code}).json() == {"token": TOKEN}
    assert httpx.post(f"{address}/v1/penstock/token", json={"code": code}).status_code == 401
    server.close()
    assert capsys.readouterr() == ("", "")
    other = make(tmp_path, **{KEY: None})  # standard error is no terminal here
    other.start(2)
    other.on_status(JobStatus.CREATED)
    other.close()
    assert capsys.readouterr().err == f"Penstock dashboard and REST API: {other.address}\n"


def test_token_that_was_made_is_in_a_file_of_this_user_alone_and_our_commands_find_it(tmp_path: Path) -> None:
    server = make(tmp_path, **{KEY: None})
    server.add(FakeControl())
    server.start(2)
    server.job_named(FakeControl().view)
    (file,) = (tmp_path / "registry").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    (entry,) = JobRegistry(tmp_path / "registry").entries()
    assert httpx.get(f"{server.address}/v1/jobs").status_code == 401
    with RestClient(entry.address, Credentials(entry.token)) as client:
        assert client.jobs()[0]["jid"] == JOB
        assert client.link().startswith(f"{server.address}/#code=")
    server.close()


@pytest.mark.parametrize("change", ["owner", "mode", "link"])
def test_entry_that_others_may_have_written_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    server = make(tmp_path)
    server.job_named(FakeControl().view)
    (file,) = (tmp_path / "registry").iterdir()
    if change == "owner":
        monkeypatch.setattr("os.geteuid", lambda: file.stat().st_uid + 1)
    elif change == "mode":
        file.chmod(0o622)
    else:
        (tmp_path / "elsewhere").write_bytes(file.read_bytes())
        file.unlink()
        file.symlink_to(tmp_path / "elsewhere")
    assert JobRegistry(tmp_path / "registry").entries() == []
    server.close()


# ---------------------------------------------------------------------------------------------------------- one process


def test_further_job_may_say_nothing_or_the_same_and_is_refused_where_it_says_something_else(tmp_path: Path) -> None:
    first = {KEY: TOKEN, READ_KEY: READING, "rest.port": "0", "rest.address": "jobs.example"}
    shared = settings(tmp_path, **first).shared
    shared.check_same(Configuration())
    shared.check_same(Configuration.from_dict(first))
    for key, other in {
        KEY: "none",
        READ_KEY: TOKEN,
        "rest.port": "8081",
        "rest.bind-address": "0.0.0.0",
        "rest.address": "other.example",
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.keystore": "/etc/rest.pem",
        "penstock.rest.behind-proxy": "true",
        "penstock.rest.allowed-directories": "/data",
        "metrics.reporter.prom.port": "9249",
    }.items():
        with pytest.raises(ConfigurationError, match="one REST server serves all jobs") as refused:
            shared.check_same(Configuration.from_dict({key: other}))
        assert refused.value.key == key
        assert TOKEN not in str(refused.value)


def test_second_job_with_another_token_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_servers", [])
    keys = {"rest.port": "0", "penstock.rest.enabled": "true", KEY: TOKEN}
    server = launch._rest_server(Configuration.from_dict(keys))
    assert server is not None
    assert launch._rest_server(Configuration.from_dict(keys)) is server
    with pytest.raises(ConfigurationError, match=r"penstock\.rest\.token cannot be '\*{6}'"):
        launch._rest_server(Configuration.from_dict({**keys, KEY: READING}))
    server.close()


# ------------------------------------------------------------------------------------------------------- other machines


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.1.2.3", "example.org"])
@pytest.mark.behaviour(182)
def test_address_that_others_reach_needs_a_token_and_tls_or_a_proxy(tmp_path: Path, address: str, files: Files) -> None:
    place = {"rest.bind-address": address}
    with pytest.raises(ConfigurationError, match=r"penstock\.rest\.token: none is for loopback"):
        settings(tmp_path, **place, **with_tls(files))
    with pytest.raises(ConfigurationError, match=r"plain text.*security\.ssl\.rest\.enabled.*behind-proxy"):
        settings(tmp_path, **place, **{KEY: TOKEN})
    proxied = settings(tmp_path, **place, **{KEY: TOKEN, "penstock.rest.behind-proxy": "true"})
    assert proxied.access.token == TOKEN
    assert settings(tmp_path, **place, **{KEY: None}, **with_tls(files)).access.token is not None


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_loopback_needs_no_tls(tmp_path: Path, address: str) -> None:
    assert settings(tmp_path, **{"rest.bind-address": address, KEY: None}).tls is None


# ------------------------------------------------------------------------------------------------------------------ TLS


@pytest.mark.behaviour(182)
def test_our_command_line_knows_the_server_by_its_certificate_alone(tmp_path: Path, files: Files) -> None:
    server = make(tmp_path, **with_tls(files))
    server.add(FakeControl())
    server.start(2)
    server.job_named(FakeControl().view)
    assert server.address.startswith("https://")
    (entry,) = JobRegistry(tmp_path / "registry").entries()
    with RestClient(entry.address, Credentials(certificate=entry.certificate)) as client:
        assert client.jobs()[0]["jid"] == JOB
    for other in (Credentials(), Credentials(certificate=files.other.read_text())):
        with RestClient(entry.address, other) as client, pytest.raises(JobUnreachableError, match=r"(?i)certificate"):
            client.jobs()
    trusted = ssl.create_default_context(cafile=str(files.authority))
    trusted.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the authority does not say what its key is for
    answer = httpx.get(f"{server.address}/v1/jobs", verify=trusted)
    assert answer.headers["x-content-type-options"] == "nosniff"
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(server.address.replace("https", "http"))
    server.close()


@pytest.mark.parametrize(
    ("address", "known", "said"),
    [
        ("https://127.0.0.1", {}, "its certificate is not known here .* by --cacert or PENSTOCK_CACERT"),
        ("https://localhost", {"authorities": "authority"}, "is for another name .* the name in the certificate"),
        ("http://127.0.0.1", {}, "speaks TLS alone. Give its address as https://127.0.0.1:[0-9]+, and with --cacert"),
        ("https://127.0.0.1", {"certificate": "other"}, "not the one with which the job has started .* penstock list"),
    ],
)
def test_client_is_told_what_is_wrong_about_tls_and_the_way_out(
    tmp_path: Path, files: Files, address: str, known: dict[str, str], said: str
) -> None:
    server = make(tmp_path, **with_tls(files))
    server.start(2)
    paths = {"authority": str(files.authority), "other": files.other.read_text()}
    credentials = replace(Credentials(), **{name: paths[which] for name, which in known.items()})
    port = server.address.rpartition(":")[2]
    with RestClient(f"{address}:{port}", credentials) as client, pytest.raises(JobUnreachableError, match=said):
        client.jobs()
    server.close()


def test_client_is_told_that_a_server_has_no_tls(tmp_path: Path) -> None:
    server = make(tmp_path)
    server.start(2)
    said = f"does not speak TLS .* its address is {server.address}"
    with RestClient(server.address.replace("http", "https")) as client, pytest.raises(JobUnreachableError, match=said):
        client.jobs()
    server.close()


def test_private_key_that_others_can_read_is_warned_of(
    tmp_path: Path, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    key, locked = (Path(shutil.copy(file, tmp_path)) for file in (files.both, files.locked))
    for mode in (0o600, 0o644, 0o644):
        key.chmod(mode)
        settings(tmp_path, **with_tls(files, **{"security.ssl.rest.keystore": str(key)}))
    (warning,) = caplog.messages  # once for a file
    assert f"can read {key}, which holds the private key of the REST server (mode 0644): chmod 600" in warning
    locked.chmod(0o644)  # the password is what is secret there
    keys = {"security.ssl.rest.keystore": str(locked), "security.ssl.rest.key-password": files.password}
    settings(tmp_path, **with_tls(files, **keys))
    assert len(caplog.messages) == 1


def test_clients_that_never_shake_hands_take_no_place_of_others(tmp_path: Path, files: Files) -> None:
    server = make(tmp_path, **with_tls(files))
    server.add(FakeControl())
    server.start(2)
    host, port = server.address.removeprefix("https://").split(":")
    with contextlib.ExitStack() as silent:
        first, *_ = [
            silent.enter_context(socket.create_connection((host, int(port)), timeout=10))
            for _ in range(handshakes.MAX_HANDSHAKES + 1)
        ]
        with RestClient(server.address, Credentials(certificate=files.certificate.read_text())) as client:
            assert client.jobs()
        with contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b""  # the first of them had to go
    server.close()


def test_clients_show_certificates_where_they_are_to(tmp_path: Path, files: Files) -> None:
    keys = {
        "security.ssl.rest.authentication-enabled": "true", "security.ssl.rest.truststore": str(files.authority)
    }  # fmt: skip
    server = make(tmp_path, **with_tls(files, **keys))
    server.add(FakeControl())
    server.start(2)
    server.job_named(FakeControl().view)
    (entry,) = JobRegistry(tmp_path / "registry").entries()
    known = Credentials(certificate=entry.certificate, client_files=entry.client_files)
    with RestClient(entry.address, known) as client:
        assert client.jobs()
    with (
        RestClient(entry.address, Credentials(certificate=entry.certificate)) as client,
        pytest.raises((JobUnreachableError, JobRequestError)),
    ):
        client.jobs()
    server.close()


def test_key_stands_in_a_file_of_its_own_or_behind_a_password(tmp_path: Path, files: Files) -> None:
    apart = {"security.ssl.rest.keystore": str(files.certificate), "penstock.rest.private-key": str(files.key)}
    assert settings(tmp_path, **with_tls(files, **apart)).tls is not None
    locked = with_tls(files, **{"security.ssl.rest.keystore": str(files.locked)})
    with pytest.raises(ConfigurationError, match=r"cannot be read .*security\.ssl\.rest\.key-password"):
        settings(tmp_path, **locked)
    assert settings(tmp_path, **locked, **{"security.ssl.rest.key-password": files.password}).tls is not None


def test_keystores_of_java_are_refused_by_name_with_what_to_use(tmp_path: Path, files: Files) -> None:
    keystore = tmp_path / "rest.jks"
    keystore.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\x02")
    for more, key in (
        ({"security.ssl.rest.keystore": str(keystore)}, "security.ssl.rest.keystore"),
        ({"security.ssl.rest.keystore-type": "PKCS12"}, "security.ssl.rest.keystore-type"),
        ({"security.ssl.rest.keystore": str(tmp_path / "none")}, "security.ssl.rest.keystore"),
        ({"security.ssl.rest.keystore": str(files.key)}, "security.ssl.rest.keystore"),
        ({"security.ssl.rest.authentication-enabled": "true"}, "security.ssl.rest.truststore"),
    ):
        with pytest.raises(ConfigurationError) as refused:
            settings(tmp_path, **with_tls(files, **more))
        assert refused.value.key == key
        if key.endswith(("keystore-type", "truststore")) or more.get(key) == str(keystore):
            assert "openssl pkcs12" in str(refused.value)
