"""What every server can be told, and the one thing it must be told."""

import pytest

from numalign.runtime import settings
from numalign.runtime.server_settings import ServerSettings
from tests.worlds.notation import table


def load(*argv: str, **environ: str) -> ServerSettings:
    return settings.load(ServerSettings, argv=argv, environ=environ).settings


def test_a_pair_or_plain_http() -> None:
    assert load("--tls-cert=c", "--insecure-http=no", NUMALIGN_TLS_KEY="k").insecure_http is False
    assert load("--insecure-http").tls_cert is None


def test_each_port_is_its_own() -> None:
    free = load("--insecure-http", "--port=0", "--metrics-port=0")
    assert free.metrics_port == free.port == 0
    with pytest.raises(settings.SettingsError) as caught:
        load("--insecure-http", "--port=8080", "--metrics-port=8080")
    assert str(caught.value) == "flag --port, flag --metrics-port: must be different ports"


NEITHER = (
    "--tls-cert, --tls-key, --insecure-http: set --tls-cert and --tls-key, or --insecure-http for local tests"
)
CLASH = "plain HTTP and a certificate cannot be combined: remove one of them"


@pytest.mark.parametrize(("argv", "environ", "expected"), table([
    ("neither", [], {}, NEITHER),
    ("no key", ["--tls-cert", "c"], {}, "flag --tls-cert: --tls-cert requires --tls-key"),
    ("no certificate", [], {"NUMALIGN_TLS_KEY": "k"},
     "environment NUMALIGN_TLS_KEY: --tls-key requires --tls-cert"),
    ("both", ["--tls-cert", "c", "--tls-key", "k", "--insecure-http"], {},
     f"flag --tls-cert, flag --tls-key, flag --insecure-http: {CLASH}"),
    ("half a pair and plain HTTP", ["--insecure-http"], {"NUMALIGN_TLS_KEY": "k"},
     f"environment NUMALIGN_TLS_KEY, flag --insecure-http: {CLASH}"),
]))  # fmt: skip
def test_exactly_one_of_the_two(argv: list[str], environ: dict[str, str], expected: str) -> None:
    with pytest.raises(settings.SettingsError) as caught:
        load(*argv, **environ)
    assert str(caught.value) == expected
