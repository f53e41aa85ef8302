"""What the controller can be told, and what it makes of mistakes."""

import pytest

from controller.settings import ControllerSettings
from numalign.runtime.settings import SettingsError, load


def settings(*argv: str) -> ControllerSettings:
    return load(ControllerSettings, argv=argv, environ={}).settings


def mistakes(*argv: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        settings(*argv)
    return [mistake.where for mistake in caught.value.mistakes]


def test_it_needs_nothing_but_a_cluster() -> None:
    chosen = settings()

    assert (chosen.label_nodes, chosen.tls_secret, chosen.kubelet_configs) == (True, None, False)
    assert (chosen.webhook_configuration, chosen.service) == ("zz-numalign", "numalign-webhook")


def test_the_certificate_is_for_every_name_by_which_the_webhook_is_called() -> None:
    chosen = settings("--tls-secret", "own", "--tls-names", "127.0.0.1, example.com")

    assert chosen.names_in("here") == (
        *("numalign-webhook.here.svc", "numalign-webhook.here.svc.cluster.local"),
        *("127.0.0.1", "example.com"),
    )


def test_it_answers_no_calls_and_so_has_neither_a_port_nor_a_certificate_for_them() -> None:
    for flag in ("--port", "--tls-cert", "--insecure-http", "--max-in-flight"):
        assert mistakes(f"{flag}=1") == [f"flag {flag}"]


def test_a_file_can_be_looked_at_and_nothing_be_written_there() -> None:
    assert settings("--dry-run", "--snapshot", "cluster.json").dry_run
    assert mistakes("--snapshot", "cluster.json") == ["flag --snapshot"]


def test_the_map_is_off_and_to_its_own_machine_unless_somebody_says_otherwise() -> None:
    assert settings().calls_port is None
    served = settings("--map").calls_port
    assert served
    assert (served.address.bind, served.address.port, served.pair) == ("127.0.0.1", 8081, None)
    assert settings("--map").watches_pods
    assert not settings("--map").acts_on_pods


@pytest.mark.parametrize(
    "flags",
    [
        "--map --map-bind ::1",
        "--map --map-bind localhost",
        "--map --map-bind * --map-tls-cert a --map-tls-key b",
        "--map --map-bind * --map-plain-http",
        "--map --map-port 0 --metrics-port 0",
        "--map-bind * --map-port 8080",
    ],
)
def test_a_map_that_tells_tokens_to_nobody_on_the_way_is_served(flags: str) -> None:
    assert settings(*flags.split()).map == ("--map " in flags)


CERTIFICATE = ["flag --map-tls-cert", "flag --map-tls-key"]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ("--map --map-bind *", ["flag --map-bind"]),
        ("--map --map-bind 10.0.0.1", ["flag --map-bind"]),
        ("--map --map-bind localhost.example", ["flag --map-bind"]),
        ("--map --map-tls-cert a", ["flag --map-tls-cert"]),
        ("--map --map-tls-key a", ["flag --map-tls-key"]),
        ("--map --map-plain-http --map-tls-cert a --map-tls-key b", [*CERTIFICATE, "flag --map-plain-http"]),
        ("--map --map-port 8080", ["flag --map-port"]),
        ("--map-port 70000 --map-review-seconds 0", ["flag --map-port", "flag --map-review-seconds"]),
    ],
)
def test_what_of_the_map_contradicts_itself_is_told_with_its_flags(flags: str, named: list[str]) -> None:
    assert [where for told in mistakes(*flags.split()) for where in told.split(", ")] == named


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--namespace", "../x"),
        ("--tls-secret", "T l/s"),
        ("--service", "Web"),
        ("--webhook-configuration", "../x"),
        ("--tls-names", "a_b"),
        ("--tls-names", ","),
        ("--tls-days", "0"),
        ("--gate-patience-seconds", "-1"),
        ("--gate-patience-seconds", "soon"),
        ("--pin-patience-seconds", "0"),
        ("--keep-refused", "-1"),
        ("--keep-refused", "101"),
        ("--keep-refused", "all"),
    ],
)
def test_what_nothing_can_be_is_told_with_its_flag(flag: str, text: str) -> None:
    assert mistakes(flag, text) == [f"flag {flag}"]
