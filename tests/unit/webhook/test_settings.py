"""What the webhook can be told, and what it makes of mistakes."""

from pathlib import Path

import pytest

from numalign.model.intent import Match
from numalign.runtime.settings import SettingsError, load
from webhook.patch import Mode
from webhook.settings import WebhookSettings
from webhook.workloads import Workloads

ENOUGH = ["--snapshot", "cluster.json", "--insecure-http"]


def settings(*argv: str, **environ: str) -> WebhookSettings:
    return load(WebhookSettings, argv=[*ENOUGH, *argv], environ=environ).settings


def mistakes(*argv: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(WebhookSettings, argv=argv, environ={})
    return [mistake.where for mistake in caught.value.mistakes]


def test_it_needs_no_more_than_a_snapshot_and_a_way_to_serve() -> None:
    chosen = settings()

    assert chosen.snapshot == Path("cluster.json")
    assert (chosen.injection, chosen.policy_match) == (Mode.EXCLUDE, Match.SATISFIES)
    assert (chosen.unknown_nodes, chosen.snapshot_reload_seconds) == ("may-fit", 2.0)


WORDS = [
    ("--injection", list(Mode)),
    ("--policy-match", list(Match)),
    ("--unknown-nodes", ["cannot-fit", "may-fit"]),
    ("--workloads", list(Workloads)),
]


@pytest.mark.parametrize(("flag", "words"), WORDS, ids=[flag for flag, _ in WORDS])
def test_each_word_can_be_chosen_and_no_other(flag: str, words: list[str]) -> None:
    name = flag.removeprefix("--").replace("-", "_")

    assert [getattr(settings(flag, word), name) for word in words] == words
    assert mistakes(*ENOUGH, flag, "other") == [f"flag {flag}"]


def test_the_environment_says_the_same() -> None:
    assert settings(NUMALIGN_INJECTION="prefer").injection is Mode.PREFER


def test_without_a_snapshot_it_follows_a_cluster() -> None:
    chosen = load(WebhookSettings, argv=["--insecure-http"], environ={}).settings

    assert (chosen.snapshot, chosen.kubeconfig, chosen.namespace) == (None, None, None)
    assert (chosen.count_pods, chosen.kubelet_configs) == (True, False)


def test_gates_are_added_only_where_somebody_says_that_they_are_lifted() -> None:
    assert not settings().gates
    assert settings("--gates=true").gates
    assert mistakes(*ENOUGH, "--gates=sometimes") == ["flag --gates"]


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
def test_a_name_that_nothing_can_have_is_told_with_its_flag(flag: str, text: str) -> None:
    enough = ("--insecure-http",) if flag != "--tls-secret" else ()
    found = mistakes(*enough, flag, text)

    assert f"flag {flag}" in found


@pytest.mark.parametrize(
    "flags", [("--kubeconfig", "k"), ("--context", "c"), ("--kubelet-configs",)], ids=lambda flags: flags[0]
)
def test_a_snapshot_and_an_api_server_exclude_each_other(flags: tuple[str, ...]) -> None:
    assert mistakes(*ENOUGH, *flags) == [f"flag --snapshot, flag {flags[0]}"]


def test_it_writes_nothing_and_so_is_told_nothing_of_what_is_written() -> None:
    for flag in ("--label-nodes", "--dry-run", "--tls-days", "--webhook-configuration"):
        assert mistakes(*ENOUGH, f"{flag}=1") == [f"flag {flag}"]


def test_a_negative_interval_is_a_mistake() -> None:
    assert mistakes(*ENOUGH, "--snapshot-reload-seconds", "-1") == ["flag --snapshot-reload-seconds"]
