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
