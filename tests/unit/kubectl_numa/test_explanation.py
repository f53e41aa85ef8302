"""The answers of nodes and shapes to a pod, with reasons, and their JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kubectl_numa import explanation
from kubectl_numa.explanation import Explanation
from kubectl_numa.questions import ClusterView
from numalign.cache.admission import waits_text
from numalign.decision.doubts import Doubt
from numalign.kube.decode.scheduling import REQUIRED
from numalign.model.attributes import Attributes, Labels
from numalign.model.intent import CLASS_LABEL, Policy
from numalign.model.node import Node, node_class
from numalign.shapes import KnownShape, shape
from tests.unit.kubectl_numa.objects import SINGLE, state, view
from tests.worlds.notation import GPU, node, table
from tests.worlds.webhook import raw, with_spec


def explained(cluster: ClusterView, container: str, **spec: object) -> Explanation:
    pod = with_spec(raw(container, policy=SINGLE), **spec)
    decided = cluster.decide(pod, name="pod", namespace="default")
    return explanation.explain(decided, cluster, state(cluster))


GPU_NODE = node("cpu=8 mem=8Gi gpu=4", policy=SINGLE)
ILL = replace(node("cpu=8 mem=8Gi gpu=0", policy=SINGLE), health=replace(GPU_NODE, name=""))
SELECTS_B = {"nodeSelector": {"pool": "b"}}
AFFINITY = "didn't match the pod's node affinity/selector"
HEALED = "it lacks 4 nvidia.com/gpu that it had when healthy; it could when healthy"
VAST = node(*["cpu=8 mem=8Gi"] * 18, policy=SINGLE)
ON = " (this may be temporary)"


def having(**attributes: Any) -> Node:  # noqa: ANN401  any value
    return replace(GPU_NODE, attributes=Attributes(**attributes))


NODES = [
    # the node, the pod's request and spec, the answer and its reason
    ("empty", GPU_NODE, "gpu=2", {}, "fits", None),
    ("other labels", having(labels=Labels({"pool": "a"})), "gpu=2", SELECTS_B, "never",
        f"the node {AFFINITY}: it has no pool=b"),
    ("cordoned", having(cordoned=True), "gpu=2", {}, "later", f"the node was unschedulable{ON}"),
    ("ill", ILL, "gpu=2", {}, "later", f"the pod: the node has no nvidia.com/gpu now; {HEALED}"),
    ("too many zones", VAST, "mem=1Gi", {}, "not answered",
        "the pod: the node has too many NUMA zones to evaluate in time"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "container", "spec", "chance", "reason"), table(NODES))
def test_answer_of_a_node(
    made: Node, container: str, spec: dict[str, Any], chance: str, reason: str | None
) -> None:
    result = explained(view(made), f"cpu=4 {container}", **spec)
    [answer] = result.answers
    [document] = result.to_json()["nodes"]

    assert (answer.chance, answer.reason) == (chance, reason)
    assert (answer.score is None, answer.placement is None) == (chance != "fits",) * 2
    assert chance == "never" or result.pod.decision.refusal is None
    assert document["lacks"] == ({GPU: "4"} if made is ILL else {})


def classed(name: str, made: Node) -> Node:
    """The node with its label, as the controller writes it."""
    return replace(made, name=name, attributes=Attributes(labels=Labels({CLASS_LABEL: node_class(made)})))


def class_term(operator: str, *classes: str) -> dict[str, Any]:
    """Required node affinity for classes of nodes."""
    term = {"matchExpressions": [{"key": CLASS_LABEL, "operator": operator, "values": [*classes]}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


NO_GPU = node("cpu=8 mem=8Gi", policy=SINGLE, totals="cpu=8 mem=8Gi")
GPUS = (classed("gpu", GPU_NODE), classed("bare", NO_GPU))


@pytest.mark.parametrize("operator", ["NotIn", "In"])
@pytest.mark.parametrize("container", ["cpu=4 mem=1Gi gpu=2", "cpu=4 mem=1Gi gpu=9"])
def test_affinity_of_the_webhook_changes_no_answer(operator: str, container: str) -> None:
    cluster = view(*GPUS)
    owner = explained(cluster, container)
    survey = cluster.ever(owner.pod)
    classes = {"NotIn": survey.infeasible, "In": survey.feasible}[operator]
    pod = explained(cluster, container, **class_term(operator, *classes))

    assert pod.to_json() == owner.to_json()
    [bare] = [answer for answer in pod.answers if answer.node.name == "bare"]
    assert bare.reason == "the pod: the node has no nvidia.com/gpu"


def test_a_feasible_class_that_is_excluded_is_never() -> None:
    """It was another class when the pod was created, or the owner excludes it."""
    pod = explained(view(*GPUS), "cpu=4 mem=1Gi gpu=2", **class_term("NotIn", node_class(GPU_NODE)))

    assert {answer.node.name: (answer.chance, answer.reason) for answer in pod.answers} == {
        "gpu": ("never", f"the node {AFFINITY}"),
        "bare": ("never", "the pod: the node has no nvidia.com/gpu"),
    }


def test_nodes_with_equal_answers_are_one_group(cluster: ClusterView) -> None:
    alike = [replace(node("cpu=8 mem=8Gi", policy="restricted"), name=name) for name in "abc"]
    excluded = [replace(node(zones, policy="restricted"), name=zones) for zones in ("cpu=8", "cpu=16")]
    several = explained(view(*excluded), "cpu=4 mem=1Gi", **SELECTS_B)

    def grouped(pod: Explanation) -> list[tuple[str, ...]]:
        return [(group.answer.chance, *group.names) for group in explanation.groups(pod.answers)]

    assert grouped(explained(view(*alike), "cpu=4 mem=1Gi")) == [("fits", "a", "b", "c")]
    assert grouped(explained(cluster, "cpu=32 mem=4Gi")) == [("fits", "big"), ("never", "small")]
    assert grouped(several) == [("never", "cpu=16", "cpu=8")]
    assert several.warnings[0] == "no node has pool=b"


def test_a_pod_that_fits_has_no_warning_of_waiting(cluster: ClusterView) -> None:
    fits = explained(cluster, "cpu=8 mem=4Gi")
    warned = replace(fits.pod.decision, warnings=(waits_text(Policy.SINGLE_NUMA_NODE), "another"))

    assert replace(fits, pod=replace(fits.pod, decision=warned)).warnings == ("another",)


def test_json_has_all_facts(cluster: ClusterView) -> None:
    result = explained(cluster, "cpu=32 mem=4Gi")
    big, small = (answer.node_class for answer in result.answers)
    amount = {"cpu": "32", "memory": "4Gi"}
    step = {"name": "c0", "role": "container", "asks": amount, "notPinned": []}
    same: dict[str, Any] = {"unmet": None, "lacks": {}, "known": "counts", "source": "exporter", "age": None}
    fits: dict[str, Any] = {
        "name": "big",
        "class": big,
        "verdict": "fits",
        "reason": None,
        "permanent": False,
        "score": 94,
    }
    fits |= {"placement": [{"zones": ["node-1"], "amount": amount}]}
    fits |= {"doubts": [Doubt.OPTIONS, Doubt.NO_VERSION, Doubt.INIT_CPUS]}
    never: dict[str, Any] = {
        "name": "small",
        "class": small,
        "verdict": "never",
        "permanent": True,
        "score": None,
    }
    never |= {"reason": "the pod: the node has at most 16 cpu in total", "placement": None}
    never |= {"doubts": [Doubt.OPTIONS, Doubt.NO_VERSION]}
    absent = ("rejected", "exempt", "scheduler", "gate", "refusal", "never", "room", "quota")
    assert json.loads(json.dumps(result.to_json())) == {
        **dict.fromkeys(absent),
        "pod": "pod",
        "namespace": "default",
        "intent": {"policy": SINGLE, "resources": [], "scope": None, "exclusive": None, "from": "pod"},
        "demand": {"qos": "Guaranteed", "containers": [step], "total": amount},
        "nodes": [{**same, **fits}, {**same, **never}],
        "shapes": [],
        "unknown": ["hidden"],
        "warnings": [],
    }


SEEN = 1_790_000_000.0
SHAPE = shape.of(GPU_NODE)


@pytest.mark.parametrize(
    ("container", "spec", "verdict", "reason"),
    table(
        [
            ("large enough", "cpu=4 mem=1Gi gpu=2", {}, "later", None),
            ("too small", "cpu=4 mem=1Gi gpu=5", {}, "never", "at most 4 nvidia.com/gpu"),
            ("other labels", "cpu=4 mem=1Gi gpu=2", SELECTS_B, "never", f"its nodes {AFFINITY}"),
        ]
    ),
)
def test_answer_of_a_shape(container: str, spec: dict[str, Any], verdict: str, reason: str | None) -> None:
    small = node("cpu=1 mem=1Gi", policy=SINGLE)
    shapes = (KnownShape(SHAPE, seen=SEEN), KnownShape(shape.of(small), 1))
    result = explained(view(small, shapes=shapes, now=SEEN + 7200), container, **spec).to_json()
    [entry] = result["shapes"]
    hope = "no node that could align the pod exists now; last seen 2 h ago"

    assert (entry["name"], entry["verdict"], entry["known"]) == (SHAPE.name, verdict, "remembered")
    assert entry["lastSeen"] == "2026-09-21T14:13:20+00:00"
    assert (reason or "") in (entry["reason"] or "")
    assert (result["warnings"] == [hope]) == (verdict == "later")
