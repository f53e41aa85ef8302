"""Which labels no node has, as users write them."""

import pytest

from numalign.decision.unmatched import lacking
from numalign.kube.decode.scheduling import scheduling
from tests.worlds.notation import table

NODES = {"n1": {"gpu": "h100", "zone": "a"}, "n2": {"pool": "x"}}


def term(**labels: str) -> dict[str, object]:
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {"matchExpressions": expressions}


def affinity(*terms: object) -> dict[str, object]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}
    return {"affinity": {"nodeAffinity": required}}


FIRST = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
GONE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}
NOT = {"matchExpressions": [{"key": "arch", "operator": "Exists"}]}

LACKING = [
    # what the pod requires      its spec                                        what no node has
    ("nothing",                  {},                                             ""),
    ("what a node has",          {"nodeSelector": {"gpu": "h100"}},              ""),
    ("what nodes have, not one", {"nodeSelector": {"gpu": "h100", "pool": "x"}}, ""),
    ("another value",            {"nodeSelector": {"gpu": "a100", "zone": "a"}}, "gpu=a100"),
    ("a label of any value",     affinity(NOT),                                  "arch"),
    ("one of two terms",         affinity(term(gpu="a100"), term(z="b")),        "gpu=a100 or z=b"),
    ("one that a node meets",    affinity(term(gpu="a100"), term(zone="a")),     ""),
    ("a node by its name",       affinity(FIRST),                                ""),
    ("an unknown node",          affinity(GONE),                                 "metadata.name=n3"),
    ("many",                     {"nodeSelector": dict.fromkeys("abcdef", "v")}, "a=v, b=v, c=v, d=v, more"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "text"), table(LACKING))
def test_labels_that_no_node_has_are_named(spec: dict[str, object], text: str) -> None:
    assert lacking(scheduling({"spec": spec}).constraints, NODES) == text


def test_only_as_many_values_are_sorted_as_are_shown() -> None:
    values = [f"v{number}" for number in range(10_000)]
    many = {"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}
    assert lacking(scheduling({"spec": affinity(many)}).constraints, NODES).startswith(
        "k in (v0,v1,v10,v100,"
    )
