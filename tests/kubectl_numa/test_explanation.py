"""Three answers, the reasons for them, and their JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kubectl_numa import explanation, questions
from kubectl_numa.explanation import Chance, Explanation
from kubectl_numa.questions import Asked, Cluster
from numalign.cache import Fleet
from numalign.decision.doubts import Doubt
from numalign.decision.scoring import Strategy
from numalign.kube.effective_policy import EffectivePolicy
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.intent import NamespaceRules, Policy
from numalign.shapes import KnownShape, shape
from tests.notation import GPU, node, table
from tests.webhook.conftest import Raw, raw, with_spec

SINGLE = "single-numa-node"


def explained(
    cluster: Cluster, container: str, *, strategy: Strategy = Strategy.LEAST_NUMA_NODES
) -> Explanation:
    return explanation.explain(
        asked_of(cluster, raw(container, policy="single-numa-node")), cluster, strategy=strategy
    )


def asked_of(cluster: Cluster, made: Raw) -> Asked:
    return questions.ask(made, cluster, name="pod", namespace="default")


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


@pytest.mark.parametrize(
    ("served", "chances"),
    table(
        [
            ("device plugins serve all", (), ["never", "never"]),
            ("DRA serves where no device plugin does", (GPU,), ["never", "fits"]),
        ]
    ),
)
def test_a_node_is_asked_for_devices_that_its_device_plugins_serve(
    served: tuple[str, ...], chances: list[str]
) -> None:
    one = node("cpu=8 mem=8Gi gpu=1", policy="single-numa-node", totals="cpu=8 mem=8Gi gpu=1")
    bare = node("cpu=8 mem=8Gi", policy="single-numa-node", totals="cpu=8 mem=8Gi")
    fleet = Fleet([replace(one, name="a"), replace(bare, name="b")])

    found = explained(Cluster(fleet, served=frozenset(served)), "cpu=4 mem=1Gi gpu=2")

    assert [answer.chance for answer in found.answers] == chances


def test_a_shape_is_asked_for_devices_that_its_device_plugins_serve() -> None:
    bare = node("cpu=8 mem=8Gi", policy="single-numa-node", totals="cpu=8 mem=8Gi")
    known = (KnownShape(shape.of(bare)),)
    cluster = Cluster(Fleet([], known), shapes=known)
    [never], [later] = (
        explained(replace(cluster, served=served), "cpu=4 mem=1Gi gpu=2").absent
        for served in (frozenset[str](), frozenset({GPU}))
    )

    assert (never.chance, later.chance) == (Chance.NEVER, Chance.LATER)


def test_what_would_fit_on_the_empty_node_fits_later() -> None:
    busy = node("cpu=8/8/2 mem=8Gi", policy="single-numa-node")
    found = explained(Cluster(Fleet([busy])), "cpu=4 mem=1Gi")
    answer = found.answers[0]
    assert (answer.chance, answer.score, answer.placement) == (Chance.LATER, None, None)
    assert answer.reason == (
        'container "c0": the node has at most 2 cpu free in one zone (kubelet policy "single-numa-node")'
    )
    assert found.asked.decision.refusal is None


def test_a_node_of_more_zones_than_anybody_answers_for_says_neither_yes_nor_no() -> None:
    vast = node(*["cpu=8 mem=8Gi"] * 18, policy="single-numa-node")
    found = explained(Cluster(Fleet([vast])), "cpu=4 mem=1Gi")
    [answer] = found.answers

    assert (answer.chance, answer.score, answer.placement) == (Chance.UNANSWERED, None, None)
    assert answer.reason == "the pod: the node has too many zones for an answer in time"
    assert found.asked.decision.refusal is None


def test_a_node_that_is_too_small_as_a_whole_says_so(cluster: Cluster) -> None:
    assert (
        explained(cluster, "cpu=20 mem=4Gi").answers[1].reason
        == "the pod: the node has at most 16 cpu in total"
    )


def test_where_no_node_ever_could_the_refusal_is_the_webhooks(cluster: Cluster) -> None:
    found = explained(cluster, "cpu=33 mem=4Gi")
    assert found.asked.decision.refusal == cluster.fleet.why_not(found.asked.question)


def test_the_advice_does_not_go_below_what_the_namespace_enforces() -> None:
    wide = Cluster(
        Fleet([node("cpu=4 mem=8Gi", "cpu=4 mem=8Gi", policy="best-effort")]),
        policies=EffectivePolicy(rules={"default": NamespaceRules(enforce=Policy.SINGLE_NUMA_NODE)}),
    )
    found = explained(wide, "cpu=6 mem=1Gi")
    assert found.asked.decision.refusal is not None
    assert "restricted" not in found.asked.decision.refusal


def test_without_nodes_nothing_is_refused() -> None:
    assert explained(Cluster(Fleet([])), "cpu=1 mem=1Gi").asked.decision.refusal is None


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
        "exempt": None,
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
                "unmet": None,
                "lacks": {},
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
                "unmet": None,
                "lacks": {},
                "placement": None,
                "score": None,
                "known": "counts",
                "doubts": [Doubt.OPTIONS, Doubt.NO_VERSION],
            },
        ],
        "shapes": [],
        "unknown": ["hidden"],
        "refusal": None,
        "never": None,
        "warnings": [],
    }


# Where a pod may go, and nodes that are not what they were.

GPU_NODE = node("cpu=8 mem=8Gi gpu=4", policy=SINGLE)
WELL = replace(GPU_NODE, name="")
ILL = replace(node("cpu=8 mem=8Gi gpu=0", policy=SINGLE), health=WELL)
SELECTS_B = {"nodeSelector": {"pool": "b"}}
TOLERATES = {"tolerations": [{"operator": "Exists"}]}


TAINT = "had untolerated taints"
AFFINITY = "didn't match the pod's node affinity/selector"
TAINTED, GOING = (Taint("a"),), (Taint("karpenter.sh/disrupted"),)
ON = ", but that may pass"

PLACES = [
    # the node                 what is told of it              the pod    the verdict and why
    ("of other labels",        {"labels": Labels({"pool": "a"})}, SELECTS_B, "never", AFFINITY),
    ("that is tainted",        {"taints": TAINTED},            {},        "never", TAINT),
    ("tainted, but tolerated", {"taints": TAINTED},            TOLERATES, "fits",  None),
    ("that is cordoned",       {"cordoned": True},             {},        "later", f"was unschedulable{ON}"),
    ("that is not ready",      {"ready": False},               {},        "later", f"was not ready{ON}"),
    ("to be removed",          {"taints": GOING},              {},        "later", f"{TAINT}{ON}"),
]  # fmt: skip


@pytest.mark.parametrize(("there", "spec", "verdict", "reason"), table(PLACES))
def test_a_node(there: dict[str, Any], spec: dict[str, Any], verdict: str, reason: str | None) -> None:
    cluster = Cluster(Fleet([replace(GPU_NODE, attributes=Attributes(**there))]))
    made = with_spec(raw("cpu=4 mem=1Gi gpu=2", policy=SINGLE), **spec)
    [answer] = explanation.explain(asked_of(cluster, made), cluster).answers

    assert (answer.chance, answer.reason) == (verdict, f"the node {reason}" if reason else None)
    assert (answer.score is None, answer.placement is None) == (verdict != "fits",) * 2


def test_a_node_that_is_ill_could_take_the_pod_later() -> None:
    found = explained(Cluster(Fleet([ILL])), "cpu=4 mem=1Gi gpu=2")
    [answer] = found.answers

    assert answer.chance is Chance.LATER
    assert answer.reason is not None
    assert answer.reason.endswith("; it lacks 4 nvidia.com/gpu that it had; in health it could")
    assert explanation.to_json(found)["nodes"][0]["lacks"] == {"nvidia.com/gpu": "4"}
    assert found.asked.decision.refusal is None


def test_a_node_that_is_too_small_in_health_too_never_takes_it() -> None:
    [answer] = explained(Cluster(Fleet([ILL])), "cpu=4 mem=1Gi gpu=5").answers
    assert answer.chance is Chance.NEVER


SEEN = 1_790_000_000.0
SHAPE = shape.of(GPU_NODE)


@pytest.mark.parametrize(
    ("container", "spec", "verdict", "reason"),
    table(
        [
            ("could take the pod", "cpu=4 mem=1Gi gpu=2", {}, "later", None),
            ("is too small", "cpu=4 mem=1Gi gpu=5", {}, "never", "at most 4 nvidia.com/gpu"),
            ("is of other labels", "cpu=4 mem=1Gi gpu=2", SELECTS_B, "never", f"its nodes {AFFINITY}"),
        ]
    ),
)
def test_a_shape_without_nodes_that(
    container: str, spec: dict[str, Any], verdict: str, reason: str | None
) -> None:
    known = (KnownShape(SHAPE, seen=SEEN), KnownShape(shape.of(node("cpu=1 mem=1Gi", policy=SINGLE)), 1))
    small = node("cpu=1 mem=1Gi", policy=SINGLE)
    cluster = Cluster(Fleet([small], known), shapes=known, now=SEEN + 7200)
    made = with_spec(raw(container, policy=SINGLE), **spec)
    found = explanation.to_json(explanation.explain(asked_of(cluster, made), cluster))

    [told] = found["shapes"]
    assert (told["name"], told["verdict"], told["known"]) == (SHAPE.name, verdict, "remembered")
    assert told["lastSeen"] == "2026-09-21T14:13:20+00:00"
    assert (reason or "") in (told["reason"] or "")
    hope = "no node of a shape that could take it is here; last seen 2 h ago"
    assert (found["warnings"] == [hope]) == (verdict == "later")
