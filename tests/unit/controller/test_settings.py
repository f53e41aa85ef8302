"""The settings of the controller, and the flags that an error names."""

import re

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

    service = "numalign-webhook.here.svc"
    names = settings("--tls-secret own --tls-names 127.0.0.1,example.com").names_in("here")
    assert names == (service, f"{service}.cluster.local", "127.0.0.1", "example.com")
    # The map is local by default, and only reads pods.
    chosen = settings("--map")
    port = chosen.calls_port
    assert port
    assert (port.address.bind, port.address.port, port.pair) == ("127.0.0.1", 8081, None)
    assert (chosen.watches_pods, chosen.acts_on_pods) == (True, False)


ALLOWED = [
    *("--map --map-bind ::1", "--map --map-bind localhost", "--map --map-port 0 --metrics-port 0"),
    *("--map --map-bind * --map-tls-cert a --map-tls-key b", "--map --map-bind * --map-plain-http"),
    "--map-bind * --map-port 8080",
]


@pytest.mark.parametrize("flags", ALLOWED)
def test_map_that_leaks_no_token_is_allowed(flags: str) -> None:
    assert settings(flags).map == ("--map " in flags)


CERTIFICATE = ["--map-tls-cert", "--map-tls-key"]


ONE_MISTAKE = [
    # A server of calls has these, and the controller has none of them.
    *("--port=1", "--tls-cert=1", "--insecure-http=1", "--max-in-flight=1"),
    *("--snapshot cluster.json", "--namespace ../x", "--tls-secret T/s", "--service Web"),
    *("--webhook-configuration ../x", "--tls-names a_b", "--tls-names ,", "--tls-days 0"),
    *("--gate-patience-seconds -1", "--gate-patience-seconds soon", "--pin-patience-seconds 0"),
    *("--keep-refused -1", "--keep-refused 101", "--keep-refused all"),
]
OF_THE_MAP = [
    ("--map --map-bind *", ["--map-bind"]),
    ("--map --map-bind 10.0.0.1", ["--map-bind"]),
    ("--map --map-bind localhost.example", ["--map-bind"]),
    ("--map --map-tls-cert a", ["--map-tls-cert"]),
    ("--map --map-tls-key a", ["--map-tls-key"]),
    ("--map --map-plain-http --map-tls-cert a --map-tls-key b", [*CERTIFICATE, "--map-plain-http"]),
    ("--map --map-port 8080", ["--map-port"]),
    ("--map-port 70000 --map-review-seconds 0", ["--map-port", "--map-review-seconds"]),
]
MISTAKES = [*((flags, [re.split("[ =]", flags)[0]]) for flags in ONE_MISTAKE), *OF_THE_MAP]


@pytest.mark.parametrize(("flags", "named"), MISTAKES)
def test_error_names_the_flags(flags: str, named: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(flags)

    where = [each for mistake in caught.value.mistakes for each in mistake.where.split(", ")]
    assert where == [f"flag {flag}" for flag in named]
