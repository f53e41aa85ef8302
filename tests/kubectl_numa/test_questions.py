"""Who asks for what: the pod, its namespace, or nobody."""

import pytest

from kubectl_numa import questions
from kubectl_numa.questions import By, Cluster
from numalign.rules.errors import BadIntent
from numalign.rules.intent import UNRULED, NamespaceRules, Policy
from tests.notation import pod, table

SINGLE = {"numalign.io/policy": "single-numa-node"}
VOLCANO = {"volcano.sh/numa-topology-policy": "restricted"}


@pytest.mark.parametrize(
    ("annotations", "rules", "policy", "by"),
    table(
        [
            ("nobody asks", {}, UNRULED, None, None),
            ("the pod asks", SINGLE, UNRULED, "single-numa-node", By.POD),
            ("the pod asks in Volcano's word", VOLCANO, UNRULED, "restricted", By.POD),
            ("its namespace asks", {}, NamespaceRules(default=Policy.RESTRICTED), "restricted", By.NAMESPACE),
            (
                "the pod is heard first",
                SINGLE,
                NamespaceRules(default=Policy.NONE),
                "single-numa-node",
                By.POD,
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
    annotations: dict[str, str], rules: NamespaceRules, policy: str | None, by: By | None
) -> None:
    asked = questions.ask(pod("cpu=2 mem=1Gi", annotations=annotations), {"default": rules})
    assert (asked.intent.policy if asked.intent else None, asked.by) == (policy, by)
    assert asked.question.intent.policy == (policy or "none")


@pytest.mark.parametrize(
    ("container", "annotations", "below"),
    table(
        [
            ("silence is less", "cpu=2 mem=1Gi", {}, Policy.RESTRICTED),
            ("more is enough", "cpu=2 mem=1Gi", SINGLE, None),
            ("what no kubelet would pin may pass", "cpu=2..4 mem=1Gi", {}, None),
        ]
    ),
)
def test_a_namespace_may_enforce_more(
    container: str, annotations: dict[str, str], below: Policy | None
) -> None:
    rules = {"default": NamespaceRules(enforce=Policy.RESTRICTED)}
    assert questions.ask(pod(container, annotations=annotations), rules).below is below


def test_a_mistake_in_an_annotation_is_raised() -> None:
    with pytest.raises(BadIntent, match="numalign has no such key"):
        questions.ask(pod("cpu=2", annotations={"numalign.io/polcy": "none"}), {})


def test_a_snapshot_becomes_a_cluster(cluster: Cluster) -> None:
    assert [node.name for node in cluster.fleet.nodes] == ["big", "small"]
    assert (cluster.unknown, cluster.fleet.unknown) == (("hidden",), 1)
    assert cluster.namespaces["closed"].disabled
