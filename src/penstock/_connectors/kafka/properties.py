"""Client properties: Java's names, as Flink's programs have them, become librdkafka's, or are refused by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.common.redaction import learn_secrets
from penstock.errors import KafkaPropertyError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Java's names of properties that librdkafka has under other names.
_RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "sasl.mechanism": "sasl.mechanisms",
    "sasl.kerberos.kinit.cmd": "sasl.kerberos.kinit.cmd",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
#: Java's properties that mean nothing here: the connector does what they are for, or they are about the JVM.
_DONE_HERE: Final = frozenset({
    *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
    *("enable.auto.commit", "auto.commit.interval.ms", "max.poll.records", "default.api.timeout.ms"),
    *("register.consumer.metrics", "register.producer.metrics", "metric.reporters", "metrics.num.samples"),
    *("metrics.recording.level", "metrics.sample.window.ms", "auto.include.jmx.reporter", "exclude.internal.topics"),
    *("partition.assignment.strategy", "allow.auto.create.topics", "flink.poll-timeout"),
})  # fmt: skip
#: Java's properties that cannot be translated, each with what to do.
_REFUSED: Final = {
    "interceptor.classes": "it names Java classes; do what they do in a map before or behind the connector",
    "partitioner.class": "it names a Java class; give the record serializer a function with set_partitioner",
    "sasl.client.callback.handler.class": "it names a Java class; use PLAIN, SCRAM or GSSAPI with sasl.username",
    "sasl.login.callback.handler.class": "it names a Java class; for OAUTHBEARER set sasl.oauthbearer.method=oidc",
    "sasl.login.class": "it names a Java class; use PLAIN, SCRAM or GSSAPI with librdkafka's properties",
    "security.providers": "it names Java classes; librdkafka uses OpenSSL",
    "ssl.enabled.protocols": "OpenSSL chooses the newest protocol that both sides have; leave it out",
    "ssl.engine.factory.class": "it names a Java class; librdkafka uses OpenSSL",
    "ssl.keymanager.algorithm": "it is the JVM's; leave it out",
    "ssl.protocol": "OpenSSL chooses the newest protocol that both sides have; leave it out",
    "ssl.provider": "it names a Java provider; librdkafka uses OpenSSL",
    "ssl.secure.random.implementation": "it is the JVM's; leave it out",
    "ssl.trustmanager.algorithm": "it is the JVM's; leave it out",
    "transactional.id": "only committers have one, and they make it of the job, the sink and the run; leave it out",
}
#: Of a consumer alone; programs give them to sinks, too, as PyFlink's examples do.
_OF_CONSUMERS: Final = re.compile(
    r"group\..*|session\.timeout\.ms|heartbeat\.interval\.ms|max\.poll\..*|auto\.offset\.reset|isolation\.level"
    r"|fetch\..*|max\.partition\.fetch\.bytes|check\.crcs|queued\..*|enable\.partition\.eof|partition\.discovery\..*"
)
#: Of a producer alone.
_OF_PRODUCERS: Final = re.compile(
    r"acks|linger\.ms|queue\.buffering\..*|compression\..*|batch\..*|enable\.(gapless\.guarantee|idempotence)"
    r"|transaction\.timeout\.ms|partitioner|message\.timeout\.ms|delivery\.timeout\.ms|request\.timeout\.ms|retries"
    r"|sticky\.partitioning\..*|message\.send\.max\.retries"
)
_JAAS: Final = re.compile(
    r"(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\s*(?P<options>.*?);?\s*$", re.DOTALL
)
_JAAS_OPTION: Final = re.compile(r"""([\w.-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""")
_JAAS_MODULES: Final = {"PlainLoginModule", "ScramLoginModule"}


def require_servers(properties: Mapping[str, str]) -> None:
    """Raise unless it is said where the cluster is.

    Raises:
        KafkaPropertyError: It is not.
    """
    if not properties.get("bootstrap.servers"):
        raise KafkaPropertyError("bootstrap.servers", "it is not set; call set_bootstrap_servers")


def for_consumer(given: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's properties of a consumer.

    Raises:
        KafkaPropertyError: One cannot be translated.

    Example:
        >>> for_consumer({"fetch.max.wait.ms": "10", "linger.ms": "5"})
        {'fetch.wait.max.ms': '10'}
    """
    return {key: value for key, value in translated(given).items() if not _OF_PRODUCERS.fullmatch(key)}


def for_producer(given: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's properties of a producer.

    Raises:
        KafkaPropertyError: One cannot be translated.
    """
    return {key: value for key, value in translated(given).items() if not _OF_CONSUMERS.fullmatch(key)}


def for_either(given: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's properties of a client that neither reads nor writes.

    Raises:
        KafkaPropertyError: One cannot be translated.
    """
    return {key: value for key, value in for_consumer(given).items() if not _OF_CONSUMERS.fullmatch(key)}


def translated(given: Mapping[str, str]) -> dict[str, str]:
    """Return properties by librdkafka's names.

    Its own names are passed on; an unknown name is an error when the client is made.

    Raises:
        KafkaPropertyError: One cannot be translated.

    Example:
        >>> translated({"sasl.jaas.config": 'x.PlainLoginModule required username="a" password="b";'})
        {'sasl.username': 'a', 'sasl.password': 'b'}
    """
    learn_secrets(given)
    result: dict[str, str] = {}
    for key, value in given.items():
        if key in _REFUSED:
            raise KafkaPropertyError(key, _REFUSED[key])
        if key == "sasl.jaas.config":
            result.update(_of_jaas(value))
        elif key in {"buffer.memory", "ssl.endpoint.identification.algorithm"}:
            result.update(_with_another_value(key, value))
        elif key in _RENAMED or not (key in _DONE_HERE or key.startswith(("ssl.keystore.", "ssl.truststore."))):
            result[_RENAMED.get(key, key)] = value
    result.update(_of_stores(given))
    learn_secrets(result)
    return result


def _with_another_value(key: str, value: str) -> dict[str, str]:
    if key == "buffer.memory":
        return {"queue.buffering.max.kbytes": str(max(1, int(value) // 1024))}
    return {key: value or "none"}


def _of_jaas(text: str) -> dict[str, str]:
    """Return the properties of a JAAS entry with a name and a password."""
    match = _JAAS.match(text.strip())
    module = "" if match is None else match["module"].rpartition(".")[2]
    if match is None or module not in {*_JAAS_MODULES, "Krb5LoginModule"}:
        reason = (
            "only PlainLoginModule, ScramLoginModule and Krb5LoginModule can be translated; set sasl.mechanism with "
            "librdkafka's sasl.username and sasl.password, or sasl.oauthbearer.method=oidc and its URL"
        )
        raise KafkaPropertyError("sasl.jaas.config", reason)
    options = {key: value.strip("\"'") for key, value in _JAAS_OPTION.findall(match["options"])}
    learn_secrets(options)
    if module == "Krb5LoginModule":
        names = {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"}
        return {name: options[key] for key, name in names.items() if key in options}
    if not {"username", "password"} <= options.keys():
        raise KafkaPropertyError("sasl.jaas.config", "it has no username and password; set both in it")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _of_stores(given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for Java's key and trust stores; those that OpenSSL cannot read are refused."""
    result: dict[str, str] = {}
    trusted = given.get("ssl.truststore.location")
    if trusted is not None:
        if given.get("ssl.truststore.type", "JKS").upper() != "PEM":
            reason = (
                "librdkafka reads no trust store of Java; export its certificates (keytool -exportcert -rfc) into a "
                "file and name that in ssl.ca.location, or in this property with ssl.truststore.type=PEM"
            )
            raise KafkaPropertyError("ssl.truststore.location", reason)
        result["ssl.ca.location"] = trusted
    own = given.get("ssl.keystore.location")
    if own is not None:
        kind = given.get("ssl.keystore.type", "JKS").upper()
        if kind == "PEM":
            result["ssl.certificate.location"] = result["ssl.key.location"] = own
        elif kind == "PKCS12":
            result["ssl.keystore.location"] = own
            if "ssl.keystore.password" in given:
                result["ssl.keystore.password"] = given["ssl.keystore.password"]
        else:
            reason = (
                "librdkafka reads no JKS; convert it (keytool -importkeystore -deststoretype PKCS12) and set "
                "ssl.keystore.type=PKCS12, or name PEM files in ssl.certificate.location and ssl.key.location"
            )
            raise KafkaPropertyError("ssl.keystore.location", reason)
    return result
