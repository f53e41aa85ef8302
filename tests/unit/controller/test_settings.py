"""The settings of the controller, and the flags that an error names."""

import pytest

from controller.settings import ControllerSettings
from numalign.runtime.settings import SettingsError, load


def settings(flags: str) -> ControllerSettings:
    return load(ControllerSettings, argv=flags.split(" ") if flags else [], environ={}).settings


def test_defaults_need_nothing_but_a_cluster() -> None:
    chosen = settings("")

    assert (chosen.label_nodes, chosen.tls_secret, chosen.kubelet_configs) == (True, None, False)
    assert (chosen.webhook_configuration, chosen.service) == ("zz-numalign", "numalign-webhook")
    assert chosen.calls_port is None
    assert settings("--dry-run --snapshot cluster.json").dry_run


def test_certificate_has_every_name_of_the_webhook() -> None:
    chosen = settings("--tls-secret own --tls-names 127.0.0.1,example.com")

    assert chosen.names_in("here") == (
        *("numalign-webhook.here.svc", "numalign-webhook.here.svc.cluster.local"),
        *("127.0.0.1", "example.com"),
    )


def test_map_is_local_by_default_and_only_reads_pods() -> None:
    chosen = settings("--map")
    port = chosen.calls_port
    assert port
    assert (port.address.bind, port.address.port, port.pair) == ("127.0.0.1", 8081, None)
    assert (chosen.watches_pods, chosen.acts_on_pods) == (True, False)


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
def test_map_that_leaks_no_token_is_allowed(flags: str) -> None:
    assert settings(flags).map == ("--map " in flags)


CERTIFICATE = ["--map-tls-cert", "--map-tls-key"]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        # A server of calls has these, and the controller has none of them.
        *((f"{flag}=1", [flag]) for flag in ("--port", "--tls-cert", "--insecure-http", "--max-in-flight")),
        ("--snapshot cluster.json", ["--snapshot"]),
        ("--map --map-bind *", ["--map-bind"]),
        ("--map --map-bind 10.0.0.1", ["--map-bind"]),
        ("--map --map-bind localhost.example", ["--map-bind"]),
        ("--map --map-tls-cert a", ["--map-tls-cert"]),
        ("--map --map-tls-key a", ["--map-tls-key"]),
        ("--map --map-plain-http --map-tls-cert a --map-tls-key b", [*CERTIFICATE, "--map-plain-http"]),
        ("--map --map-port 8080", ["--map-port"]),
        ("--map-port 70000 --map-review-seconds 0", ["--map-port", "--map-review-seconds"]),
        ("--namespace ../x", ["--namespace"]),
        ("--tls-secret T/s", ["--tls-secret"]),
        ("--service Web", ["--service"]),
        ("--webhook-configuration ../x", ["--webhook-configuration"]),
        ("--tls-names a_b", ["--tls-names"]),
        ("--tls-names ,", ["--tls-names"]),
        ("--tls-days 0", ["--tls-days"]),
        ("--gate-patience-seconds -1", ["--gate-patience-seconds"]),
        ("--gate-patience-seconds soon", ["--gate-patience-seconds"]),
        ("--pin-patience-seconds 0", ["--pin-patience-seconds"]),
        ("--keep-refused -1", ["--keep-refused"]),
        ("--keep-refused 101", ["--keep-refused"]),
        ("--keep-refused all", ["--keep-refused"]),
    ],
)
def test_error_names_the_flags(flags: str, named: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(flags)

    where = [each for mistake in caught.value.mistakes for each in mistake.where.split(", ")]
    assert where == [f"flag {flag}" for flag in named]
