"""Three answers, the reasons for them, and their JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest

from kubectl_numa import explanation
from kubectl_numa.explanation import Explanation
from kubectl_numa.questions import ClusterView
from numalign.cache.admission import waits_text
from numalign.decision.doubts import Doubt
from numalign.decision.scoring import Strategy
from numalign.kube.decode.scheduling import REQUIRED
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.intent import CLASS_LABEL, NamespaceRules, Policy
from numalign.model.node import Node, node_class
from numalign.shapes import KnownShape, shape
from tests.unit.kubectl_numa.objects import SINGLE, state, view
from tests.worlds.notation import GPU, node, table
from tests.worlds.webhook import raw, with_spec


def explained(
    cluster: ClusterView,
    container: str,
    *,
    spec: dict[str, Any] | None = None,
    strategy: Strategy = Strategy.LEAST_NUMA_NODES,
) -> Explanation:
    pod = with_spec(raw(container, policy=SINGLE), **(spec or {}))
    decided = cluster.decide(pod, name="pod", namespace="default")
    return explanation.explain(decided, cluster, state(cluster), strategy=strategy)


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
def test_each_node_says_whether_it_fits(cluster: ClusterView, container: str, chances: list[str]) -> None:
    assert [answer.chance for answer in explained(cluster, container).answers] == chances


@pytest.mark.parametrize(
    ("served", "chances", "of_shape"),
    table(
        [
            ("device plugins serve all", frozenset[str](), ["never", "never"], "never"),
            ("DRA serves where no device plugin does", frozenset({GPU}), ["never", "fits"], "later"),
        ]
    ),
)
def test_nodes_and_shapes_are_asked_for_devices_that_their_device_plugins_serve(
    served: frozenset[str], chances: list[str], of_shape: str
) -> None:
    plugin = node("cpu=8 mem=8Gi gpu=1", policy=SINGLE, totals="cpu=8 mem=8Gi gpu=1")
    bare = node("cpu=8 mem=8Gi", policy=SINGLE, totals="cpu=8 mem=8Gi")
    both = (replace(plugin, name="a"), replace(bare, name="b"))

    answers = explained(view(*both, served=served), "cpu=4 mem=1Gi gpu=2").answers
    assert [answer.chance for answer in answers] == chances
    gone = view(shapes=(KnownShape(shape.of(bare), seen=1.0),), served=served)
    [absent] = explained(gone, "cpu=4 mem=1Gi gpu=2").absent
    assert absent.chance == of_shape


GPU_NODE = node("cpu=8 mem=8Gi gpu=4", policy=SINGLE)
ILL = replace(node("cpu=8 mem=8Gi gpu=0", policy=SINGLE), health=replace(GPU_NODE, name=""))
SELECTS_B = {"nodeSelector": {"pool": "b"}}
TOLERATES = {"tolerations": [{"operator": "Exists"}]}
TAINT, AFFINITY = "had untolerated taints", "didn't match the pod's node affinity/selector"
SHORT = (
    'container "c0": the node has at most 2 cpu free in one NUMA zone (Topology Manager policy'
    ' "single-numa-node")'
)
HEALED = "it lacks 4 nvidia.com/gpu that it had when healthy; it could when healthy"
BUSY = node("cpu=8/8/2 mem=8Gi", policy=SINGLE)
VAST = node(*["cpu=8 mem=8Gi"] * 18, policy=SINGLE)
ON = " (this may be temporary)"


def having(**attributes: Any) -> Node:  # noqa: ANN401 any attribute
    return replace(GPU_NODE, attributes=Attributes(**attributes))


POOL_A, TAINTED = having(labels=Labels({"pool": "a"})), having(taints=(Taint("a"),))
GOING = having(taints=(Taint("karpenter.sh/disrupted"),))

NODES = [
    # the node                 it                       the pod asks for and says  the answer and why
    ("of other labels", POOL_A, "gpu=2", SELECTS_B, "never", f"the node {AFFINITY}: it has no pool=b"),
    ("that is tainted",        TAINTED,                 "gpu=2",   {},        "never", f"the node {TAINT}"),
    ("tainted, but tolerated", TAINTED,                 "gpu=2",   TOLERATES, "fits",  None),
    ("that is cordoned", having(cordoned=True), "gpu=2", {}, "later", f"the node was unschedulable{ON}"),
    ("that is not ready",      having(ready=False), "gpu=2", {}, "later", f"the node was not ready{ON}"),
    ("to be removed",          GOING,                   "gpu=2",   {}, "later", f"the node {TAINT}{ON}"),
    ("that is ill", ILL, "gpu=2", {}, "later", f"the pod: the node has no nvidia.com/gpu now; {HEALED}"),
    ("too small in health", ILL, "gpu=5", {}, "never",
     "the pod: the node has at most 4 nvidia.com/gpu in total"),
    ("that is in use",         BUSY,   "mem=1Gi", {}, "later", SHORT),
    ("of too many zones",      VAST,   "mem=1Gi", {}, "not answered",
                               "the pod: the node has too many NUMA zones to evaluate in time"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "container", "spec", "chance", "reason"), table(NODES))
def test_a_node(asked: Node, container: str, spec: dict[str, Any], chance: str, reason: str | None) -> None:
    found = explained(view(asked), f"cpu=4 {container}", spec=spec)
    [answer] = found.answers

    assert (answer.chance, answer.reason) == (chance, reason)
    assert (answer.score is None, answer.placement is None) == (chance != "fits",) * 2
    assert chance == "never" or found.pod.decision.refusal is None


def classed(made: Node) -> Node:
    """The node with its label, as the controller writes it."""
    return replace(made, attributes=Attributes(labels=Labels({CLASS_LABEL: node_class(made)})))


def class_term(operator: str, *classes: str) -> dict[str, Any]:
    """Required node affinity for classes of nodes."""
    term = {"matchExpressions": [{"key": CLASS_LABEL, "operator": operator, "values": [*classes]}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


NO_GPU = node("cpu=8 mem=8Gi", policy=SINGLE, totals="cpu=8 mem=8Gi")
GPUS = (replace(classed(GPU_NODE), name="gpu"), replace(classed(NO_GPU), name="bare"))


@pytest.mark.parametrize("operator", ["NotIn", "In"])
@pytest.mark.parametrize("container", ["cpu=4 mem=1Gi gpu=2", "cpu=4 mem=1Gi gpu=9"])
def test_a_pod_that_the_webhook_keeps_off_a_class_reads_what_its_owner_reads(
    operator: str, container: str
) -> None:
    cluster = view(*GPUS)
    owner = explained(cluster, container)
    survey = cluster.ever(owner.pod)
    classes = {"NotIn": survey.infeasible, "In": survey.feasible}[operator]
    pod = explained(cluster, container, spec=class_term(operator, *classes))

    assert pod.to_json() == owner.to_json()
    [bare] = [answer for answer in pod.answers if answer.node.name == "bare"]
    assert bare.reason == "the pod: the node has no nvidia.com/gpu"


def test_a_class_that_could_take_the_pod_and_is_excluded_all_the_same_is_no_place_for_it() -> None:
    """It was another class when the pod was created, or the owner excludes it."""
    pod = explained(view(*GPUS), "cpu=4 mem=1Gi gpu=2", spec=class_term("NotIn", node_class(GPU_NODE)))

    reasons = {answer.node.name: (answer.chance, answer.reason) for answer in pod.answers}
    assert reasons == {
        "gpu": ("never", f"the node {AFFINITY}"),
        "bare": ("never", "the pod: the node has no nvidia.com/gpu"),
    }


def test_a_node_that_is_ill_tells_programs_what_it_lacks() -> None:
    [entry] = explained(view(ILL), "cpu=4 mem=1Gi gpu=2").to_json()["nodes"]
    assert entry["lacks"] == {GPU: "4"}


def test_where_no_node_ever_could_the_refusal_is_the_webhooks(cluster: ClusterView) -> None:
    found = explained(cluster, "cpu=33 mem=4Gi")
    assert found.pod.decision.refusal == cluster.why_not(found.pod)


def test_the_advice_does_not_go_below_what_the_namespace_enforces() -> None:
    enforcing = NamespaceRules(enforce=Policy.SINGLE_NUMA_NODE)
    wide = view(node("cpu=4 mem=8Gi", "cpu=4 mem=8Gi", policy="best-effort"), rules=enforcing)
    refusal = explained(wide, "cpu=6 mem=1Gi").pod.decision.refusal
    assert refusal is not None
    assert "restricted" not in refusal


def test_without_nodes_nothing_is_refused() -> None:
    assert explained(view(), "cpu=1 mem=1Gi").pod.decision.refusal is None


def test_nodes_that_say_the_same_are_one_group_and_the_best_comes_first(cluster: ClusterView) -> None:
    alike = [replace(node("cpu=8 mem=8Gi", policy="restricted"), name=name) for name in "abc"]
    groups = explanation.groups(explained(view(*alike), "cpu=4 mem=1Gi").answers)
    assert [group.names for group in groups] == [("a", "b", "c")]
    groups = explanation.groups(explained(cluster, "cpu=32 mem=4Gi").answers)
    assert [(group.answer.chance, *group.names) for group in groups] == [("fits", "big"), ("never", "small")]


def test_nodes_of_several_classes_that_labels_exclude_are_one_group() -> None:
    nodes = [replace(node(zones, policy="restricted"), name=zones) for zones in ("cpu=8", "cpu=16")]
    found = explained(view(*nodes), "cpu=4 mem=1Gi", spec=SELECTS_B)

    assert [group.names for group in explanation.groups(found.answers)] == [("cpu=16", "cpu=8")]
    assert found.warnings[0] == "no node has pool=b"


def test_a_pod_that_fits_now_is_not_said_to_wait(cluster: ClusterView) -> None:
    fits = explained(cluster, "cpu=8 mem=4Gi")
    warned = replace(fits.pod.decision, warnings=(waits_text(Policy.SINGLE_NUMA_NODE), "another"))

    assert replace(fits, pod=replace(fits.pod, decision=warned)).warnings == ("another",)


def test_the_operating_system_that_no_node_has_is_named() -> None:
    linux = replace(
        node("cpu=8 mem=8Gi", policy=SINGLE),
        attributes=Attributes(Labels({"kubernetes.io/os": "linux"}), os="linux"),
    )
    windows = explained(view(linux), "cpu=4 mem=1Gi", spec={"os": {"name": "windows"}})

    assert "no node has the operating system windows" in windows.warnings


@pytest.mark.parametrize("strategy", Strategy)
def test_every_strategy_gives_a_score(cluster: ClusterView, strategy: Strategy) -> None:
    for answer in explained(cluster, "cpu=8 mem=4Gi", strategy=strategy).answers:
        assert answer.score is not None
        assert 0 <= answer.score <= 100


def test_the_json_holds_the_whole_answer(cluster: ClusterView) -> None:
    found = explained(cluster, "cpu=32 mem=4Gi")
    big, small = (answer.node_class for answer in found.answers)
    same: dict[str, Any] = {"unmet": None, "lacks": {}, "known": "counts", "source": "exporter", "age": None}
    step = {"name": "c0", "role": "container", "asks": {"cpu": "32", "memory": "4Gi"}, "notPinned": []}
    assert json.loads(json.dumps(found.to_json())) == {
        "pod": "pod",
        "namespace": "default",
        "rejected": None,
        "exempt": None,
        "scheduler": None,
        "gate": None,
        "intent": {"policy": SINGLE, "resources": [], "scope": None, "exclusive": None, "from": "pod"},
        "demand": {"qos": "Guaranteed", "containers": [step], "total": {"cpu": "32", "memory": "4Gi"}},
        "nodes": [
            {
                **same,
                "name": "big",
                "class": big,
                "verdict": "fits",
                "reason": None,
                "permanent": False,
                "placement": [{"zones": ["node-1"], "amount": {"cpu": "32", "memory": "4Gi"}}],
                "score": 94,
                "doubts": [Doubt.OPTIONS, Doubt.NO_VERSION, Doubt.INIT_CPUS],
            },
            {
                **same,
                "name": "small",
                "class": small,
                "verdict": "never",
                "reason": "the pod: the node has at most 16 cpu in total",
                "permanent": True,
                "placement": None,
                "score": None,
                "doubts": [Doubt.OPTIONS, Doubt.NO_VERSION],
            },
        ],
        "shapes": [],
        "unknown": ["hidden"],
        "refusal": None,
        "never": None,
        "room": None,
        "quota": None,
        "warnings": [],
    }


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
    small = node("cpu=1 mem=1Gi", policy=SINGLE)
    shapes = (KnownShape(SHAPE, seen=SEEN), KnownShape(shape.of(small), 1))
    found = explained(view(small, shapes=shapes, now=SEEN + 7200), container, spec=spec).to_json()

    [entry] = found["shapes"]
    assert (entry["name"], entry["verdict"], entry["known"]) == (SHAPE.name, verdict, "remembered")
    assert entry["lastSeen"] == "2026-09-21T14:13:20+00:00"
    assert (reason or "") in (entry["reason"] or "")
    hope = "no node that could align the pod exists now; last seen 2 h ago"
    assert (found["warnings"] == [hope]) == (verdict == "later")
