"""
What programs print that docs/troubleshooting.md quotes, each text made by the code that prints it.

Pods are reviewed on the bundled cluster, or on some of its nodes where a message needs another cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from kubectl_numa.diagnosis import Finding, FoundOnNode
from numalign.cache import ClusterCache
from numalign.cache.admission import AdmissionState, Refusals, RequestReaction, decide
from numalign.decision import doubts, wording
from numalign.decision.verdict import Cause, Need, Refusal, Refuser, Verdict
from numalign.kube.cluster import Cluster
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.files import snapshot
from numalign.model.attributes import Attributes, Labels
from numalign.model.intent import Policy
from numalign.model.node import Known, Node
from numalign.model.placement import Placement
from numalign.model.steps import finished
from numalign.scheduling import node_answers
from numalign.scheduling.cpu_quota import CpuQuota
from numalign.shapes import KnownShape, LeftOut, UnknownNode
from numalign.shapes.shape import of
from tests.unit.docs.blocks import ROOT
from tests.unit.docs.quotes import PAGE, rewritten
from tests.worlds.notation import GPU, node
from tests.worlds.webhook import Raw, review_of
from webhook.handlers import validate
from webhook.review import Denied, InvalidPod, ReviewedPod, created_pod, refuse_broken
from webhook.workloads import Workload, Workloads, judge, workload

CLUSTER = ROOT / "examples" / "data" / "cluster.yaml"
NOW = 1_700_000_000.0

SINGLE, RESTRICTED, BEST_EFFORT = "single-numa-node", "restricted", "best-effort"
POLICY = "numalign.io/policy"


@cache
def bundled() -> Cluster:
    return snapshot.load(CLUSTER)


def pod(  # noqa: PLR0913  what messages are about
    policy: str = SINGLE,
    *,
    cpu: str = "16",
    memory: str = "64Gi",
    gpus: int = 0,
    devices: Mapping[str, str] = MappingProxyType({}),
    annotations: Mapping[str, str] = MappingProxyType({}),
    **spec: object,
) -> Raw:
    """A v1 Pod with one container whose requests are its limits; an empty policy is none."""
    gpu = {GPU: str(gpus)} if gpus else {}
    limits = {"cpu": cpu, "memory": memory, **gpu, **devices}
    stated = {POLICY: policy} if policy else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "trainer", "annotations": {**stated, **annotations}},
        "spec": {
            "containers": [
                {"name": "main", "image": "trainer:1", "resources": {"requests": limits, "limits": limits}}
            ],
            **spec,
        },
    }


_BY_DEFAULT = Refusals()


def _bare(cluster: Cluster) -> dict[str, UnknownNode]:
    return {name: state.bare for name, state in cluster.states.items() if state.bare}


def _answer(  # noqa: PLR0913  what an answer depends on
    made: Raw,
    namespace: str = "default",
    refusals: Refusals = _BY_DEFAULT,
    *,
    nodes: tuple[Node, ...] | None = None,
    shapes: tuple[KnownShape, ...] = (),
    bare: bool = True,
    left_out: LeftOut | None = None,
) -> tuple[AdmissionState | None, str]:
    """What the decision about a new pod rests on, and the denial, or all warnings, a line each."""
    cluster = bundled()
    known = cluster.nodes if nodes is None else nodes
    cache = ClusterCache.of(known, shapes, _bare(cluster) if bare else {}, left_out)
    try:
        policy = EffectivePolicy.of(cluster)
        found = created_pod(review_of(made, namespace=namespace), policy, reader=PodReader())
    except InvalidPod as error:
        return None, refuse_broken(error).message
    assert isinstance(found, ReviewedPod), f"numalign does not look at it: {found}"
    decision = decide(found.request, cache, refusals, now=NOW)
    answer = validate(found.request, decision)
    text = answer.message if isinstance(answer, Denied) else "\n".join(answer.warnings)
    return decision.state, text


def named(*names: str) -> tuple[Node, ...]:
    return tuple(each for each in bundled().nodes if each.name in names)


def _tolerating(key: str, value: str) -> list[Raw]:
    return [{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}]


_GONE = KnownShape(of(named("dgx-1")[0]), seen=NOW - 2 * 86_400)
_DECLARED = KnownShape(of(named("dgx-1")[0]), declared=True)
_LABELLED = KnownShape(of(replace(named("dgx-1")[0], attributes=Attributes(Labels({"pool": "gold"})))))
_POOLED = replace(named("dgx-1")[0], attributes=Attributes(Labels({"karpenter.sh/nodepool": "default"})))
_VAST = replace(node(*["cpu=8 mem=64Gi gpu=2"] * 18, policy=SINGLE), name="many-zones")
_RESERVING = replace(node("cpu=16/13 mem=64Gi", "cpu=16 mem=64Gi", policy=SINGLE), name="dgx-1")
_PREPARING = {
    "name": "prep",
    "image": "prep:1",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
}
_OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}
_TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
_CROWDED = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM] * 513}}
}
_CLAIM = [{"name": "nic", "resourceClaimTemplateName": "nic"}]


def _of_daemon(made: Raw) -> Raw:
    return {**made, "metadata": {**made["metadata"], "ownerReferences": [_OWNER]}}


def _shared(made: Raw) -> Raw:
    """The same pod with requests below its limits."""
    [container] = made["spec"]["containers"]
    limits = container["resources"]["limits"]
    amounts = {"limits": limits, "requests": {**limits, "cpu": "1"}}
    return {**made, "spec": {**made["spec"], "containers": [{**container, "resources": amounts}]}}


def _with_sidecar(made: Raw) -> Raw:
    """The same pod with a sidecar that sets no limits, as service meshes inject it."""
    containers = [*made["spec"]["containers"], {"name": "proxy", "image": "proxy:1"}]
    return {**made, "spec": {**made["spec"], "containers": containers}}


_ONLY_TAINTS = Refusals(partial=RequestReaction.IGNORE)


@cache
def cases() -> dict[str, tuple[AdmissionState | None, str]]:
    """What numalign says about pods, by name."""
    return {
        # Denials.
        "never": _answer(pod(gpus=8)),
        "below-enforced": _answer(pod(""), "prod"),
        "leaves-out": _answer(pod(gpus=1, annotations={"numalign.io/resources": "memory"}), "prod"),
        "contradicts-taint": _answer(
            pod(BEST_EFFORT, cpu="500m", tolerations=_tolerating("CPUAffinity", "dedicated")),
            refusals=Refusals(taints=RequestReaction.DENY),
        ),
        "unknown-word": _answer(pod("single-numa")),
        "unknown-key": _answer(pod("", annotations={"numalign.io/polcy": SINGLE})),
        "two-policies": _answer(pod(annotations={"volcano.sh/numa-topology-policy": BEST_EFFORT})),
        "no-policy": _answer(pod("", annotations={"numalign.io/scope": "pod"})),
        "exclusive-too-loose": _answer(pod(BEST_EFFORT, annotations={"numalign.io/exclusive": "zone"})),
        "bad-resources": _answer(pod(annotations={"numalign.io/resources": "rdma/*hca"})),
        "empty-resource": _answer(pod(annotations={"numalign.io/resources": "nvidia.com/gpu,,rdma/*"})),
        "not-a-resource": _answer(pod(annotations={"numalign.io/resources": "nvidia gpu"})),
        "resource-twice": _answer(pod(annotations={"numalign.io/resources": "cpu,cpu"})),
        "many-resources": _answer(pod(annotations={"numalign.io/resources": ",".join(map(str, range(65)))})),
        "long-resource": _answer(pod(annotations={"numalign.io/resources": f"example.com/{'a' * 320}"})),
        "bad-amount": _answer(pod(cpu="-1")),
        "bad-quantity": _answer(pod(memory="64Gx")),
        "contradicts-strict-taint": _answer(
            pod(BEST_EFFORT, tolerations=_tolerating("NUMACPUAffinity", "strict")),
            refusals=Refusals(taints=RequestReaction.DENY),
        ),
        "partly-aligned": _answer(
            _with_sidecar(pod(gpus=1)), refusals=Refusals(partial=RequestReaction.DENY), bare=False
        ),
        # Warnings.
        "never-best-effort": _answer(pod(BEST_EFFORT, gpus=9), bare=False),
        "waits": _answer(pod(cpu="32", memory="256Gi", gpus=4, devices={"rdma/hca": "1"})),
        "not-known": _answer(pod(), nodes=()),
        "not-matched": _answer(pod(nodeSelector={"pool": "gold"})),
        "unknown-node": _answer(pod(gpus=4), nodes=named("cpu-1")),
        "unknown-resource": _answer(pod(devices={"nvidia.com/gpuu": "1"}), bare=False),
        "gone": _answer(pod(gpus=4), nodes=named("cpu-1"), shapes=(_GONE,), bare=False),
        "declared": _answer(pod(gpus=4), nodes=named("cpu-1"), shapes=(_DECLARED,), bare=False),
        "may-grow": _answer(pod(gpus=8), nodes=(_POOLED,), bare=False),
        "left-out": _answer(pod(gpus=8), nodes=named("dgx-1"), bare=False, left_out=LeftOut(0.0)),
        "kept-away": _answer(
            pod(gpus=4, nodeSelector={"pool": "gold"}), nodes=named("dgx-1"), shapes=(_LABELLED,), bare=False
        ),
        "not-answered": _answer(pod(cpu="2", memory="1Gi", gpus=1), nodes=(_VAST,), bare=False),
        "not-when-empty": _answer(
            pod(cpu="14", memory="1Gi", initContainers=[_PREPARING]), nodes=(_RESERVING,), bare=False
        ),
        "node-not-answered": _answer(
            pod(cpu="2", memory="1Gi", gpus=1, nodeName="many-zones"), nodes=(_VAST,), bare=False
        ),
        "nothing-to-align": _answer(_shared(pod())),
        "partial": _answer(_with_sidecar(pod(gpus=1))),
        "partial-cpu": _answer(pod(cpu="3500m", gpus=1)),
        "resources-name-nothing": _answer(pod(annotations={"numalign.io/resources": "example.com/nic"})),
        "resources-not-requested": _answer(pod(gpus=1, annotations={"numalign.io/resources": "cpu,gpu"})),
        "below-warn": _answer(pod(RESTRICTED), "lab"),
        "node-never": _answer(pod(nodeName="legacy-1")),
        "node-now": _answer(pod(cpu="32", memory="256Gi", gpus=4, nodeName="dgx-1")),
        "daemon": _answer(_of_daemon(pod(gpus=9)), bare=False),
        "taint-no-cpus": _answer(
            _shared(pod(gpus=1, tolerations=_tolerating("NUMACPUAffinity", "strict"))), refusals=_ONLY_TAINTS
        ),
        "taint-memory": _answer(
            _shared(pod(gpus=1, tolerations=_tolerating("NUMAMemoryPolicy", "strict"))), refusals=_ONLY_TAINTS
        ),
        "taint-cpus": _answer(pod(BEST_EFFORT, tolerations=_tolerating("NUMACPUAffinity", "strict"))),
        "left-as-it-is": _answer(pod(affinity=_CROWDED)),
        "dra": _answer(pod(resourceClaims=_CLAIM)),
    }


MISTAKES = (
    *("unknown-word", "unknown-key", "two-policies", "no-policy", "exclusive-too-loose", "bad-resources"),
    *("empty-resource", "not-a-resource", "resource-twice", "many-resources", "long-resource"),
)
"""Cases of annotations that cannot be read, which are rows of a table."""


# Workloads.


def _applied(kind: str, version: str, spec: object, **metadata: object) -> Raw:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "web", **metadata}, "spec": spec}


def _template(made: Raw) -> Raw:
    return {"metadata": {"annotations": made["metadata"]["annotations"]}, "spec": made["spec"]}


def _of_workload(made: Raw, *, namespace: str = "default") -> str:
    group, _, version = str(made["apiVersion"]).rpartition("/")
    kind = {"group": group, "version": version, "kind": made["kind"]}
    cluster = bundled()
    reviewed = finished(
        workload(
            review_of(made, kind=kind, namespace=namespace),
            EffectivePolicy.of(cluster),
            reader=PodReader(),
            server=cluster.server,
        )
    )
    assert isinstance(reviewed, Workload), f"numalign does not look at it: {reviewed}"
    cache = ClusterCache.of(cluster.nodes, (), _bare(cluster))
    answers = partial(decide, cache=cache, refusals=_BY_DEFAULT, now=NOW)
    answer = judge(reviewed, answers, mode=Workloads.WARN)
    return answer.message if isinstance(answer, Denied) else "\n".join(answer.warnings)


def _workloads() -> dict[str, str]:
    def deployment(made: Raw, **metadata: object) -> Raw:
        return _applied("Deployment", "apps/v1", {"replicas": 3, "template": _template(made)}, **metadata)

    worker = {"worker": _template(pod())}
    model = {"runtime": "triton", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    training, marked = ("Training", "example.com/v1"), {POLICY: SINGLE}
    serving = ("InferenceService", "serving.kserve.io/v1beta1", {"predictor": {"model": model}})
    made = {
        "bad": deployment(pod("single-numa")),
        "astray": deployment(pod(""), annotations=marked),
        "guessed": _applied(*training, worker),
        "too-large": _applied(*training, {**worker, "others": [[]] * 30_000}),
        "computed": _applied("NIMService", "apps.nvidia.com/v1alpha1", worker),
        "handed-on": _applied(*training, {"worker": _template(pod(""))}, annotations=marked),
        "partial": _applied(*serving, annotations=marked),
    }
    below = _of_workload(deployment(pod(BEST_EFFORT)), namespace="prod")
    return {f"workload-{name}": _of_workload(each) for name, each in made.items()} | {
        "workload-below-enforced": below
    }


# What nodes are said to lack, by cause.

_GPUS, _CPUS = Need(GPU, 8, 1, 4), Need("cpu", 60_000, 2, 48_000)
_MEMORY = Need("memory", 10 * 2**30, 1, 100 * 2**30)
_BURSTABLE = 'container "main" sets no cpu limit (the pod is Burstable)'


def _lacking(cause: Cause, policy: str, *needs: Need, container: str = "main", **more: Any) -> Refusal:  # noqa: ANN401
    return Refusal(Refuser.KUBELET, "", cause, Policy(policy), container, needs=needs, **more)


_REFUSALS = (
    _lacking(Cause.ZONES_TOO_SMALL, SINGLE, _GPUS),
    _lacking(Cause.NO_SUCH_ZONE, SINGLE, _GPUS),
    _lacking(Cause.WIDTHS_DIFFER, RESTRICTED, _CPUS, _MEMORY),
    _lacking(Cause.NOT_TOGETHER, SINGLE, _GPUS, _MEMORY),
    _lacking(Cause.SPREAD, RESTRICTED, _CPUS),
    _lacking(Cause.NOT_ALONE, SINGLE, container="", zones=("node-0",)),
    _lacking(Cause.NOT_SHARED, SINGLE, container="", zones=("node-1",)),
    _lacking(Cause.NOT_EXCLUSIVE, RESTRICTED, _CPUS, detail=_BURSTABLE),
    _lacking(Cause.NOT_WHOLE_CORES, "none", Need("cpu", 3000, 2, 8000), detail="2"),
    _lacking(Cause.NOTHING_TO_SHARE, "none", _CPUS, container=""),
    _lacking(Cause.OTHER_POLICY, SINGLE, container="", detail=RESTRICTED),
    _lacking(Cause.NOT_ALLOCATED, "none", _MEMORY),
    _lacking(Cause.NODE_TOO_SMALL, "none", replace(_GPUS, zones=2), container=""),
    _lacking(Cause.NOT_ALIGNED, SINGLE, detail="none"),
    _lacking(Cause.NOT_ANSWERED, SINGLE),
)


def _now(refusal: Refusal) -> Verdict:
    return Verdict(refusal, permanent=False, placement=Placement(), known=Known.COUNTS)


def _causes() -> dict[str, Sequence[str]]:
    """As a denial tells them of one node that is empty, and a scheduler of nodes as they are."""
    return {
        each.cause.value: [
            wording.refused(each, free="").partition(": the node ")[2],
            node_answers.reason(_now(each)),
        ]
        for each in _REFUSALS
    }


@cache
def messages() -> dict[str, str]:
    unfit = node_answers.reason(_now(_REFUSALS[0]))
    return {
        **{name: text for name, (_, text) in cases().items() if name not in MISTAKES},
        **_workloads(),
        "scheduler-cause": f"0/3 nodes are available: 3 {unfit}.",
        "scheduler-unknown": node_answers.NO_TOPOLOGY,
        "scheduler-waiting": node_answers.WAITING,
        "scheduler-pod-group": node_answers.POD_GROUP,
        "scheduler-quota": node_answers.over_quota(CpuQuota("team", used=18, limit=20).why_not(4)),
    }


@cache
def tables() -> dict[str, dict[str, Sequence[str]]]:
    """The rows of every table by name, each with its texts."""
    return {
        "annotation-mistakes": {name: [cases()[name][1]] for name in MISTAKES},
        "causes": _causes(),
        "doctor-findings": {
            finding.value: [str(FoundOnNode(finding, "", "").to_json("")["what"])] for finding in Finding
        },
        "doubts": {doubt.value: [sentence] for doubt, sentence in doubts.SENTENCES.items()},
    }


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(), messages(), tables()))
