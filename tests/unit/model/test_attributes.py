"""Labels and taints of nodes."""

import pytest

from numalign.model.attributes import NO_LABELS, UNSCHEDULABLE, Attributes, Labels, Taint
from tests.worlds.notation import table


def test_labels_are_a_mapping_ordered_by_key() -> None:
    labels = Labels({"b": "2", "a": "1"})
    assert [*labels] == [*labels.keys()] == ["a", "b"]
    assert [*labels.items()] == [("a", "1"), ("b", "2")]
    assert (labels["b"], labels.get("c"), len(labels)) == ("2", None, 2)
    assert ("a" in labels, "c" in labels) == (True, False)
    assert repr(labels) == "Labels({'a': '1', 'b': '2'})"


def test_equal_labels_are_one_key() -> None:
    one, same = Labels({"a": "1", "b": "2"}), Labels({"b": "2", "a": "1"})
    other = Labels({"a": "2", "b": "1"})
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert Labels({"a": "1"}) != Labels({"b": "1"})
    assert {one, same, other, NO_LABELS} == {one, other, Labels()}
    assert (one == {"a": "1", "b": "2"}) is False


PASSING = [
    # what it shows                    key                                                 passing
    ("a node that is not ready",       "node.kubernetes.io/not-ready",                     True),
    ("a cordoned one",                 "node.kubernetes.io/unschedulable",                 True),
    ("one that an autoscaler removes", "ToBeDeletedByClusterAutoscaler",                   True),
    ("one that Karpenter removes",     "karpenter.sh/disrupted",                           True),
    ("one that is still made ready",   "startup-taint.cluster-autoscaler.kubernetes.io/x", True),
    ("one that is being repaired",     "medik8s.io/remediation",                           True),
    ("a pool of its own",              "dedicated",                                        False),
    ("devices",                        "nvidia.com/gpu",                                   False),
    ("a startup taint of an agent",    "example.com/agent-not-ready",                      True),
    ("one that waits for DaemonSets",  "nidhogg.uswitch.com/kube-system.kiam",             True),
]  # fmt: skip


@pytest.mark.parametrize(("key", "passing"), table(PASSING))
def test_taints_of_node_conditions_are_temporary(key: str, passing: bool) -> None:  # noqa: FBT001
    assert Taint(key).passing is passing


def test_lasting_taints_are_sorted() -> None:
    taints = (Taint("b"), UNSCHEDULABLE, Taint("a", "x", "NoExecute"), Taint("a", "x"))
    assert Attributes(taints=taints).lasting == (Taint("a", "x", "NoExecute"), Taint("a", "x"), Taint("b"))
