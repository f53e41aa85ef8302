"""What the webhook can be told, and what it makes of mistakes."""

import pytest

from numalign.runtime.settings import SettingsError, load
from tests.worlds.notation import table
from webhook.settings import WebhookSettings

ENOUGH = ["--snapshot", "cluster.json", "--insecure-http"]


def mistakes(*argv: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(WebhookSettings, argv=argv, environ={})
    return [mistake.where for mistake in caught.value.mistakes]


def test_a_certificate_in_a_secret_takes_the_place_of_files() -> None:
    argv = ["--tls-secret", "own", "--tls-names", "127.0.0.1, example.com"]
    chosen = load(WebhookSettings, argv=argv, environ={}).settings
    names = ("127.0.0.1", "example.com")
    assert (chosen.tls_secret, chosen.names, chosen.service) == ("own", names, "numalign-webhook")


CERTIFICATES = [
    ("none",                  ""),
    ("half a pair",           "--tls-cert c"),
    ("and plain HTTP",        "--tls-secret s --insecure-http"),
    ("and files",             "--tls-secret s --tls-cert c --tls-key k"),
    ("without an API server", "--tls-secret s --snapshot cluster.json"),
]  # fmt: skip


@pytest.mark.parametrize("flags", table(CERTIFICATES))
def test_exactly_one_certificate_is_served(flags: str) -> None:
    assert len(mistakes(*flags.split())) == 1


NAMES = [
    ("--namespace", "../x"), ("--tls-secret", "T l/s"), ("--service", "Web"), ("--tls-names", "a_b"),
    ("--tls-names", "127.0.0.1, not a name"), ("--tls-names", ","),
]  # fmt: skip


@pytest.mark.parametrize(("flag", "text"), NAMES)
def test_invalid_name_is_a_mistake_of_its_flag(flag: str, text: str) -> None:
    enough = ("--insecure-http",) if flag != "--tls-secret" else ()
    assert f"flag {flag}" in mistakes(*enough, flag, text)


@pytest.mark.parametrize("flags", ["--kubeconfig k", "--context c", "--kubelet-configs"])
def test_snapshot_excludes_an_api_server(flags: str) -> None:
    assert mistakes(*ENOUGH, *flags.split()) == [f"flag --snapshot, flag {flags.split(maxsplit=1)[0]}"]
