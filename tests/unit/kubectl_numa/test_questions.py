"""Who asks for what: the pod, its namespace, or nobody."""

from dataclasses import replace
from typing import Any

import pytest

from kubectl_numa.questions import ClusterView, PodDecision
from numalign.cache.admission import AdmissionState
from numalign.cache.pod_question import StatedBy
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.errors import BadPod
from numalign.model.intent import UNRULED, Gate, NamespaceRules, Policy
from tests.unit.kubectl_numa.objects import view
from tests.worlds.notation import GPU, node, table
from tests.worlds.webhook import raw, with_spec

SINGLE = {"numalign.io/policy": "single-numa-node"}
VOLCANO = {"volcano.sh/numa-topology-policy": "restricted"}


def ask(container: str, annotations: dict[str, str], rules: NamespaceRules) -> PodDecision:
    """A pod in a namespace with these rules, on no cluster at all."""
    return view(rules=rules).decide(raw(container, annotations=annotations), name="p", namespace="default")


@pytest.mark.parametrize(
    ("annotations", "rules", "policy", "by"),
    table(
        [
            ("nobody asks", {}, UNRULED, None, None),
            ("the pod asks", SINGLE, UNRULED, "single-numa-node", StatedBy.POD),
            ("the pod asks in Volcano's word", VOLCANO, UNRULED, "restricted", StatedBy.POD),
            (
                "its namespace asks",
                {},
                NamespaceRules(default=Policy.RESTRICTED),
                "restricted",
                StatedBy.NAMESPACE,
            ),
            (
                "the pod is heard first",
                SINGLE,
                NamespaceRules(default=Policy.NONE),
                "single-numa-node",
                StatedBy.POD,
            ),
            ("a namespace has opted out", SINGLE, NamespaceRules(disabled=True), None, None),
            (
                "where it has, not even mistakes count",
                {"numalign.io/x": ""},
                NamespaceRules(disabled=True),
                None,
                None,
            ),
        ]
    ),
)
def test_the_intent_is_the_pods_or_its_namespaces(
    annotations: dict[str, str], rules: NamespaceRules, policy: str | None, by: StatedBy | None
) -> None:
    asked = ask("cpu=2 mem=1Gi", annotations, rules)
    assert (asked.intent.policy if asked.intent else None, asked.by) == (policy, by)
    assert asked.question.intent.policy == (policy or "none")


@pytest.mark.parametrize(
    ("container", "annotations", "state"),
    table(
        [
            ("silence is less", "cpu=2 mem=1Gi", {}, AdmissionState.BELOW_ENFORCED),
            ("more is enough", "cpu=2 mem=1Gi", SINGLE, AdmissionState.NOT_KNOWN),
            ("what no kubelet would pin may pass", "cpu=2..4 mem=1Gi", {}, AdmissionState.NOT_ASKED),
        ]
    ),
)
def test_a_namespace_may_enforce_more(
    container: str, annotations: dict[str, str], state: AdmissionState
) -> None:
    asked = ask(container, annotations, NamespaceRules(enforce=Policy.RESTRICTED))
    assert asked.decision.state == state


@pytest.mark.parametrize(
    ("server", "uid", "qos"),
    [(36, None, "Burstable"), (37, None, "Guaranteed"), (37, "1234", "Burstable")],
    ids=["a manifest, stored before 1.37", "a manifest, stored since 1.37", "a pod that is stored"],
)
def test_a_manifest_is_what_the_api_server_will_store(server: int, uid: str | None, qos: str) -> None:
    made = with_spec(
        raw("cpu=2 mem=1Gi", annotations=SINGLE), resources={"requests": {"cpu": "2", "memory": "1Gi"}}
    )
    made["metadata"] |= {"uid": uid} if uid else {}

    decided = view(server=server).decide(made, name="p", namespace="default")

    assert decided.demand.qos == qos


BOTH = NamespaceRules(scheduler="second", gate=Gate.ENABLED)
GATED = NamespaceRules(gate=Gate.ENABLED)
FITTING = node("cpu=8 mem=8Gi", policy="single-numa-node")


@pytest.mark.parametrize(
    ("spec", "annotations", "rules", "placer"),
    table(
        [
            ("a pod that asks", {}, SINGLE, BOTH, ("second", None)),
            ("where gates are wanted", {}, SINGLE, GATED, (None, "numalign.io/placement")),
            ("where nothing is said", {}, SINGLE, UNRULED, (None, None)),
            ("a pod that asks for nothing", {}, {}, BOTH, (None, None)),
            ("one that names another", {"schedulerName": "volcano"}, SINGLE, BOTH, (None, None)),
            ("one on its node", {"nodeName": "n"}, SINGLE, BOTH, (None, None)),
            ("one with more in it than is read", {"tolerations": [{}] * 513}, SINGLE, BOTH, (None, None)),
        ]
    ),
)
def test_who_is_to_place_a_pod(
    spec: dict[str, Any],
    annotations: dict[str, str],
    rules: NamespaceRules,
    placer: tuple[str | None, str | None],
) -> None:
    made = with_spec(raw("cpu=2 mem=1Gi", annotations=annotations), **spec)
    asked = view(FITTING, rules=rules).decide(made, name="p", namespace="default")

    assert (asked.scheduler, asked.gate) == placer


def test_a_pod_that_is_there_already_stays_with_its_scheduler() -> None:
    made = raw("cpu=2 mem=1Gi", annotations=SINGLE)
    made["metadata"]["uid"] = "705ab4f5-6393-11e8-b7cc-42010a800002"
    asked = view(FITTING, rules=BOTH).decide(made, name="p", namespace="default")

    assert (asked.scheduler, asked.gate, asked.handed_over) == (None, None, "")


def test_no_gate_holds_a_pod_that_fits_nowhere() -> None:
    made = raw("cpu=9 mem=1Gi", annotations=SINGLE)

    assert view(FITTING, rules=GATED).decide(made, name="p", namespace="default").gate is None


def test_a_mistake_in_an_annotation_is_raised() -> None:
    with pytest.raises(BadPod, match="unknown key"):
        ask("cpu=2", {"numalign.io/polcy": "none"}, UNRULED)


@pytest.mark.parametrize(
    ("resource", "amount", "told"),
    [("cpu", "many", r"limits\.cpu: \"many\""), (GPU, "0.5", r"limits\[nvidia.com/gpu\]: 0\.5 is not")],
)
def test_what_the_api_server_would_refuse_is_raised_whoever_asks(
    resource: str, amount: str, told: str
) -> None:
    made = raw("cpu=2")
    made["spec"]["containers"][0]["resources"]["limits"][resource] = amount
    for rules in (UNRULED, NamespaceRules(disabled=True)):
        with pytest.raises(BadPod, match=told):
            view(rules=rules).decide(made, name="p", namespace="default")


def test_of_each_place_one_mistake_is_told() -> None:
    made = raw("cpu=2", annotations={"numalign.io/policy": "tight"})
    made["spec"]["containers"][0]["resources"] = {"requests": {GPU: 2, "CPU": 1}, "limits": {GPU: 1}}
    with pytest.raises(BadPod) as caught:
        view().decide(made, name="p", namespace="default")

    assert [mistake.where.rpartition(".resources.")[2] for mistake in caught.value.mistakes] == [
        "metadata.annotations[numalign.io/policy]",
        f"requests[{GPU}]",
        "requests.CPU",
    ]


KEPT_AWAY = [
    # why                        its spec                                            what is told
    ("by nothing",               {"tolerations": [{"operator": "Exists"}]},          None),
    ("by a label",               {"nodeSelector": {"gpu": "a100"}},                  "no node has gpu=a100"),
    ("by a taint",               {"nodeSelector": {"gpu": "h100"}},
     "it does not tolerate the taints of the nodes that it selects"),
    ("by labels of two nodes",   {"nodeSelector": {"gpu": "h100", "pool": "x"}},
     "no node has all labels that its node selector and affinity require"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "told"), table(KEPT_AWAY))
def test_a_pod_is_kept_away(spec: dict[str, Any], told: str | None) -> None:
    nodes = (
        replace(node("cpu=8"), name=value, attributes=Attributes(Labels({key: value}), (Taint("a"),)))
        for key, value in (("gpu", "h100"), ("pool", "x"))
    )
    cluster = view(*nodes)
    pod = with_spec(raw("cpu=2"), **spec)

    assert cluster.kept_away(cluster.decide(pod, name="p", namespace="default")) == told
    assert view().kept_away(cluster.decide(pod, name="p", namespace="default")) is None


def test_a_snapshot_becomes_a_cluster(cluster: ClusterView) -> None:
    assert [node.name for node in cluster.snapshot.nodes] == ["big", "small"]
    assert (cluster.snapshot.unknown, [*cluster.snapshot.bare]) == (("hidden",), ["hidden"])
    assert cluster.policies.rules["closed"].disabled
