"""
What programs print that docs/troubleshooting.md quotes, each text made by the code that prints it.

Pods are reviewed on the bundled cluster, or on some of its nodes where a message needs another cluster.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from kubectl_numa.diagnosis import Finding, FoundOnNode
from numalign.cache import ClusterCache
from numalign.cache.admission import AdmissionState, Refusals, RequestReaction, decide
from numalign.cache.pod_question import PodQuestion
from numalign.decision import doubts, wording
from numalign.decision.verdict import Cause, Need, Refusal, Refuser, Verdict
from numalign.kube.cluster_state import Snapshot
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.files import snapshot
from numalign.model.attributes import Attributes, Labels
from numalign.model.intent import Policy
from numalign.model.node import Known, Node
from numalign.model.placement import Placement
from numalign.model.steps import finished
from numalign.scheduling import reasons
from numalign.scheduling.cpu_quota import CpuQuota
from numalign.shapes import KnownShape, LeftOut
from numalign.shapes.shape import of
from tests.unit.docs.quotes import PAGE, ROOT, rewritten
from tests.worlds.notation import GPU, node
from tests.worlds.webhook import Raw, review_of
from webhook.review import Denied
from webhook.subject import InvalidPod, ReviewedPod, subject
from webhook.validate import refuse_broken, validate
from webhook.workloads import Workload, Workloads, judge, workload

CLUSTER = ROOT / "examples" / "data" / "cluster.yaml"
NOW = 1_700_000_000.0
DAY = 86_400.0

SINGLE, RESTRICTED, BEST_EFFORT = "single-numa-node", "restricted", "best-effort"
POLICY = "numalign.io/policy"


@cache
def bundled() -> Snapshot:
    """The cluster of examples/data."""
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


@dataclass(frozen=True, slots=True)
class Case:
    """A pod that is created in a namespace of a cluster."""

    pod: Raw
    namespace: str = "default"
    refusals: Refusals = _BY_DEFAULT
    nodes: tuple[Node, ...] | None = None
    shapes: tuple[KnownShape, ...] = ()
    bare: bool = True
    left_out: LeftOut | None = None

    @property
    def _cache(self) -> ClusterCache:
        cluster = bundled()
        nodes = cluster.nodes if self.nodes is None else self.nodes
        return ClusterCache.of(nodes, self.shapes, cluster.bare if self.bare else {}, self.left_out)

    @property
    def _subject(self) -> ReviewedPod | InvalidPod:
        try:
            found = subject(review_of(self.pod, namespace=self.namespace), bundled(), reader=PodReader())
        except InvalidPod as error:
            return error
        assert isinstance(found, ReviewedPod), f"numalign does not look at it: {found}"
        return found

    @property
    def _decide(self) -> Callable[[PodQuestion], Any]:
        return partial(decide, cache=self._cache, refusals=self.refusals, now=NOW)

    @property
    def state(self) -> AdmissionState | None:
        """What the decision rests on; None for a pod that cannot be read."""
        reviewed = self._subject
        if isinstance(reviewed, InvalidPod):
            return None
        state: AdmissionState = self._decide(reviewed.request).state
        return state

    @property
    def text(self) -> str:
        """The denial, or all warnings, a line each."""
        reviewed = self._subject
        if isinstance(reviewed, InvalidPod):
            return refuse_broken(reviewed).message
        answer = validate(reviewed.request, self._decide)
        return answer.message if isinstance(answer, Denied) else "\n".join(answer.warnings)


def named(*names: str) -> tuple[Node, ...]:
    """Nodes of the bundled cluster."""
    return tuple(each for each in bundled().nodes if each.name in names)


def _tolerating(key: str, value: str) -> list[Raw]:
    return [{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}]


_GONE = KnownShape(of(named("dgx-1")[0]), seen=NOW - 2 * DAY)
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

CASES: Mapping[str, Case] = MappingProxyType(
    {
        # Denials.
        "never": Case(pod(gpus=8)),
        "below-enforced": Case(pod(""), "prod"),
        "leaves-out": Case(pod(gpus=1, annotations={"numalign.io/resources": "memory"}), "prod"),
        "contradicts-taint": Case(
            pod(BEST_EFFORT, cpu="500m", tolerations=_tolerating("CPUAffinity", "dedicated")),
            refusals=Refusals(taints=RequestReaction.DENY),
        ),
        "unknown-word": Case(pod("single-numa")),
        "unknown-key": Case(pod("", annotations={"numalign.io/polcy": SINGLE})),
        "two-policies": Case(pod(annotations={"volcano.sh/numa-topology-policy": BEST_EFFORT})),
        "no-policy": Case(pod("", annotations={"numalign.io/scope": "pod"})),
        "exclusive-too-loose": Case(pod(BEST_EFFORT, annotations={"numalign.io/exclusive": "zone"})),
        "bad-resources": Case(pod(annotations={"numalign.io/resources": "rdma/*hca"})),
        "empty-resource": Case(pod(annotations={"numalign.io/resources": "nvidia.com/gpu,,rdma/*"})),
        "not-a-resource": Case(pod(annotations={"numalign.io/resources": "nvidia gpu"})),
        "resource-twice": Case(pod(annotations={"numalign.io/resources": "cpu,cpu"})),
        "many-resources": Case(pod(annotations={"numalign.io/resources": ",".join(map(str, range(65)))})),
        "long-resource": Case(pod(annotations={"numalign.io/resources": f"example.com/{'a' * 320}"})),
        "bad-amount": Case(pod(cpu="-1")),
        "bad-quantity": Case(pod(memory="64Gx")),
        "contradicts-strict-taint": Case(
            pod(BEST_EFFORT, tolerations=_tolerating("NUMACPUAffinity", "strict")),
            refusals=Refusals(taints=RequestReaction.DENY),
        ),
        "partly-aligned": Case(
            _with_sidecar(pod(gpus=1)), refusals=Refusals(partial=RequestReaction.DENY), bare=False
        ),
        # Warnings.
        "never-best-effort": Case(pod(BEST_EFFORT, gpus=9), bare=False),
        "waits": Case(pod(cpu="32", memory="256Gi", gpus=4, devices={"rdma/hca": "1"})),
        "not-known": Case(pod(), nodes=()),
        "not-matched": Case(pod(nodeSelector={"pool": "gold"})),
        "unknown-node": Case(pod(gpus=4), nodes=named("cpu-1")),
        "unknown-resource": Case(pod(devices={"nvidia.com/gpuu": "1"}), bare=False),
        "gone": Case(pod(gpus=4), nodes=named("cpu-1"), shapes=(_GONE,), bare=False),
        "declared": Case(pod(gpus=4), nodes=named("cpu-1"), shapes=(_DECLARED,), bare=False),
        "may-grow": Case(pod(gpus=8), nodes=(_POOLED,), bare=False),
        "left-out": Case(pod(gpus=8), nodes=named("dgx-1"), bare=False, left_out=LeftOut(0.0)),
        "kept-away": Case(
            pod(gpus=4, nodeSelector={"pool": "gold"}), nodes=named("dgx-1"), shapes=(_LABELLED,), bare=False
        ),
        "not-answered": Case(pod(cpu="2", memory="1Gi", gpus=1), nodes=(_VAST,), bare=False),
        "not-when-empty": Case(
            pod(cpu="14", memory="1Gi", initContainers=[_PREPARING]), nodes=(_RESERVING,), bare=False
        ),
        "node-not-answered": Case(
            pod(cpu="2", memory="1Gi", gpus=1, nodeName="many-zones"), nodes=(_VAST,), bare=False
        ),
        "nothing-to-align": Case(_shared(pod())),
        "partial": Case(_with_sidecar(pod(gpus=1))),
        "partial-cpu": Case(pod(cpu="3500m", gpus=1)),
        "resources-name-nothing": Case(pod(annotations={"numalign.io/resources": "example.com/nic"})),
        "resources-not-requested": Case(pod(gpus=1, annotations={"numalign.io/resources": "cpu,gpu"})),
        "below-warn": Case(pod(RESTRICTED), "lab"),
        "node-never": Case(pod(nodeName="legacy-1")),
        "node-now": Case(pod(cpu="32", memory="256Gi", gpus=4, nodeName="dgx-1")),
        "daemon": Case(_of_daemon(pod(gpus=9)), bare=False),
        "taint-no-cpus": Case(
            _shared(pod(gpus=1, tolerations=_tolerating("NUMACPUAffinity", "strict"))), refusals=_ONLY_TAINTS
        ),
        "taint-memory": Case(
            _shared(pod(gpus=1, tolerations=_tolerating("NUMAMemoryPolicy", "strict"))), refusals=_ONLY_TAINTS
        ),
        "taint-cpus": Case(pod(BEST_EFFORT, tolerations=_tolerating("NUMACPUAffinity", "strict"))),
        "left-as-it-is": Case(pod(affinity=_CROWDED)),
        "dra": Case(pod(resourceClaims=_CLAIM)),
    }
)


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
    """What whoever applies a workload reads."""
    group, _, version = str(made["apiVersion"]).rpartition("/")
    kind = {"group": group, "version": version, "kind": made["kind"]}
    review = review_of(made, kind=kind, namespace=namespace)
    reviewed = finished(workload(review, bundled(), reader=PodReader()))
    assert isinstance(reviewed, Workload), f"numalign does not look at it: {reviewed}"
    cluster = bundled()
    cluster_cache = ClusterCache.of(cluster.nodes, (), cluster.bare)
    answer = judge(
        reviewed, partial(decide, cache=cluster_cache, refusals=_BY_DEFAULT, now=NOW), mode=Workloads.WARN
    )
    return answer.message if isinstance(answer, Denied) else "\n".join(answer.warnings)


def _deployment(made: Raw, **metadata: object) -> Raw:
    return _applied("Deployment", "apps/v1", {"replicas": 3, "template": _template(made)}, **metadata)


def _workloads() -> dict[str, str]:
    stray = _deployment(pod(""), annotations={POLICY: SINGLE})
    unknown = _applied("Training", "example.com/v1", {"worker": _template(pod())})
    computed = _applied("NIMService", "apps.nvidia.com/v1alpha1", {"worker": _template(pod())})
    silent = {"worker": _template(pod(""))}
    many = {"worker": _template(pod()), "others": [[]] * 30_000}
    model = {"runtime": "triton", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "workload-below-enforced": _of_workload(_deployment(pod(BEST_EFFORT)), namespace="prod"),
        "workload-bad": _of_workload(_deployment(pod("single-numa"))),
        "workload-astray": _of_workload(stray),
        "workload-guessed": _of_workload(unknown),
        "workload-too-large": _of_workload(_applied("Training", "example.com/v1", many)),
        "workload-computed": _of_workload(computed),
        "workload-handed-on": _of_workload(
            _applied("Training", "example.com/v1", silent, annotations={POLICY: SINGLE})
        ),
        "workload-partial": _of_workload(
            _applied(
                "InferenceService",
                "serving.kserve.io/v1beta1",
                {"predictor": {"model": model}},
                annotations={POLICY: SINGLE},
            )
        ),
    }


# What nodes are said to lack, by cause.

_POD = partial(Refusal, Refuser.KUBELET)
_GPUS, _CPUS = Need(GPU, 8, 1, 4), Need("cpu", 60_000, 2, 48_000)
_MEMORY = Need("memory", 10 * 2**30, 1, 100 * 2**30)

_REFUSALS: Mapping[Cause, Refusal] = MappingProxyType(
    {
        each.cause: each
        for each in (
            _POD("", Cause.ZONES_TOO_SMALL, Policy.SINGLE_NUMA_NODE, "main", needs=(_GPUS,)),
            _POD("", Cause.NO_SUCH_ZONE, Policy.SINGLE_NUMA_NODE, "main", needs=(_GPUS,)),
            _POD("", Cause.WIDTHS_DIFFER, Policy.RESTRICTED, "main", needs=(_CPUS, _MEMORY)),
            _POD("", Cause.NOT_TOGETHER, Policy.SINGLE_NUMA_NODE, "main", needs=(_GPUS, _MEMORY)),
            _POD("", Cause.SPREAD, Policy.RESTRICTED, "main", needs=(_CPUS,)),
            _POD("", Cause.NOT_ALONE, Policy.SINGLE_NUMA_NODE, zones=("node-0",)),
            _POD("", Cause.NOT_SHARED, Policy.SINGLE_NUMA_NODE, zones=("node-1",)),
            _POD(
                "",
                Cause.NOT_EXCLUSIVE,
                Policy.RESTRICTED,
                "main",
                needs=(_CPUS,),
                detail='container "main" sets no cpu limit (the pod is Burstable)',
            ),
            _POD(
                "",
                Cause.NOT_WHOLE_CORES,
                Policy.NONE,
                "main",
                needs=(Need("cpu", 3000, 2, 8000),),
                detail="2",
            ),
            _POD("", Cause.NOTHING_TO_SHARE, Policy.NONE, needs=(_CPUS,)),
            _POD("", Cause.OTHER_POLICY, Policy.SINGLE_NUMA_NODE, detail=RESTRICTED),
            _POD("", Cause.NOT_ALLOCATED, Policy.NONE, "main", needs=(_MEMORY,)),
            _POD("", Cause.NODE_TOO_SMALL, Policy.NONE, needs=(replace(_GPUS, zones=2),)),
            _POD("", Cause.NOT_ALIGNED, Policy.SINGLE_NUMA_NODE, "main", detail="none"),
            _POD("", Cause.NOT_ANSWERED, Policy.SINGLE_NUMA_NODE, "main"),
        )
    }
)


def _now(refusal: Refusal) -> Verdict:
    return Verdict(refusal, permanent=False, placement=Placement(), known=Known.COUNTS)


def _causes() -> dict[str, Sequence[str]]:
    """As a denial tells them of one node that is empty, and a scheduler of nodes as they are."""
    return {
        cause.value: [
            wording.refused(refusal, free="").partition(": the node ")[2],
            reasons.reason(_now(refusal)),
        ]
        for cause, refusal in _REFUSALS.items()
    }


@cache
def messages() -> dict[str, str]:
    """Every message by name, as it is printed."""
    unfit = reasons.reason(_now(_REFUSALS[Cause.ZONES_TOO_SMALL]))
    return {
        **{name: case.text for name, case in CASES.items() if name not in MISTAKES},
        **_workloads(),
        "scheduler-cause": f"0/3 nodes are available: 3 {unfit}.",
        "scheduler-unknown": reasons.UNKNOWN,
        "scheduler-waiting": reasons.WAITING,
        "scheduler-pod-group": reasons.POD_GROUP,
        "scheduler-quota": reasons.over_quota(CpuQuota("team", used=18, limit=20).why_not(4)),
    }


@cache
def tables() -> dict[str, dict[str, Sequence[str]]]:
    """The rows of every table by name, each with its texts."""
    return {
        "annotation-mistakes": {name: [CASES[name].text] for name in MISTAKES},
        "causes": _causes(),
        "doctor-findings": {
            finding.value: [str(FoundOnNode(finding, "", "").to_json("")["what"])] for finding in Finding
        },
        "doubts": {doubt.value: [sentence] for doubt, sentence in doubts.SENTENCES.items()},
    }


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(), messages(), tables()))
