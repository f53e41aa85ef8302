"""What the webhook can be told, and what it makes of mistakes."""

from pathlib import Path

import pytest

from numalign.rules.intent import Match
from numalign.runtime.settings import SettingsError, load
from webhook.patch import Mode
from webhook.settings import WebhookSettings

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
    assert (chosen.unknown_nodes, chosen.snapshot_reload_seconds) == ("cannot-fit", 2.0)


WORDS = [
    ("--injection", list(Mode)),
    ("--policy-match", list(Match)),
    ("--unknown-nodes", ["cannot-fit", "may-fit"]),
]


@pytest.mark.parametrize(("flag", "words"), WORDS, ids=[flag for flag, _ in WORDS])
def test_each_word_can_be_chosen_and_no_other(flag: str, words: list[str]) -> None:
    name = flag.removeprefix("--").replace("-", "_")

    assert [getattr(settings(flag, word), name) for word in words] == words
    assert mistakes(*ENOUGH, flag, "other") == [f"flag {flag}"]


def test_the_environment_says_the_same() -> None:
    assert settings(NUMALIGN_INJECTION="prefer").injection is Mode.PREFER


def test_without_a_snapshot_it_does_not_start() -> None:
    assert mistakes("--insecure-http") == ["--snapshot"]


def test_a_negative_interval_is_a_mistake() -> None:
    assert mistakes(*ENOUGH, "--snapshot-reload-seconds", "-1") == ["flag --snapshot-reload-seconds"]


def test_all_mistakes_are_told_at_once() -> None:
    found = mistakes(
        "--injection", "sometimes", "--snapshot-reload-seconds", "often", "--snapshoot", "x", "--port", "0x"
    )

    assert {
        "flag --injection", "flag --snapshot-reload-seconds", "flag --snapshoot", "flag --port", "--snapshot",
    } <= set(found)  # fmt: skip
