"""What the scorer can be told, and what it makes of mistakes."""

import pytest

from numalign.runtime.settings import SettingsError, load
from scorer.settings import ScorerSettings
from tests.worlds.notation import table


def mistakes(*argv: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load(ScorerSettings, argv=["--insecure-http", *argv], environ={})
    return {mistake.where: mistake.message for mistake in caught.value.mistakes}


@pytest.mark.parametrize(("flag", "text", "part"), table([
    # what it is                      the flag                  its text         what is said of it
    ("a strategy that nobody knows",  "--strategies",           "LeastNumaNode", "LeastNUMANodes"),
    ("a weight that is none",         "--weights",              "cpu=heavy",     "whole number from 1"),
    ("no time to keep a reservation",     "--reservation-seconds",      "0",             "above 0"),
    ("a negative lag",                "--topology-lag-seconds", "-0.1",          "at least 0"),
    ("a name that nothing can have",  "--namespace",            "../kube-system","lowercase letters"),
]))  # fmt: skip
def test_invalid_value_is_a_mistake_of_its_flag(flag: str, text: str, part: str) -> None:
    found = mistakes(flag, text)
    assert [*found] == [f"flag {flag}"]
    assert part in found[f"flag {flag}"]


def test_renamed_flag_names_its_successor() -> None:
    assert mistakes("--promise", "bind", "--promise-seconds=5") == {
        "flag --promise": "was renamed: use --reserve-at",
        "flag --promise-seconds": "was renamed: use --reservation-seconds",
    }


def test_with_a_file_nothing_is_reserved() -> None:
    why = "a snapshot does not show which pods are bound: use --reserve-at bind, or a live cluster"
    found = mistakes("--snapshot", "cluster.json", "--reserve-at", "prioritize")
    assert found == {"flag --snapshot, flag --reserve-at": why}


@pytest.mark.parametrize("flag", ["--kubeconfig", "--context"])
def test_snapshot_excludes_an_api_server(flag: str) -> None:
    assert [*mistakes("--snapshot", "cluster.json", flag, "x")] == [f"flag --snapshot, flag {flag}"]
