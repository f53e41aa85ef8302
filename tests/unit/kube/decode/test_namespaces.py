"""Namespaces: the way to their labels, and what is wrong on it."""

import re

import pytest

from numalign.kube.decode.namespaces import NamespaceFacts, facts
from numalign.model.intent import UNRULED, NamespaceRules, Policy


def test_labels_are_rules() -> None:
    labels = {"numalign.io/enforce": "restricted", "kubernetes.io/metadata.name": "prod"}

    read = facts({"metadata": {"name": "prod", "labels": labels}})

    assert read == (NamespaceFacts(NamespaceRules(enforce=Policy.RESTRICTED), labels), ())


def test_a_namespace_without_labels_asks_nothing() -> None:
    assert facts({"metadata": {"name": "plain", "labels": None}}) == (NamespaceFacts(UNRULED, {}), ())


def test_labels_that_say_nothing_to_us_are_kept() -> None:
    read, mistakes = facts({"metadata": {"name": "prod", "labels": {"tier": "gold"}}})

    assert (read, mistakes) == (NamespaceFacts(UNRULED, {"tier": "gold"}), ())


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, r"^metadata\.name: is missing$"),
        ({"name": "a", "labels": []}, r"^metadata\.labels: must be an object, not a list$"),
        (
            {"name": "a", "labels": {"numalign.io/warn": 1}},
            r"^metadata\.labels\[numalign\.io/warn\]: must be a string, not a number$",
        ),
        ({"name": "a", "labels": {"numalign.io/wran": "none"}}, "unknown key"),
        ({"name": "a", "labels": {"numalign.io/warn": "strict"}}, "not a known value"),
    ],
    ids=["no metadata", "labels a list", "a number", "an unknown key", "an unknown word"],
)
def test_what_is_wrong_is_told(metadata: object, message: str) -> None:
    read, [mistake] = facts({"metadata": metadata})

    assert re.search(message, str(mistake))
    assert read.rules == UNRULED


def test_what_can_be_read_holds_whatever_stands_beside_it() -> None:
    labels = {"numalign.io/enforce": "restricted", "numalign.io/warn": "strictt"}

    read, mistakes = facts({"metadata": {"name": "prod", "labels": labels}})

    assert read.rules == NamespaceRules(enforce=Policy.RESTRICTED)
    assert [mistake.where for mistake in mistakes] == ["metadata.labels[numalign.io/warn]"]
