"""What the scorer can be told, and what it makes of mistakes."""

from pathlib import Path

import pytest

from numalign.ledger.reservations import KEPT_SECONDS, LAG_SECONDS
from numalign.model.intent import Match
from numalign.runtime.settings import Loaded, SettingsError, load
from numalign.scheduling.ranking import MEASURES
from scorer.settings import ReserveAt, ScorerSettings
from tests.worlds.notation import table

PLAIN = ["--insecure-http"]


def loaded(*argv: str, **environ: str) -> Loaded[ScorerSettings]:
    return load(ScorerSettings, argv=[*PLAIN, *argv], environ=environ)


def settings(*argv: str, **environ: str) -> ScorerSettings:
    return loaded(*argv, **environ).settings


def mistakes(*argv: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        loaded(*argv)
    return {mistake.where: mistake.message for mistake in caught.value.mistakes}


def test_it_needs_no_more_than_a_way_to_serve() -> None:
    chosen = settings()

    assert (chosen.snapshot, chosen.reserve_at, chosen.ranking) == (None, ReserveAt.BIND, None)
    assert (chosen.strategies, chosen.weights) == ("LeastNUMANodes,MostAllocated", "")
    assert (chosen.reservation_seconds, chosen.topology_lag_seconds) == (KEPT_SECONDS, LAG_SECONDS)
    # A scheduler waits for five seconds for an answer.
    assert 0 < chosen.bind_wait_seconds < 5
    assert (chosen.policy_match, chosen.unknown_nodes) == (Match.SATISFIES, "cannot-fit")


WORDS = [
    ("--reserve-at", list(ReserveAt)),
    ("--policy-match", list(Match)),
    ("--unknown-nodes", ["cannot-fit", "may-fit"]),
    ("--strategies", [*MEASURES, "MostAllocated, BalancedAllocation"]),
    ("--weights", ["cpu=1", "nvidia.com/gpu=3,cpu=1", "memory=100"]),
    ("--ranking", [Path("ranking.yaml")]),
    ("--bind-wait-seconds", [0.0, 2.5]),
]


@pytest.mark.parametrize(("flag", "words"), WORDS, ids=[flag for flag, _ in WORDS])
def test_what_can_be_chosen_is_what_is_there_then(flag: str, words: list[object]) -> None:
    name = flag.removeprefix("--").replace("-", "_")

    assert [getattr(settings(flag, str(word)), name) for word in words] == words


WRONG = [
    # what it is                      the flag                  its text         what is said of it
    ("another moment",                "--reserve-at",              "filter",        "bind, prioritize"),
    ("a strategy that nobody knows",  "--strategies",           "LeastNumaNode", "LeastNUMANodes"),
    ("no strategy",                   "--strategies",           "",              "needs a value"),
    ("a weight that is none",         "--weights",              "cpu=heavy",     "whole number from 1"),
    ("no time to keep a reservation",     "--reservation-seconds",      "0",             "above 0"),
    ("a reservation for ever",            "--reservation-seconds",      "inf",           "a number"),
    ("a wait that is none",           "--bind-wait-seconds",    "-1",            "at least 0"),
    ("an endless wait",               "--bind-wait-seconds",    "inf",           "a number"),
    ("a lag that is none",            "--topology-lag-seconds", "nan",           "a number"),
    ("a negative lag",                "--topology-lag-seconds", "-0.1",          "at least 0"),
    ("another match",                 "--policy-match",         "some",          "satisfies, equal"),
    ("a name that nothing can have",  "--namespace",            "../kube-system","lowercase letters"),
]  # fmt: skip


@pytest.mark.parametrize(("flag", "text", "said"), table(WRONG))
def test_a_mistake_is_told_with_its_flag(flag: str, text: str, said: str) -> None:
    found = mistakes(flag, text)

    assert [*found] == [f"flag {flag}"]
    assert said in found[f"flag {flag}"]


def test_the_old_names_of_settings_are_answered_with_the_new() -> None:
    assert mistakes("--promise", "bind", "--promise-seconds=5") == {
        "flag --promise": "was renamed: use --reserve-at",
        "flag --promise-seconds": "was renamed: use --reservation-seconds",
    }


def test_with_a_file_nothing_is_reserved() -> None:
    found = mistakes("--snapshot", "cluster.json", "--reserve-at", "prioritize")

    assert found == {
        "flag --snapshot, flag --reserve-at": (
            "a snapshot does not show which pods are bound: use --reserve-at bind, or a live cluster"
        )
    }


@pytest.mark.parametrize("flag", ["--kubeconfig", "--context"])
def test_a_file_and_an_api_server_exclude_each_other(flag: str) -> None:
    assert [*mistakes("--snapshot", "cluster.json", flag, "x")] == [f"flag --snapshot, flag {flag}"]


@pytest.mark.parametrize("flag", ["--tls-secret", "--label-nodes", "--injection", "--workloads"])
def test_what_only_the_webhook_does_cannot_be_said_here(flag: str) -> None:
    assert f"flag {flag}" in mistakes(flag, "x")


def test_all_mistakes_are_listed_at_once() -> None:
    found = mistakes("--reserve-at", "never", "--weights", "cpu", "--rankings", "x", "--port", "high")

    assert {*found} == {"flag --reserve-at", "flag --weights", "flag --rankings", "flag --port"}


def test_the_environment_says_the_same_and_whence_each_value_came_is_shown() -> None:
    shown = str(loaded("--reserve-at", "prioritize", NUMALIGN_WEIGHTS="cpu=2"))

    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "reserve_at: prioritize # flag --reserve-at" in lines
    assert "weights: cpu=2 # environment NUMALIGN_WEIGHTS" in lines
    assert "strategies: LeastNUMANodes,MostAllocated # default" in lines
