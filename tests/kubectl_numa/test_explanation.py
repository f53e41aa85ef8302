"""Three answers, the reasons for them, and their JSON."""

import json

import pytest

from kubectl_numa import explanation, questions
from kubectl_numa.explanation import Chance, Explanation
from kubectl_numa.questions import Cluster
from numalign.fleet import Fleet
from numalign.rules.doubt import Doubt
from numalign.rules.intent import NamespaceRules, Policy
from numalign.rules.scoring import Strategy
from tests.notation import node, pod, table

SINGLE = {"numalign.io/policy": "single-numa-node"}


def explained(
    cluster: Cluster, container: str, *, strategy: Strategy = Strategy.LEAST_NUMA_NODES
) -> Explanation:
    asked = questions.ask(pod(container, annotations=SINGLE), cluster.namespaces)
    return explanation.explain(asked, cluster, strategy=strategy)


@pytest.mark.parametrize(
    ("container", "chances"),
    table(
        [
            ("room in a zone of each", "cpu=8 mem=4Gi", ["fits", "fits"]),
            ("room in one zone of the big one", "cpu=32 mem=4Gi", ["fits", "never"]),
            ("no room now", "cpu=32 mem=65Gi", ["never", "never"]),
        ]
    ),
)
def test_each_node_says_whether_it_fits(cluster: Cluster, container: str, chances: list[str]) -> None:
    assert [answer.chance for answer in explained(cluster, container).answers] == chances


def test_what_would_fit_on_the_empty_node_fits_later() -> None:
    busy = node("cpu=8/8/2 mem=8Gi", policy="single-numa-node")
    found = explained(Cluster(Fleet([busy])), "cpu=4 mem=1Gi")
    answer = found.answers[0]
    assert (answer.chance, answer.score, answer.placement) == (Chance.LATER, None, None)
    assert answer.reason == (
        'container "c0": the node has at most 2 cpu free in one zone (kubelet policy "single-numa-node")'
    )
    assert found.refusal is None


def test_a_node_of_more_zones_than_anybody_answers_for_says_neither_yes_nor_no() -> None:
    vast = node(*["cpu=8 mem=8Gi"] * 18, policy="single-numa-node")
    found = explained(Cluster(Fleet([vast])), "cpu=4 mem=1Gi")
    [answer] = found.answers

    assert (answer.chance, answer.score, answer.placement) == (Chance.UNANSWERED, None, None)
    assert answer.reason == "the pod: the node has too many zones for an answer in time"
    assert found.refusal is None


def test_a_node_that_is_too_small_as_a_whole_says_so(cluster: Cluster) -> None:
    assert (
        explained(cluster, "cpu=20 mem=4Gi").answers[1].reason
        == "the pod: the node has at most 16 cpu in total"
    )


def test_where_no_node_ever_could_the_refusal_is_the_webhooks(cluster: Cluster) -> None:
    found = explained(cluster, "cpu=33 mem=4Gi")
    assert found.refusal == cluster.fleet.why_not(found.asked.question)


def test_the_advice_does_not_go_below_what_the_namespace_enforces() -> None:
    wide = Cluster(
        Fleet([node("cpu=4 mem=8Gi", "cpu=4 mem=8Gi", policy="best-effort")]),
        namespaces={"default": NamespaceRules(enforce=Policy.SINGLE_NUMA_NODE)},
    )
    found = explained(wide, "cpu=6 mem=1Gi")
    assert found.refusal is not None
    assert "restricted" not in found.refusal


def test_without_nodes_nothing_is_refused() -> None:
    assert explained(Cluster(Fleet([])), "cpu=1 mem=1Gi").refusal is None


def test_nodes_that_say_the_same_are_one_group() -> None:
    alike = [node("cpu=8 mem=8Gi", policy="restricted") for _ in range(3)]
    groups = explanation.groups(explained(Cluster(Fleet(alike)), "cpu=4 mem=1Gi").answers)
    assert [len(group.names) for group in groups] == [3]


def test_the_best_group_comes_first(cluster: Cluster) -> None:
    groups = explanation.groups(explained(cluster, "cpu=32 mem=4Gi").answers)
    assert [(group.answer.chance, group.names) for group in groups] == [
        ("fits", ("big",)),
        ("never", ("small",)),
    ]


@pytest.mark.parametrize("strategy", Strategy)
def test_every_strategy_gives_a_score(cluster: Cluster, strategy: Strategy) -> None:
    for answer in explained(cluster, "cpu=8 mem=4Gi", strategy=strategy).answers:
        assert answer.score is not None
        assert 0 <= answer.score <= 100


def test_the_json_holds_the_whole_answer(cluster: Cluster) -> None:
    found = json.loads(json.dumps(explanation.to_json(explained(cluster, "cpu=32 mem=4Gi"))))
    big = next(answer.node_class for answer in explained(cluster, "cpu=1 mem=1Gi").answers)
    assert found == {
        "pod": "pod",
        "namespace": "default",
        "intent": {"policy": "single-numa-node", "resources": [], "scope": None, "from": "pod"},
        "demand": {
            "qos": "Guaranteed",
            "containers": [
                {
                    "name": "c0",
                    "role": "container",
                    "asks": {"cpu": "32", "memory": "4Gi"},
                    "notPinned": [],
                }
            ],
            "total": {"cpu": "32", "memory": "4Gi"},
        },
        "nodes": [
            {
                "name": "big",
                "class": big,
                "verdict": "fits",
                "reason": None,
                "permanent": False,
                "placement": [{"zones": ["node-1"], "amount": {"cpu": "32", "memory": "4Gi"}}],
                "score": 94,
                "known": "counts",
                "doubts": [Doubt.OPTIONS, Doubt.NO_VERSION, Doubt.INIT_CPUS],
            },
            {
                "name": "small",
                "class": found["nodes"][1]["class"],
                "verdict": "never",
                "reason": "the pod: the node has at most 16 cpu in total",
                "permanent": True,
                "placement": None,
                "score": None,
                "known": "counts",
                "doubts": [Doubt.OPTIONS, Doubt.NO_VERSION],
            },
        ],
        "unknown": ["hidden"],
        "refusal": None,
    }
