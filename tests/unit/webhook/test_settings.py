"""What the webhook can be told, and what it makes of mistakes."""

import pytest

from numalign.runtime.settings import SettingsError, load
from webhook.settings import WebhookSettings

ENOUGH = ["--snapshot", "cluster.json", "--insecure-http"]


def mistakes(*argv: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(WebhookSettings, argv=argv, environ={})
    return [mistake.where for mistake in caught.value.mistakes]


def test_a_certificate_in_a_secret_takes_the_place_of_files() -> None:
    chosen = load(
        WebhookSettings, argv=["--tls-secret", "own", "--tls-names", "127.0.0.1, example.com"], environ={}
    ).settings

    assert (chosen.tls_secret, chosen.names, chosen.service) == (
        "own",
        ("127.0.0.1", "example.com"),
        "numalign-webhook",
    )


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--tls-cert", "c"),
        ("--tls-secret", "s", "--insecure-http"),
        ("--tls-secret", "s", "--tls-cert", "c", "--tls-key", "k"),
        ("--tls-secret", "s", "--snapshot", "cluster.json"),
    ],
    ids=["none", "half a pair", "and plain HTTP", "and files", "without an API server"],
)
def test_exactly_one_certificate_is_served(flags: tuple[str, ...]) -> None:
    assert len(mistakes(*flags)) == 1


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--namespace", "../x"),
        ("--tls-secret", "T l/s"),
        ("--service", "Web"),
        ("--tls-names", "a_b"),
        ("--tls-names", "127.0.0.1, not a name"),
        ("--tls-names", ","),
    ],
)
def test_invalid_name_is_a_mistake_of_its_flag(flag: str, text: str) -> None:
    enough = ("--insecure-http",) if flag != "--tls-secret" else ()
    found = mistakes(*enough, flag, text)
    assert f"flag {flag}" in found


@pytest.mark.parametrize(
    "flags", [("--kubeconfig", "k"), ("--context", "c"), ("--kubelet-configs",)], ids=lambda flags: flags[0]
)
def test_snapshot_excludes_an_api_server(flags: tuple[str, ...]) -> None:
    assert mistakes(*ENOUGH, *flags) == [f"flag --snapshot, flag {flags[0]}"]
