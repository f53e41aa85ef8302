"""Namespaces: the way to their labels, and what is wrong on it."""

from numalign.kube.decode.namespaces import NamespaceFacts, facts
from numalign.model.intent import UNRULED, NamespaceRules, Policy


def test_labels_are_rules() -> None:
    labels = {"numalign.io/enforce": "restricted", "kubernetes.io/metadata.name": "prod"}
    read = facts({"metadata": {"name": "prod", "labels": labels}})
    assert read == (NamespaceFacts(NamespaceRules(enforce=Policy.RESTRICTED), labels), ())


def test_a_namespace_without_labels_has_no_rules() -> None:
    assert facts({"metadata": {"name": "plain", "labels": None}}) == (NamespaceFacts(UNRULED, {}), ())


def test_a_wrong_label_leaves_the_other_rules() -> None:
    labels = {"numalign.io/enforce": "restricted", "numalign.io/warn": "strictt"}
    read, mistakes = facts({"metadata": {"name": "prod", "labels": labels}})
    assert read.rules == NamespaceRules(enforce=Policy.RESTRICTED)
    assert [mistake.where for mistake in mistakes] == ["metadata.labels[numalign.io/warn]"]
