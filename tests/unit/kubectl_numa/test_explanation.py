"""The answers of nodes and shapes to a pod, with reasons, as explain prints them and as JSON."""

import io
import json
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
from rich.console import Console

from kubectl_numa import explanation, pages
from kubectl_numa.explanation import Explanation
from kubectl_numa.lines import TextWriter
from kubectl_numa.questions import ClusterView
from numalign.cache.admission import waits_text
from numalign.decision.doubts import Doubt
from numalign.kube.decode.scheduling import REQUIRED
from numalign.model.attributes import Attributes, Labels
from numalign.model.intent import CLASS_LABEL, Gate, NamespaceRules, Policy
from numalign.model.node import Known, Node, node_class
from numalign.shapes import KnownShape, shape
from tests.unit.kubectl_numa.conftest import Cli, FakeCluster
from tests.unit.kubectl_numa.objects import (
    SERVICE,
    SINGLE,
    deployment,
    manifest,
    rejected,
    running,
    state,
    view,
)
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


def test_a_pod_that_fits_has_no_warning_of_waiting(cluster: ClusterView) -> None:
    fits = explained(cluster, "cpu=8 mem=4Gi")
    warned = replace(fits.pod.decision, warnings=(waits_text(Policy.SINGLE_NUMA_NODE), "another"))

    assert replace(fits, pod=replace(fits.pod, decision=warned)).warnings == ("another",)


def test_json_has_all_facts(cluster: ClusterView) -> None:
    result = explained(cluster, "cpu=32 mem=4Gi")
    big, small = (answer.node_class for answer in result.answers)
    amount = {"cpu": "32", "memory": "4Gi"}
    same: dict[str, Any] = {"unmet": None, "lacks": {}, "known": "counts", "source": "exporter", "age": None}
    fits = same | {"name": "big", "class": big, "verdict": "fits", "reason": None, "permanent": False}
    never = same | {"name": "small", "class": small, "verdict": "never", "permanent": True, "score": None}
    fits |= {"score": 94, "placement": [{"zones": ["node-1"], "amount": amount}]}
    never |= {"reason": "the pod: the node has at most 16 cpu in total", "placement": None}
    doubts = [Doubt.OPTIONS, Doubt.NO_VERSION]
    step = {"name": "c0", "role": "container", "asks": amount, "notPinned": []}
    absent = ("rejected", "exempt", "scheduler", "gate", "refusal", "never", "room", "quota")
    assert json.loads(json.dumps(result.to_json())) == {
        **dict.fromkeys(absent),
        "pod": "pod",
        "namespace": "default",
        "intent": {"policy": SINGLE, "resources": [], "scope": None, "exclusive": None, "from": "pod"},
        "demand": {"qos": "Guaranteed", "containers": [step], "total": amount},
        "nodes": [
            {**fits, "doubts": [*doubts, Doubt.INIT_CPUS]},
            {**never, "doubts": doubts},
        ],
        "shapes": [],
        "unknown": ["hidden"],
        "warnings": [],
    }


SEEN = 1_790_000_000.0
SHAPE = shape.of(GPU_NODE)


SHAPES: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("large enough", "gpu=2", {}, "later", ""),
    ("too small", "gpu=5", {}, "never", "at most 4 nvidia.com/gpu"),
    ("other labels", "gpu=2", SELECTS_B, "never", f"its nodes {AFFINITY}"),
]


@pytest.mark.parametrize(("gpus", "spec", "verdict", "reason"), table(SHAPES))
def test_answer_of_a_shape(gpus: str, spec: dict[str, Any], verdict: str, reason: str) -> None:
    small = node("cpu=1 mem=1Gi", policy=SINGLE)
    shapes = (KnownShape(SHAPE, seen=SEEN), KnownShape(shape.of(small), 1))
    result = explained(view(small, shapes=shapes, now=SEEN + 7200), f"cpu=4 mem=1Gi {gpus}", **spec).to_json()
    [entry] = result["shapes"]
    hope = "no node that could align the pod exists now; last seen 2 h ago"

    assert (entry["name"], entry["verdict"], entry["known"]) == (SHAPE.name, verdict, "remembered")
    assert entry["lastSeen"] == "2026-09-21T14:13:20+00:00"
    assert reason in (entry["reason"] or "")
    assert (result["warnings"] == [hope]) == (verdict == "later")


ALIGNED = {"numalign.io/policy": SINGLE}


def shown(
    cluster: ClusterView,
    container: str,
    annotations: dict[str, str] = ALIGNED,
    *,
    depth: bool = False,
    limit: int | None = None,
) -> str:
    """The page of a pod, and each node in depth."""
    decided = cluster.decide(raw(container, annotations=annotations), name="pod", namespace="default")
    pod = explanation.explain(decided, cluster, state(cluster))
    written = io.StringIO()
    writer = TextWriter(Console(file=written, width=80))
    pages.show(pod, writer, now=cluster.now, limit=limit)
    for answer in pod.answers if depth else ():
        pages.show_node(pod, answer, writer)
    return written.getvalue()


def test_a_page_has_groups_of_nodes(cluster: ClusterView) -> None:
    big, small = (node_class(each) for each in cluster.cluster.nodes)

    assert shown(cluster, "cpu=32 mem=4Gi") == (
        'default/pod requests single-numa-node alignment\n  container "c0": 32 cpu, 4Gi memory\n  1 of 2'
        " nodes can run it now, 1 never; no NUMA topology published by hidden\n\n  fits    94 big\n        "
        f"     class {big}\n             gets  zone 1: 32 cpu, 4Gi memory\n             rank  94 of 100: one"
        " zone of two (12 deducted for each), no closer\n                   ones exist (6 added)\n\n  never"
        f"      small\n             class {small}\n             why   the pod: the node has at most 16 cpu"
        " in total\n\n  based on   counts of 2 nodes; unknown: options, no version, init cpus\n"
    )


def test_beyond_the_limit_nodes_are_counted_by_reason() -> None:
    full, busy = node("cpu=8/8/2 mem=8Gi", policy=SINGLE), node("cpu=8 mem=8Gi", policy="restricted")
    cordoned = replace(busy, attributes=Attributes(cordoned=True))
    small = node("cpu=2 mem=8Gi", policy=SINGLE, totals="cpu=2 mem=8Gi")
    nodes = {"a": busy, "b": full, "c": full, "d": cordoned, "e": small, "f": replace(busy, threads=2)}
    cluster = view(*(replace(each, name=name) for name, each in nodes.items()))
    page = shown(cluster, "cpu=4 mem=1Gi", limit=1)

    assert page[page.index("  and ") :] == (
        "  and 4 more nodes (--limit 0 shows them all)\n  later       2 have no NUMA zone with 4 cpu and"
        " 1Gi memory free\n  later       1 were unschedulable\n  never       1 have less than 4 cpu in"
        " total\n\n  based on   counts of 6 nodes; unknown: options, no version, init cpus\n"
    )
    assert "a, f" in page


def test_reports_of_agents_have_their_age() -> None:
    made = replace(node("cpu=8 mem=8Gi", policy=SINGLE), known=Known.MACHINE)
    nodes = (replace(made, name="a"), replace(made, name="b"), replace(made, known=Known.COUNTS))
    cluster = view(*nodes, now=1_790_000_000.0, observed_at={"a": 1_789_999_990.0, "b": 1_789_999_000.0})
    words = " ".join(shown(cluster, "cpu=4 mem=1Gi").split())

    assert "based on machine of 2 nodes from their agents, counts of 1 node; unknown: " in words
    assert words.endswith("; stale: the agent of 1 node")


PLAIN = node("cpu=8 mem=8Gi", policy="restricted")


def ruled(made: Node = PLAIN, **rules: Any) -> ClusterView:  # noqa: ANN401  any value
    return view(made, rules=NamespaceRules(**rules))


SENTENCES = [
    # the cluster, the container, its annotations, and a part of the text
    ("routed", ruled(scheduler="second"), "cpu=4 mem=1Gi", ALIGNED,
        "4 cpu, 1Gi memory would be assigned to the scheduler second by its namespace "),
    ("gated", ruled(gate=Gate.ENABLED), "cpu=4 mem=1Gi", ALIGNED,
        "4 cpu, 1Gi memory would be held by the scheduling gate numalign.io/placement if the webhook runs"),
    ("denied", ruled(), "cpu=33 mem=4Gi", ALIGNED, " denied: no node can align "),
    ("refused by kubelets", ruled(), "cpu=33 mem=4Gi", {}, " never: no node can run "),
    ("below enforce", ruled(enforce=Policy.RESTRICTED), "cpu=8 mem=4Gi", {},
        (' denied: namespace "default" enforces NUMA alignment of at least restricted, and the pod requests'
        " none. Set annotation numalign.io/policy to restricted or single-numa-node.")),
    ("no room now", ruled(node("cpu=8/8/2 mem=8Gi", policy=SINGLE)), "cpu=4 mem=1Gi", ALIGNED,
        ' now container "c0": the node has at most 2 cpu free in one NUMA zone (Topology Manager policy'),
    ("no nodes", view(), "cpu=4 mem=1Gi", ALIGNED,
        "no node publishes a NUMA topology, so no node can be evaluated"),
    ("all annotations", ruled(), "cpu=2", {**ALIGNED, "numalign.io/resources": "cpu, memory",
        "numalign.io/scope": "pod"}, "requests single-numa-node alignment of cpu, memory, scope pod"),
    ("exclusive", ruled(default=Policy.RESTRICTED), "cpu=2", {"numalign.io/exclusive": "zone"},
        "requests restricted alignment (namespace default), exclusive in its NUMA zones"),
    ("exempt", ruled(disabled=True), "cpu=2", ALIGNED, ("is not checked: its namespace is labelled"
        " numalign.io/admission: disabled; each node's kubelet policy applies")),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "container", "annotations", "part"), table(SENTENCES))
def test_a_sentence_of_the_page(
    cluster: ClusterView, container: str, annotations: dict[str, str], part: str
) -> None:
    words = " ".join(shown(cluster, container, annotations).split())

    assert part in words
    assert ("would be" in words) == ("would be" in part)


def test_a_node_in_depth_has_its_zones_and_shortages() -> None:
    best_effort = view(node("cpu=4 mem=8Gi", "cpu=4 mem=8Gi", policy="best-effort"))

    assert shown(best_effort, "cpu=6 mem=1Gi", depth=True).endswith(
        "\nnode  best-effort, scope container\n  known: counts, reported by an exporter\n "
        f" {node_class(best_effort.cluster.nodes[0])}\n  not labelled\n          cpu                  "
        " memory\n  zone 0  ░░░░░░░░░░░░░░░░ 0/4  ░░░░░░░░░░░░░░░░ 0/8Gi\n  zone 1  ░░░░░░░░░░░░░░░░ 0/4 "
        " ░░░░░░░░░░░░░░░░ 0/8Gi\n  would allocate     zone 0: 4 cpu; zone 0 and zone 1 together: 1Gi"
        " memory;\n                     zone 1: 2 cpu\n  short in           zone 0: cpu 6 requested, 4"
        " free\n  short in           zone 1: cpu 6 requested, 4 free\n  topology hint      container c0:"
        " zone 0, zone 1, not preferred\n  node as a whole    requested 6 cpu, 1Gi memory; total unknown\n "
        " unknown            the kubelet's options are unknown; none are assumed\n  unknown            the"
        " kubelet's version is unknown; the newest tested version\n                     is assumed\n"
    )


def test_flags_decide_how_a_manifest_is_explained(cli: Cli) -> None:
    restricted = manifest("a", policy="restricted")
    [most], [least] = (
        cli.json(*cli.explain(manifest("a")), "--strategy", strategy)
        for strategy in ("MostAllocated", "LeastAllocated")
    )

    assert "(namespace default)" in cli.text(*cli.explain(manifest("a")), "-n", "eager")
    equal = 'Topology Manager policy "single-numa-node", not "restricted"'
    assert equal in cli.text(*cli.explain(restricted), "--policy-match", "equal")
    in_depth = cli.text(*cli.explain(manifest("a", "32", policy="restricted")), "--node", "big")
    assert "  topology hint      container main: zone 1, preferred" in in_depth
    assert (most["nodes"][0]["score"], least["nodes"][0]["score"]) == (53, 46)


def test_a_rejected_pod_begins_with_its_rejection(cli: Cli) -> None:
    path = cli.cluster(rejected("no"))
    first, second = cli.text("explain", "no", "--snapshot", path).splitlines()[:2]
    [document] = cli.json("explain", "no", "--snapshot", path)

    reason, message = "TopologyAffinityError", "Resources cannot be allocated"
    assert first == f"rejected by big 4 min ago: {reason}: {message}"
    assert second == "default/no requests no NUMA alignment; each node's kubelet policy applies"
    assert document["rejected"].pop("at").startswith("20")
    assert document["rejected"] == {
        "node": "big",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
    }


def test_manifests_come_through_a_pipe(cli: Cli) -> None:
    result = cli("explain", "-f", "-", "--snapshot", cli.cluster(), stdin=json.dumps(manifest("piped", "1")))

    assert result.stdout.startswith("default/piped ")


def test_text_has_a_limit_and_json_has_every_node(cli: Cli) -> None:
    words = (*cli.explain(manifest("a", "32")), "--limit")
    more = "  and 1 more node (--limit 0 shows them all)\n"

    assert [cli.text(*words, limit).count(more) for limit in (1, 2, 0)] == [1, 0, 0]
    assert [node["name"] for node in cli.json(*words, 1)[0]["nodes"]] == ["big", "small"]


TRAINING = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "train"}}
TIGHT = 'document 3 (Pod c): metadata.annotations[numalign.io/policy]: "tight"'


def test_unexplained_objects_are_on_standard_error(cli: Cli) -> None:
    pods = (manifest("a", "many"), manifest("b", "1"), manifest("c", "1", policy="tight"))
    mistakes, none, elsewhere = (
        cli(*cli.explain(*objects), width=400) for objects in (pods, [SERVICE], [TRAINING])
    )

    assert (mistakes.exit_code, mistakes.stdout[:10]) == (2, "default/b ")
    assert "document 1 (Pod a): spec.containers[0].resources.limits.cpu: " in mistakes.stderr
    assert TIGHT in mistakes.stderr
    assert (none.exit_code, none.stdout, elsewhere.exit_code, elsewhere.stdout) == (0, "", 0, "")
    assert "nothing to explain: the manifests contain no pods\n1 object without pods: 1 Serv" in none.stderr
    assert "document 1: the pods of a TrainJob.trainer.kubeflow." in elsewhere.stderr


def test_workloads_are_explained_by_name(cli: Cli, served: FakeCluster) -> None:
    """Of a snapshot, of a cluster, and of a type whose version only the cluster knows."""
    trainer = deployment("big", "eager") | {"apiVersion": "example.com/v1beta3", "kind": "Trainer"}
    served.api.documents |= {
        "/apis/apps/v1/namespaces/eager/deployments/web": deployment("web", "eager"),
        "/apis/example.com": {"preferredVersion": {"version": "v1beta3"}},
        "/apis/example.com/v1beta3/namespaces/eager/trainers/big": trainer,
    }
    live = ("--kubeconfig", served.kubeconfig)

    [web] = cli.json("explain", "deploy/web", *live)
    assert (web["namespace"], web["demand"]["total"]) == ("eager", {"cpu": "4", "memory": "4Gi"})
    assert len(cli.json("explain", "trainers.example.com/big", *live)) == 1
    [web] = cli.json("explain", "deploy/web", "--snapshot", cli.cluster(deployment("web")))
    assert web["namespace"] == "default"


def test_nodes_are_listed_as_names_and_as_a_table(cli: Cli) -> None:
    assert cli.text(*cli.explain(manifest("a", "4")), "-o", "name") == "node/big\nnode/small\n"
    one = cli.explain(manifest("a", "20", policy=SINGLE))
    assert cli.text(*one, "-o", "name") == "node/big\n"
    heading, *lines = cli.text(*one, "-o", "wide").splitlines()
    assert heading.split() == ["POD", "NODE", "VERDICT", "SCORE", "ZONES", "CLASS", "REASON"]
    assert [line.split()[:4] for line in lines] == [
        ["default/a", "big", "fits", "94"],
        ["default/a", "small", "never", "<none>"],
    ]
    assert "zone 1: 20 cpu, 4Gi memory" in lines[0]


def test_pods_that_the_exporter_lacks_count(cli: Cli, served: FakeCluster) -> None:
    """Unless they may not be listed."""
    pod = cli.write("p.yaml", manifest("a", "16", policy=SINGLE))
    words = ("explain", "-f", pod, "--kubeconfig", served.kubeconfig)

    def verdicts() -> list[str]:
        return [node["verdict"] for node in cli.json(*words)[0]["nodes"]]

    assert verdicts() == ["fits", "never"]
    served.put(*(running(name, cpu="30") for name in "bc"))
    assert (verdicts(), cli(*words).stderr) == (["later", "never"], "")
    served.api.failures["/api/v1/pods"] = HTTPStatus.FORBIDDEN
    assert verdicts() == ["fits", "never"]
    assert "pods: unknown, so only what nodes report is counted: " in cli(*words).stderr
